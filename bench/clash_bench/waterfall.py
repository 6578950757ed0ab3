"""Where the time of the median micro-batch goes: parts that add up to the trigger.

The parts of each batch add up to its trigger, as the last one is what the others do not explain. The parts of the median batch are the
means over the middle half of the batches, by the length of their triggers, scaled by the few percent between the mean of these triggers and
the median: unlike medians of parts, they add up, and outliers do not enter.

Sources: Spark's `durationMs` of a batch; the seconds that our driver and our tasks report (`run.recent_progress`); Spark's status store.
The tasks of one stage run side by side, and the one that ends last decides: the parts of our tasks, which are reported as sums over all
tasks, are scaled to the run times of those. A small batch has one task, for which nothing is scaled; or none, if our driver does it itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clash_bench.spark_jobs import SparkJob

TRIGGER, DRIVER, JOB, TASK, REST = "Spark's trigger", "our driver", "Spark's job", "our task", "rest"
_SPARK_BEFORE = {"latest offset": "latestOffset", "get batch": "getBatch", "planning": "queryPlanning", "offset log": "walCommit"}
_TASK_PARTS = {
    "read files": "source", "ingest": "ingest", "messages": "shuffle", "route": "route", "store": "store", "probe": "probe",
    "write results": "sink",
}  # fmt: skip
# In the order of time, except that the parts of our tasks alternate.
PARTS: Mapping[str, str] = {
    **dict.fromkeys((*_SPARK_BEFORE, "call of our function"), TRIGGER),
    **dict.fromkeys(("decide", "find files, build job"), DRIVER),
    **dict.fromkeys(("submit to launch", "task in the JVM", "Python worker"), JOB),
    **dict.fromkeys((*_TASK_PARTS, "other work of tasks"), TASK),
    "end of job": JOB,
    **dict.fromkeys(("fetch reports", "commit", "other work of the driver"), DRIVER),
    "commit log": TRIGGER,
    "rest": REST,
}


@dataclass(frozen=True)
class WaterfallRow:
    """A line of the CSV file: one part of the median batch of a run."""

    sources: str
    """`several` if each stream has a source of its own, `one` if all come from one."""
    run: int
    group: str
    part: str
    start: float
    """Milliseconds of the parts before it."""
    milliseconds: float
    share: float
    """Of the trigger."""


def waterfall(sources: str, run: int, entries: Sequence[Mapping[str, Any]], jobs: Sequence[SparkJob]) -> list[WaterfallRow]:
    """The parts of the median batch. `entries`: the progress of the measured batches; `jobs`: at least the jobs of these."""
    by_batch: dict[int, list[SparkJob]] = {}
    for job in jobs:
        by_batch.setdefault(job.batch, []).append(job)
    trigger = float(statistics.median(_trigger(entry) for entry in entries))
    ordered = sorted(entries, key=_trigger)
    margin = len(ordered) // 4
    middle = [batch_parts(entry, by_batch.get(entry["batch"], ())) for entry in ordered[margin : len(ordered) - margin]]
    means = {part: statistics.fmean(parts[part] for parts in middle) for part in PARTS}
    scale = trigger / sum(means.values())
    rows, start = [], 0.0
    for part, group in PARTS.items():
        milliseconds = means[part] * scale
        rows.append(WaterfallRow(sources, run, group, part, start, milliseconds, milliseconds / trigger))
        start += milliseconds
    return rows


def batch_parts(entry: Mapping[str, Any], jobs: Sequence[SparkJob]) -> dict[str, float]:
    """The milliseconds of all parts of one batch, whose sum is its trigger. Without a job of Spark's, our driver has
    done what tasks do."""
    spark, seconds = entry["durationMs"], entry["seconds"]
    decide, job, commit, function = (1000 * seconds.get(name, 0.0) for name in ("decide", "job", "commit", "batch"))
    parts = dict.fromkeys(PARTS, 0.0)
    parts |= {part: spark.get(name, 0) for part, name in _SPARK_BEFORE.items()}
    parts["call of our function"] = spark.get("addBatch", 0) - function
    parts["decide"], parts["commit"] = decide, commit
    parts["other work of the driver"] = function - decide - job - commit
    parts["commit log"] = spark.get("commitOffsets", 0)
    if jobs:
        first, last = min(job.submitted for job in jobs), max(job.completed for job in jobs)
        reported = 1000 * datetime.fromisoformat(entry["timestamp"]).timestamp() - commit  # when our driver had the reports
        parts["fetch reports"] = reported - last
        parts["find files, build job"] = job - (last - first) - parts["fetch reports"]
        parts |= _job_parts(jobs, first, last, seconds)
    else:
        parts |= _task_parts(seconds, 1000)
        parts["find files, build job"] = job - sum(parts[part] for part, group in PARTS.items() if group == TASK)
    parts["rest"] = _trigger(entry) - sum(parts.values())
    return parts


def _job_parts(jobs: Sequence[SparkJob], first: float, last: float, seconds: Mapping[str, float]) -> dict[str, float]:
    """The parts of the time from the submission of the first job to the end of the last."""
    stages = sorted((stage for job in jobs for stage in job.stages), key=lambda stage: max(task.ended for task in stage))
    waits = in_jvm = run = all_runs = 0.0
    ended = first
    for stage in stages:
        critical = max(stage, key=lambda task: task.ended)
        start = max(critical.launched, ended)
        ran = min(critical.run, critical.ended - start)
        waits += start - ended
        in_jvm += critical.ended - start - ran
        run += ran
        all_runs += sum(task.run for task in stage)
        ended = critical.ended
    scale = 1000 * run / all_runs if all_runs else 0.0
    ours = _task_parts(seconds, scale)
    worker = run - sum(ours.values())
    return {"submit to launch": waits, "task in the JVM": in_jvm, "Python worker": worker, **ours, "end of job": last - ended}


def _task_parts(seconds: Mapping[str, float], scale: float) -> dict[str, float]:
    """What our tasks report, which add up to all of their time."""
    ours = {part: scale * seconds.get(name, 0.0) for part, name in _TASK_PARTS.items()}
    ours["other work of tasks"] = scale * sum(seconds.get(name, 0.0) for name in ("source", "ingest", "round")) - sum(ours.values())
    return ours


def _trigger(entry: Mapping[str, Any]) -> float:
    return float(entry["durationMs"].get("triggerExecution", 0))
