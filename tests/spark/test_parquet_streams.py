"""Which streams tasks read themselves, and that results are the same as when Spark reads them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash
from clash.spark.parquet_streams import local_path, plain_streams
from clash.spark.rdd_job import RddJob

from .files import JOIN, counted, declare, expected, table, write


def test_plain_streams_are_parquet_files_with_columns_chosen_and_renamed(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "R").mkdir()

    def stored(change: Any = lambda df: df, **options: Any) -> Any:
        reader = spark.readStream.schema("a bigint, x string, ts timestamp").options(**options)
        found = plain_streams({"R": change(reader.parquet(str(tmp_path / "R")))})
        return None if found is None else found["R"].columns

    assert stored(maxFilesPerTrigger=1) == {"a": "a", "x": "x", "ts": "ts"}
    assert stored(lambda df: df.select("x", "a")) == {"x": "x", "a": "a"}
    assert stored(lambda df: df.withColumnRenamed("a", "b").select("b", df.x.alias("a"))) == {"b": "a", "a": "x"}
    assert stored(mergeSchema=True) is None
    assert stored(datetimeRebaseMode="LEGACY") is None
    assert stored(lambda df: df.where("a > 1").withColumnRenamed("a", "b").where("b < 9").select("b")) == {"b": "a"}
    assert stored(lambda df: df.where("a + 1 > 1")) is None
    assert stored(lambda df: df.selectExpr("a + 1 AS a")) is None
    assert stored(lambda df: df.select("a", "_metadata.file_name")) is None
    assert stored(lambda df: df.union(df)) is None
    lines = spark.readStream.schema("a bigint").json(str(tmp_path / "R"))
    assert plain_streams({"R": lines}) is None
    assert plain_streams({"R": spark.readStream.format("rate").load()}) is None
    for setting in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.parquet.fieldId.read.enabled"):
        spark.conf.set(setting, "true")
        assert stored() is None
        spark.conf.unset(setting)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("file:///a/b%20c.parquet", "/a/b c.parquet"),
        ("file:/a/b.parquet", "/a/b.parquet"),
        ("file:///a/day=1/b.parquet", None),
        ("file:///a/day%3D1/b.parquet", None),
        ("hdfs://host/a.parquet", None),
        ("file://host/a.parquet", None),
    ],
)
def test_only_local_files_outside_partition_folders(name: str, path: str | None) -> None:
    assert local_path(name) == path


def test_tasks_read_what_they_can_and_spark_the_rest(spark: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_by_tasks: list[int] = []
    run_job = RddJob.run
    monkeypatch.setattr(RddJob, "run", lambda self, spec: (read_by_tasks.append(spec.batch), run_job(self, spec))[1])
    write(tmp_path, range(8))
    narrow = table("S", 3).set_column(0, "a", table("S", 3)["a"].cast(pa.int32()))
    path = tmp_path / "S" / "003.parquet"
    written = path.stat().st_mtime_ns
    pq.write_table(narrow, path)  # batch 1: Spark widens it
    os.utime(path, ns=(written, written))  # files come in the order of their times
    engine = clash.Engine(spark, checkpoint, workers=2, cost="probe")  # under this cost model there are several rounds
    declare(engine, spark, tmp_path)
    engine.query("q", JOIN)
    run = engine.start(available_now=True)
    run.await_termination(300)
    found = run.results("q").toArrow()
    pq.write_table(table("S", 3), path)
    assert counted(found) == expected(tmp_path, found.schema)
    assert read_by_tasks == [0, 2, 3]
    assert "2 rounds per batch" in run.explain()
