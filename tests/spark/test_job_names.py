"""What Spark's UI shows of a run: the query, its jobs and its stages by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clash
from clash.spark import batch_function, job_names
from clash.spark.task_choice import TaskChoice

from .files import JOIN, declare, write


@pytest.mark.parametrize(
    ("scanned", "one_task", "stages"),
    [
        (False, False, ["clash shop: batch 0, ingest", "clash shop: batch 0, round 1"]),
        (False, True, ["clash shop: batch 0, one task"]),
        (True, False, None),
    ],
)
def test_query_jobs_and_stages(
    spark: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scanned: bool, one_task: bool, stages: list[str] | None
) -> None:
    """Where Spark reads the streams, a job has a description of ours, and its stages have names of Spark's."""
    monkeypatch.setattr(job_names, "is_shown", lambda settings: True)
    monkeypatch.setattr(batch_function, "TaskChoice", TaskChoice)
    monkeypatch.setattr(TaskChoice, "is_one_task", lambda *_: one_task)
    monkeypatch.setattr(TaskChoice, "is_for_driver", lambda *_: False)

    def engine(folder: str) -> Any:
        made = clash.Engine(spark, folder, workers=2, name="shop")
        declare(made, spark, tmp_path, lambda df: df.selectExpr("*", "1 AS one") if scanned else df)
        made.query("q", JOIN)
        return made

    write(tmp_path, range(2))
    store = spark.sparkContext._jsc.sc().statusStore()
    run = engine(checkpoint).start()
    assert [query.name for query in spark.streams.active] == ["shop"]
    with pytest.raises(clash.OptionError, match="a query of that name is active"):
        engine(str(tmp_path / "other")).start()
    run.process_all_available()
    run.stop()
    jobs = store.jobsList(None)
    job = max((jobs.apply(at) for at in range(jobs.size())), key=lambda job: job.jobId())
    assert job.description().get() == "clash shop: batch 0"
    names = [store.lastStageAttempt(job.stageIds().apply(at)).name() for at in range(job.stageIds().size())]
    assert stages is None or sorted(names)[: len(stages)] == stages
    assert spark.sparkContext.getLocalProperty("callSite.short") is None
