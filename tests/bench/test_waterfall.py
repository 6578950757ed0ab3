"""The waterfall: the parts of every batch add up to its trigger, whatever Spark remembers of its jobs. No time is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clash_bench.spark_jobs import SparkJob, SparkTask, jobs_after, last_job
from clash_bench.waterfall import PARTS, batch_parts, waterfall
from clash_bench.waterfall_plot import draw_waterfall

END = "2026-11-17T12:00:00.200+00:00"  # when the batch was committed
END_MS = 1_794_916_800_200.0
DURATIONS = {"latestOffset": 5, "getBatch": 3, "queryPlanning": 7, "walCommit": 2, "addBatch": 185, "commitOffsets": 4}


def entry(batch: int = 7, trigger: int = 210, **seconds: float) -> dict[str, Any]:
    """A batch whose function takes 180 ms: 10 to decide, 150 for the job, 15 to commit."""
    ours = {"source": 0.002, "ingest": 0.008, "round": 0.06, "store": 0.02, "probe": 0.03, "sink": 0.005}
    driver = {"decide": 0.01, "job": 0.15, "commit": 0.015, "batch": 0.18}
    return {"batch": batch, "timestamp": END, "durationMs": DURATIONS | {"triggerExecution": trigger}, "seconds": ours | driver | seconds}


def at(milliseconds: float) -> float:
    """Of the job's 150 ms, which end 15 ms before the batch is committed."""
    return END_MS - 15 - 150 + milliseconds


def one_task(batch: int = 7) -> SparkJob:
    return SparkJob(batch, at(20), at(130), ((SparkTask(at(26), at(125), 90),),))


def test_parts_of_a_batch_of_one_task() -> None:
    parts = batch_parts(entry(), [one_task()])
    expected = {
        "latest offset": 5, "get batch": 3, "planning": 7, "offset log": 2, "call of our function": 5, "decide": 10,
        "find files, build job": 20, "submit to launch": 6, "task in the JVM": 9, "Python worker": 20, "read files": 2, "ingest": 8,
        "messages": 0, "route": 0, "store": 20, "probe": 30, "write results": 5, "other work of tasks": 5, "end of job": 5,
        "fetch reports": 20, "commit": 15, "other work of the driver": 5, "commit log": 4, "rest": 4,
    }  # fmt: skip
    assert parts == pytest.approx(expected)
    assert list(parts) == list(PARTS)
    assert sum(parts.values()) == pytest.approx(210)


def test_of_several_tasks_the_last_of_each_stage_counts() -> None:
    ingest = (SparkTask(at(26), at(40), 10), SparkTask(at(26), at(50), 20))
    rounds = (SparkTask(at(60), at(125), 60), SparkTask(at(60), at(90), 30))
    parts = batch_parts(entry(), [SparkJob(7, at(20), at(130), (ingest, rounds))])
    scale = (20 + 60) / 120
    assert parts["submit to launch"] == pytest.approx(6 + 10)
    assert parts["task in the JVM"] == pytest.approx(4 + 5)
    assert parts["probe"] == pytest.approx(30 * scale)
    assert parts["Python worker"] == pytest.approx(80 - 70 * scale)
    assert sum(parts.values()) == pytest.approx(210)


def test_stages_side_by_side_are_not_counted_twice() -> None:
    stages = ((SparkTask(at(26), at(80), 50),), (SparkTask(at(30), at(100), 60),))
    parts = batch_parts(entry(), [SparkJob(7, at(20), at(130), stages)])
    assert parts["submit to launch"] == pytest.approx(6)
    assert sum(parts.values()) == pytest.approx(210)
    assert parts["rest"] == pytest.approx(4)


def test_a_batch_that_the_driver_does_itself_has_no_job() -> None:
    parts = batch_parts(entry(), [])
    assert parts["find files, build job"] == pytest.approx(150 - 70)
    assert parts["probe"] == pytest.approx(30)
    assert parts["rest"] == pytest.approx(4)
    assert sum(parts.values()) == pytest.approx(210)


def test_the_parts_of_the_median_batch_add_up_to_the_median() -> None:
    entries = [entry(batch, 200 + 7 * batch) for batch in range(9)] + [entry(9, 5_000)]
    rows = waterfall("one", 3, entries, [one_task(batch) for batch in range(10)])
    assert [row.part for row in rows] == list(PARTS)
    assert sum(row.milliseconds for row in rows) == pytest.approx(231.5)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert rows[-1].start + rows[-1].milliseconds == pytest.approx(231.5)
    assert rows[-1].milliseconds < 40  # the outlier does not enter
    assert {(row.sources, row.run) for row in rows} == {("one", 3)}


def test_the_picture(tmp_path: Path) -> None:
    rows = waterfall("several", 1, [entry()], [one_task()])
    draw_waterfall({"several": rows}, {"several": 60.0}, tmp_path / "new" / "waterfall.png")
    assert (tmp_path / "new" / "waterfall.png").read_bytes().startswith(b"\x89PNG")


class FakeStore:
    """What Spark's status store answers, in the JSON of its REST interface."""

    def jobsList(self, _: None) -> object:  # noqa: N802
        times = {"submissionTime": "2026-11-17T12:00:00.010GMT", "completionTime": "2026-11-17T12:00:00.090GMT"}
        return [
            {"jobId": 5, "stageIds": [9, 8], "description": "a\nid = 1\nrunId = 2\nbatch = 12", **times},
            {"jobId": 4, "stageIds": [7], "description": "clash shop: batch 11", **times},
            {"jobId": 6, "stageIds": [10], **times},  # of no batch
            {"jobId": 7, "stageIds": [11], "description": "clash: batch 13", "submissionTime": times["submissionTime"]},  # it still runs
        ]

    def taskList(self, stage: int, attempt: int, most: int) -> object:  # noqa: N802
        assert (attempt, most > 1) == (0, True)
        task = {"launchTime": "2026-11-17T12:00:00.020GMT", "duration": 30, "taskMetrics": {"executorRunTime": 25}}
        return [task] * 2 if stage == 9 else []  # stage 8 was skipped


def test_jobs_are_read_from_the_status_store() -> None:
    context = SimpleNamespace(listenerBus=lambda: SimpleNamespace(waitUntilEmpty=lambda: None), statusStore=FakeStore)
    writer = SimpleNamespace(mapper=lambda: SimpleNamespace(writeValueAsString=json.dumps))
    v1 = SimpleNamespace(JacksonMessageWriter=lambda: writer)
    apache = SimpleNamespace(spark=SimpleNamespace(status=SimpleNamespace(api=SimpleNamespace(v1=v1))))
    spark = SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context)),
        _jvm=SimpleNamespace(org=SimpleNamespace(apache=apache)),
    )
    assert last_job(spark) == 7
    base = END_MS - 200
    task = SparkTask(base + 20, base + 50, 25)
    assert jobs_after(spark, 4) == [SparkJob(12, base + 10, base + 90, ((task, task),))]
    assert [job.batch for job in jobs_after(spark, 3)] == [12, 11]
