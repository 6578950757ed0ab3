"""Small batches of files, which the driver does itself on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import clash
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import Report
from clash.spark import batch_function, rdd_job
from clash.spark.direct_source import DirectSource
from clash.spark.rdd_job import RddJobs
from clash.spark.task_choice import TaskChoice

from .files import JOIN, counted, declare, expected, write


@pytest.mark.parametrize(("max_matches", "done"), [(1 << 18, [True, True, True]), (5, [False, True])])
def test_results_are_exact_and_a_batch_with_too_many_matches_is_given_up(
    spark: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_matches: int, done: list[bool]
) -> None:
    """A batch of half its size is tried again, and here one that is empty is done."""
    in_driver: list[bool] = []
    run_in_driver = RddJobs._run_in_driver

    def counting(jobs: RddJobs, spec: BatchSpec, source: DirectSource) -> Sequence[Report] | None:
        reports = run_in_driver(jobs, spec, source)
        in_driver.append(reports is not None)
        state = {str(path.relative_to(checkpoint)) for path in Path(checkpoint).glob("state/*/*")}
        assert reports is not None or state <= {record.path for record in spec.containers}  # it has left nothing
        return reports

    monkeypatch.setattr(RddJobs, "_run_in_driver", counting)
    monkeypatch.setattr(rdd_job, "MAX_DRIVER_MATCHES", max_matches)
    monkeypatch.setattr(batch_function, "TaskChoice", TaskChoice)
    write(tmp_path, range(4))
    engine = clash.Engine(spark, checkpoint, workers=2)
    declare(engine, spark, tmp_path)
    engine.query("q", JOIN)
    run = engine.start()
    run.process_all_available()
    write(tmp_path, [10_000])  # what was before has expired
    run.process_all_available()
    rows = run.results("q").toArrow()
    run.stop()
    assert counted(rows) == expected(tmp_path, rows.schema)
    assert in_driver[: len(done)] == done[: len(in_driver)]
    assert in_driver
