"""A stream that is retained for queries to come: keep="all"."""

from __future__ import annotations

import pyarrow as pa

from clash import Stream
from clash.inprocess.engine import InProcessEngine


def test_a_stream_that_no_query_reads_is_stored() -> None:
    streams = [Stream.of("R", {"a": "bigint"}), Stream.of("S", {"a": "bigint"})]
    retained = Stream.of("V", {"a": "bigint", "x": "string"}, keep="all")
    engine = InProcessEngine([*streams, retained], {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a"}, workers=2)
    engine.batch({"R": _rows(1, 2), "S": _rows(2), "V": pa.table({"a": pa.array([1, 2, 3], pa.int64()), "x": ["p", "q", "r"]})})
    change = engine.add_query("v", "SELECT R.a, V.x FROM R JOIN V ON R.a = V.a")
    engine.batch({"R": _rows(3, 1)})
    assert (change.batch, change.complete_from) == (1, 1)
    assert sorted(engine.results("v").to_pylist(), key=str) == [{"a": 1, "x": "p"}, {"a": 3, "x": "r"}]


def test_a_plan_that_waits_for_a_boundary_is_extended_by_later_streams() -> None:
    """Once, the plan had been made without the stream, so the change was refused, and nothing of the stream was retained."""
    streams = [Stream.of("R", {"a": "bigint"}), Stream.of("S", {"a": "bigint"})]
    engine = InProcessEngine(streams, {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a"}, workers=2, epoch=3)
    engine.batch({"R": _rows(1), "S": _rows(2)})
    given = engine.replan(engine.coordinator.generation.plan)
    stream = engine.add_stream(Stream.of("V", {"a": "bigint"}, keep="all"))
    engine.batch({"R": _rows(2), "V": _rows(1, 2)})
    assert (given.batch, stream.batch) == (1, 1)
    engine.add_query("v", "SELECT R.a FROM R JOIN V ON R.a = V.a")
    for number in range(3):
        engine.batch({"R": _rows(number)})
    assert sorted(engine.results("v")["a"].to_pylist()) == [2]


def _rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})
