"""Changes that several clients request at once, as those of the control API do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa

from clash.coordinator.control.changes import Change
from clash.errors import TakenNameError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

CLIENTS = 8


def test_one_of_many_additions_of_a_name_succeeds() -> None:
    streams = [Stream.of(name, {"a": "bigint", "b": "bigint"}) for name in "RST"]
    engine = InProcessEngine(streams, {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a"})
    rows = dict.fromkeys("RST", pa.table({"a": [1], "b": [9]}))
    engine.batch(rows)
    begin = Barrier(CLIENTS)

    def add(number: int) -> Change | TakenNameError:
        begin.wait(60)
        try:
            return engine.add_query("same", f"SELECT R.a FROM R JOIN T ON R.a = T.a AND R.b > {number}")
        except TakenNameError as error:
            return error

    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = [*clients.map(add, range(CLIENTS))]
    (change,) = [answer for answer in answers if isinstance(answer, Change)]
    engine.batch(rows)
    assert change.wait(60) == 1
    assert engine.coordinator.generation.setup.query_names == ("q", "same")
    assert engine.results("same").num_rows > 0
