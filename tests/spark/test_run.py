"""Whole runs on Spark: sources to sinks, and on after a stop."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash

from .files import JOIN, counted, declare, expected, write


def test_all_sinks_agree_and_a_restart_goes_on(spark: Any, checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handed: dict[int, pa.Table] = {}

    def engine() -> Any:
        made = clash.Engine(spark, checkpoint, workers=2)
        declare(made, spark, tmp_path)
        made.query("kept", JOIN)
        made.query("files", JOIN, sink=clash.sinks.Parquet(tmp_path / "out"))
        made.query("memory", JOIN, sink=clash.sinks.Memory())
        made.query("each", JOIN, sink=clash.sinks.ForeachBatch(lambda df, batch: handed.update({batch: df.toArrow()})))
        made.query("shown", "SELECT R.a, S.b FROM R JOIN S ON R.a = S.a", sink=clash.sinks.Console(rows=3))
        return made

    write(tmp_path, range(4))
    run = engine().start(available_now=True)
    assert run.await_termination(300)
    assert not run.is_active
    assert run.progress["batch"] == 1
    schema = run.results("kept").toArrow().schema
    half = expected(tmp_path, schema)
    assert counted(run.results("kept").toArrow()) == half
    assert counted(run.results("memory").toArrow()) == half

    write(tmp_path, range(4, 6))
    run = engine().start(available_now=True)
    assert run.await_termination(300)
    whole = expected(tmp_path, schema)
    assert whole != half
    assert counted(run.results("kept").toArrow()) == whole
    assert counted(run.results("files").toArrow()) == whole
    assert counted(pq.read_table(tmp_path / "out")) == whole
    assert counted(run.results("memory").toArrow()) == whole - half  # of this process' run only
    assert sorted(handed) == [0, 1, 2]
    assert counted(pa.concat_tables(handed.values())) == whole
    assert run.progress["batch"] == 2
    assert run.progress["input"] == {"R": 240, "S": 240, "T": 240}
    assert run.progress["totals"]["batches"] == 1
    assert run.progress["durationMs"]["triggerExecution"] > 0
    assert run.progress["watermarks"]["R"].startswith("1970-01-01T00:00:02.99")  # of the batches before it
    assert len(run.recent_progress) == 1
    assert run.progress["delay"].keys() == {"R", "S", "T"}
    assert run.progress["backlog"] == {}
    assert str(run) == f"run: ended\n  queries: 5, streams: 3, workers: 2, last batch: 2\n  checkpoint {checkpoint}"
    shown = capsys.readouterr().out
    assert "shown, batch 2: " in shown
    assert "more" in shown
    with pytest.raises(clash.OptionError, match="not kept"):
        run.results("each")
    with pytest.raises(clash.OptionError, match="unknown query"):
        run.results("keep")
    behind = run.result_stream("files").groupBy().count()
    query = behind.writeStream.format("memory").queryName("behind").outputMode("complete").trigger(availableNow=True).start()
    query.awaitTermination()
    assert spark.table("behind").collect()[0][0] == sum(whole.values())


def test_payloads_late_rows_and_unused_streams(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    """Nested types travel along; a row below the watermark, or without a time, is put aside; a stream that no query uses is read past."""
    kind = "a int, t timestamp, `od d` struct<A: array<int>, m: map<string, decimal(5,2)>>, n timestamp_ntz"

    def deliver(file: int, rows: list[str]) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{file}.json").write_text("\n".join(rows))

    def row(a: int, second: int | None) -> str:
        time = "null" if second is None else f'"2026-01-01T00:00:{second:02d}Z"'
        return f'{{"a": {a}, "t": {time}, "od d": {{"A": [{a}, null], "m": {{"k": {a}.25}}}}, "n": "2026-01-01T00:00:00"}}'

    deliver(0, [row(1, 10), row(2, 20), row(3, None)])
    source = spark.readStream.schema(kind).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    engine = clash.Engine(spark, checkpoint, workers=2)
    engine.stream("U", source.select("a"))
    engine.stream("R", source, time="t", lateness="5 seconds")
    engine.stream("S", source.select("a", "t"), time="t", lateness="5 seconds")
    engine.query("q", "SELECT R.a, R.`od d` AS p, R.n, S.t FROM R JOIN S ON R.a = S.a WHERE R.a + 1 > 0")
    run = engine.start(trigger="100 milliseconds")
    try:
        run.process_all_available()
        deliver(1, [row(2, 14), row(1, 30)])
        run.process_all_available()
    finally:
        run.stop()
    assert run.exception is None
    found = run.results("q").toArrow().to_pylist()
    assert Counter(r["a"] for r in found) == {1: 4, 2: 1}
    assert {str(r["p"]["A"]) for r in found if r["a"] == 1} == {"[1, None]"}
    assert {str(dict(r["p"]["m"])) for r in found if r["a"] == 2} == {"{'k': Decimal('2.25')}"}
    assert run.results("q").schema["n"].dataType.simpleString() == "timestamp_ntz"
    late = run.late("R").collect()
    assert sorted((r["a"], r["t"] is None) for r in late) == [(2, False), (3, True)]
    assert run.progress["totals"]["late"] == {"R": 2, "S": 2}
    assert run.late("U").count() == 0


def test_self_joins_and_steps_over_several_rounds(spark: Any, checkpoint: str) -> None:
    """A source that never ends, stopped in the middle, and one worker more than cores."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
    engine = clash.Engine(spark, checkpoint, workers=3)
    engine.stream("R", rate.selectExpr("value AS a", "value % 7 AS b"))
    engine.stream("S", rate.selectExpr("value AS c", "value % 7 AS b"))
    engine.query("pairs", "SELECT x.a, y.a AS other FROM R x JOIN R y ON x.b = y.b WHERE x.a < y.a", sink=clash.sinks.Memory())
    engine.query("three", "SELECT R.a, S.c, z.a AS z FROM R JOIN S ON R.a = S.c JOIN R z ON S.b = z.b")
    run = engine.start()
    with pytest.raises(clash.OptionError, match="runs already"):
        engine.start()
    while run.progress["totals"]["batches"] < 3 and run.is_active:
        run.await_termination(0.1)
    run.stop()
    run.stop()
    assert run.exception is None
    rows = run.progress["totals"]["input"]["R"]
    assert rows == run.progress["totals"]["input"]["S"]
    values = range(rows)
    groups = Counter(value % 7 for value in values)
    assert run.results("pairs").count() == sum(n * (n - 1) // 2 for n in groups.values())
    assert run.results("three").count() == sum(groups[value % 7] for value in values)


def test_files_that_wait(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    """Two files of each stream are read at a time: what Spark has listed besides is known while the first batch is at its sink."""
    seen = []
    write(tmp_path, range(8))
    engine = clash.Engine(spark, checkpoint, workers=2, name="shop")
    declare(engine, spark, tmp_path)
    engine.query("q", JOIN, sink=clash.sinks.ForeachBatch(lambda df, batch: seen.append(run.progress["backlog"]) if batch else None))
    run = engine.start(trigger="2 seconds")
    assert str(run).startswith("run shop: active\n  queries: 1, streams: 3, workers: 2, ")
    while len(seen) < 2 and run.is_active:
        run.await_termination(0.1)
    run.stop()
    assert seen[0] == {"R": {"files": 4}, "S": {"files": 4}, "T": {"files": 4}}


def test_two_runs_over_one_checkpoint(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    write(tmp_path, range(1))
    made = [clash.Engine(spark, checkpoint, workers=2, adaptive=False) for _ in range(2)]
    for engine in made:
        declare(engine, spark, tmp_path)
        engine.query("q", JOIN)
    run = made[0].start()
    with pytest.raises(clash.ClashError, match="another run has this checkpoint"):
        made[1].start()
    run.process_all_available()
    run.stop()
    second = made[1].start(available_now=True)
    assert second.await_termination(300)
