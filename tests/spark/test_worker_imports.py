"""A process that runs tasks loads neither the SQL parser nor the solver, and nothing of what only the driver needs.

Such a process starts in a fraction of the time, and an executor needs neither package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash
from clash.spark.dataframe_job import DataFrameJob
from clash.spark.rdd_job import RddJob

FORBIDDEN = ("sqlglot", "highspy", "clash.sql", "clash.planner", "clash.topology", "clash.coordinator")
JOIN = "SELECT R.a + 1 AS next, R.ts FROM R JOIN S ON R.a = S.a WHERE S.a < 7"
TASKS = 8  # that look into their process: more than there are processes, so that each of them answers


def modules_of_rdd_workers(spark: Any) -> list[frozenset[str]]:
    """The modules that are loaded where RDDs run Python."""

    def loaded(_rows: Iterable[int]) -> Iterator[list[str]]:
        import sys

        yield list(sys.modules)

    return [frozenset(names) for names in spark.sparkContext.parallelize(range(TASKS), TASKS).mapPartitions(loaded).collect()]


def modules_of_dataframe_workers(spark: Any) -> list[frozenset[str]]:
    """The modules that are loaded where DataFrames run Python: Spark gives those processes an environment of their own."""

    def loaded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyarrow

        list(batches)
        yield pyarrow.record_batch({"names": pyarrow.array([list(sys.modules)])})

    df = spark.range(TASKS, numPartitions=TASKS).mapInArrow(loaded, "names array<string>")
    return [frozenset(row["names"]) for row in df.collect()]


@pytest.mark.parametrize(
    ("job", "source", "modules"),
    [
        (RddJob, lambda df: df, modules_of_rdd_workers),
        (DataFrameJob, lambda df: df.selectExpr("a + 0 AS a", "ts"), modules_of_dataframe_workers),
    ],
    ids=["files that tasks read", "rows that Spark reads"],
)
def test_workers_load_nothing_of_the_driver(
    spark: Any,
    checkpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: Any,
    source: Callable[[Any], Any],
    modules: Callable[[Any], list[frozenset[str]]],
) -> None:
    monkeypatch.setitem(
        spark.sparkContext.environment, "CLASH_TEST", tmp_path.name
    )  # another environment: new processes, of this test alone
    batches: list[int] = []
    run_job = job.run
    monkeypatch.setattr(job, "run", lambda self, spec: (batches.append(spec.batch), run_job(self, spec))[1])
    engine = clash.Engine(spark, checkpoint, workers=2)
    for stream in "RS":
        (tmp_path / stream).mkdir()
        for file in range(2):
            rows = pa.table({"a": range(10), "ts": pa.array([file * 1_000_000] * 10, pa.timestamp("us", tz="UTC"))})
            pq.write_table(rows, tmp_path / stream / f"{file}.parquet")
        df = spark.readStream.schema("a bigint, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / stream))
        engine.stream(stream, source(df), time="ts", window="1 minute", lateness="1 second")
    engine.query("q", JOIN)
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    assert run.results("q").count() == 7 * 4
    assert batches == [0, 1]

    clash_workers = [names for names in modules(spark) if "clash.workers.round" in names]
    assert clash_workers
    for names in clash_workers:
        assert sorted(name for name in names if name.startswith(tuple(f"{package}." for package in FORBIDDEN)) or name in FORBIDDEN) == []
