"""The jobs of a run as Spark's status store has them: when they were submitted, and when each of their tasks ran.

They are read after the run, so that reading does not slow it down. Spark keeps the last 1,000 jobs and stages, also without a UI; times are
in whole milliseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_BATCH = re.compile(r"\bbatch (?:= )?(\d+)")  # in the description of a job, by Spark or by `clash.spark.job_names`
_MAX_TASKS = 10_000  # of a stage
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fGMT"


@dataclass(frozen=True)
class SparkTask:
    """Milliseconds since 1970, except `run`."""

    launched: float
    ended: float
    run: float
    """The milliseconds in which the executor runs it, for us mostly the time in Python."""


@dataclass(frozen=True)
class SparkJob:
    """A job of a batch. `stages`: the tasks of each stage that ran."""

    batch: int
    submitted: float
    completed: float
    stages: tuple[tuple[SparkTask, ...], ...]


def last_job(spark: Any) -> int:
    """The number of the last job that has been submitted; -1 if none was."""
    return max((job["jobId"] for job in _StatusStore(spark).jobs()), default=-1)


def jobs_after(spark: Any, last: int) -> list[SparkJob]:
    """The completed jobs with a larger number than `last` that are part of a micro-batch."""
    store = _StatusStore(spark)
    found = []
    for job in store.jobs():
        batch = _BATCH.search(job.get("description") or "")
        if job["jobId"] > last and batch is not None and "completionTime" in job:
            stages = [tuple(_tasks(store.tasks(stage))) for stage in sorted(job["stageIds"])]
            ran = tuple(stage for stage in stages if stage)
            found.append(SparkJob(int(batch[1]), _milliseconds(job["submissionTime"]), _milliseconds(job["completionTime"]), ran))
    return found


class _StatusStore:
    """Spark's status store, whose answers are those of its REST interface, in JSON."""

    def __init__(self, spark: Any) -> None:
        context = spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        self._store = context.statusStore()
        self._mapper = spark._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def jobs(self) -> list[dict[str, Any]]:
        return self._read(self._store.jobsList(None))

    def tasks(self, stage: int) -> list[dict[str, Any]]:
        return self._read(self._store.taskList(stage, 0, _MAX_TASKS))

    def _read(self, answer: Any) -> list[dict[str, Any]]:
        return json.loads(self._mapper.writeValueAsString(answer))  # type: ignore[no-any-return]


def _tasks(tasks: Iterable[dict[str, Any]]) -> Iterable[SparkTask]:
    for task in tasks:
        if "duration" in task and "taskMetrics" in task:
            launched = _milliseconds(task["launchTime"])
            yield SparkTask(launched, launched + task["duration"], task["taskMetrics"]["executorRunTime"])


def _milliseconds(text: str) -> float:
    return datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC).timestamp() * 1000
