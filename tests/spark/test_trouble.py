"""Failures are reported with what failed, and a new start continues from there."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash
from clash.spark.batch_function import BatchFunction
from clash.spark.query_supervisor import QuerySupervisor

from .files import JOIN, counted, declare, expected, write


def test_a_broken_file_a_killed_worker_and_a_sink_that_throws(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    killed, handed = str(tmp_path / "killed"), []

    def die_once(value: int) -> int:
        if not os.path.exists(killed):  # noqa: PTH110
            Path(killed).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    def sink(df: Any, batch: int) -> None:
        handed.append((batch, counted(df.toArrow())))
        if len(handed) == 1:
            raise ValueError("the table is locked")

    def engine() -> Any:
        made = clash.Engine(spark, checkpoint, workers=2)
        deadly = F.udf(die_once, "bigint", useArrow=False)("x")
        declare(made, spark, tmp_path, lambda df: df.withColumn("x", deadly) if "x" in df.columns else df)
        made.query("q", JOIN)
        made.query("each", JOIN, sink=clash.sinks.ForeachBatch(sink))
        return made

    write(tmp_path, range(2))
    broken = tmp_path / "S" / "001.parquet"
    whole = broken.read_bytes()
    broken.write_bytes(b"this is not Parquet, but long enough for a footer")
    Path(killed).touch()
    with pytest.raises(clash.SourceError) as unreadable:
        engine().start(available_now=True).await_termination(300)
    assert unreadable.value.what == "stream S cannot be read"
    assert "batch 0, file file:" in unreadable.value.detail
    assert "S/001.parquet" in unreadable.value.detail

    broken.write_bytes(whole)
    Path(killed).unlink()
    run = engine().start(available_now=True)
    with pytest.raises(clash.SinkError) as locked:
        run.await_termination(300)
    assert Path(killed).exists()  # and the batch was run again without being asked to
    assert run.exception is locked.value
    assert locked.value.what == "the sink of query each failed"
    assert locked.value.detail == "batch 0: ValueError: the table is locked"

    write(tmp_path, range(2, 4))
    run = engine().start(available_now=True)
    assert run.await_termination(300)
    schema = run.results("q").toArrow().schema
    assert counted(run.results("q").toArrow()) == expected(tmp_path, schema)
    assert [batch for batch, _ in handed] == [0, 0, 1]
    assert handed[0] == handed[1]
    assert handed[1][1] + handed[2][1] == expected(tmp_path, schema)


def test_a_value_without_an_answer(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    """Raised in a Python worker, it arrives as what it was, with its query and batch."""
    for stream in "RS":
        (tmp_path / stream).mkdir()
        pq.write_table(pa.table({"a": [1, 2, 0]}), tmp_path / stream / "0.parquet")
    engine = clash.Engine(spark, checkpoint, workers=2)
    for stream in "RS":
        engine.stream(stream, spark.readStream.schema("a bigint").parquet(str(tmp_path / stream)))
    engine.query("q", "SELECT 10 / R.a AS share FROM R JOIN S ON R.a = S.a")
    run = engine.start()
    with pytest.raises(clash.DataError) as caught:
        run.process_all_available()
    assert "query q, batch 0" in caught.value.detail
    assert not run.is_active
    assert run.results("q").count() == 0
    run.stop()


def test_a_stop_in_a_batch_reaches_spark_as_a_short_error(
    spark: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the text of what failed Spark looks for an interrupt, and its thread dies of a long one: pages on standard error."""
    inside, go = Event(), Event()
    raised: list[Exception] = []
    batch = QuerySupervisor._batch

    def fail(_function: Any, _df: Any, _batch: int) -> None:
        inside.set()
        go.wait(60)
        raise RuntimeError("py4j.protocol.Py4JJavaError: An error occurred while calling o1.collect\n" + "\tat a.b.c(D.scala:1)\n" * 20_000)

    def watched(*given: Any) -> None:
        try:
            batch(*given)
        except Exception as error:
            raised.append(error)
            raise

    monkeypatch.setattr(BatchFunction, "__call__", fail)
    monkeypatch.setattr(QuerySupervisor, "_batch", watched)
    write(tmp_path, range(1))
    engine = clash.Engine(spark, checkpoint, workers=1)
    declare(engine, spark, tmp_path)
    engine.query("q", JOIN)
    run = engine.start()
    assert inside.wait(120)
    stop = Thread(target=run.stop, daemon=True)
    stop.start()
    while run._supervisor.handle.isActive:
        go.wait(0.01)
    go.set()
    stop.join(60)
    assert not stop.is_alive()
    assert run.exception is None
    assert ["InterruptedException" in str(error) and len(str(error)) < 200 for error in raised] == [True]
    assert run._supervisor.handle.exception() is None


def test_results_of_a_dropped_query_are_handed_over_first(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    handed: Counter[int] = Counter()

    def sink(df: Any, batch: int) -> None:
        if not handed:
            handed[batch] = 0
            raise ValueError("the table is locked")
        handed[batch] += df.count()

    def engine(*dropped: str) -> Any:
        made = clash.Engine(spark, checkpoint, workers=2)
        declare(made, spark, tmp_path)
        for name, chosen in {"q": None, "each": clash.sinks.ForeachBatch(sink)}.items():
            if name not in dropped:
                made.query(name, JOIN, sink=chosen)
        return made

    write(tmp_path, range(2))
    with pytest.raises(clash.SinkError):
        engine().start(available_now=True).await_termination(300)
    with pytest.raises(clash.CheckpointError) as refused:
        engine("each").start(available_now=True)
    assert refused.value.what == "results of a query that is dropped are not handed over"
    assert refused.value.detail.startswith("query each, batch 0:")
    run = engine().start(available_now=True)
    assert run.await_termination(300)
    assert handed[0] == sum(expected(tmp_path, run.results("q").toArrow().schema).values()) > 0
    write(tmp_path, range(2, 3))
    assert engine("each").start(available_now=True).await_termination(300)
    assert set(handed) == {0}
