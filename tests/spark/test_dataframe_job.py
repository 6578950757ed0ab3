"""Batches whose rows Spark reads: as one task, or as several where one finds more rows than it takes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import clash
from clash.spark import batch_function
from clash.spark.dataframe_job import DataFrameJob
from clash.spark.task_choice import MAX_ROWS, TaskChoice


class OneTask(TaskChoice):
    def is_one_task(self, rows: int, rounds: int, cores: int) -> bool:
        return True


def test_a_batch_with_too_many_rows_for_one_task_is_run_as_several(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_one_task: list[bool] = []
    run_one_task = DataFrameJob._run_one_task

    def counted(job: DataFrameJob, spec: Any) -> list[bytes] | None:
        reports = run_one_task(job, spec)
        as_one_task.append(reports is not None)
        return reports

    monkeypatch.setattr(batch_function, "TaskChoice", OneTask)
    monkeypatch.setattr(DataFrameJob, "_run_one_task", counted)
    sizes = [10, 20, MAX_ROWS + 10, 30]
    first = 0
    for number, size in enumerate(sizes):
        for stream in ("R", "S"):
            (tmp_path / stream).mkdir(exist_ok=True)
            rows = "\n".join(f'{{"a": {key}}}' for key in range(first, first + size))
            file = tmp_path / stream / f"{number}.json"
            file.write_text(rows)
            os.utime(file, (number, number))  # the order in which Spark reads them
        first += size
    engine = clash.Engine(spark, tmp_path / "checkpoint", workers=2)
    for stream in ("R", "S"):
        reader = spark.readStream.schema("a bigint").option("maxFilesPerTrigger", 1)
        engine.stream(stream, reader.json(str(tmp_path / stream)))
    engine.query("q", "SELECT R.a, S.a AS b FROM R JOIN S ON R.a = S.a", sink=clash.sinks.Parquet(tmp_path / "out"))
    run = engine.start(available_now=True)
    run.await_termination()
    assert run.exception is None
    assert as_one_task == [True, False, True]  # before the first batch nothing says how many rows to expect
    found = Counter(tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == Counter((key, key) for key in range(first))
