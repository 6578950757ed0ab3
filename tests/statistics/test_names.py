"""Columns of any name have statistics, and plans are made with them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clash.coordinator.inspection import statistics
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics, column_text
from clash.model.stream import Stream

NAMES = ["unit price", "a-b", "größe", "x = y", "`", "R.a", "1st", "SELECT", "is ok?"]


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_any_name_has_statistics(name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    streams = [Stream.of(stream, {name: "bigint", "flag": "boolean", f"{name} is set": "boolean"}) for stream in ("R", "S", "T")]
    text = f"SELECT R.{quoted} FROM R JOIN S ON R.{quoted} = S.{quoted} JOIN T ON T.{quoted} = S.{quoted}"
    engine = InProcessEngine(streams, {"q": f"{text} WHERE R.`{quoted[1:-1]} is set` AND S.{quoted} < 9", "p": text}, adaptive=True)
    rows = pa.table({name: [*range(12)] * 4, "flag": [True] * 48, f"{name} is set": [True, False] * 24})
    for _ in range(3):
        engine.batch(dict.fromkeys(("R", "S", "T"), rows))
    found = statistics(engine.coordinator)
    assert found is not None
    assert found.equality(column_text("R", name), column_text("S", name)) == pytest.approx(1 / 12, rel=0.2)
    assert engine.coordinator.generation.setup.optimize(found).queries
    assert Statistics.from_json(found.to_json()) == found
