"""Progress as data and as text, without Spark."""

from __future__ import annotations

import doctest
import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from clash.coordinator.committed_batch import CommittedBatch
from clash.spark import backlog, progress_text
from clash.spark.backlog import read_backlog, unread_rows
from clash.spark.progress import Progress, read_durations


def committed(batch: int, seconds_ago: float) -> CommittedBatch:
    newest = int((time.time() - seconds_ago) * 1e6)
    return CommittedBatch(
        batch, 1, {"paid": ()}, {"paid": 1234}, {"orders": 5000, "plain": 7}, {"orders": 2, "plain": 0},
        {"orders[id]": {"rows": 5000, "bytes": 123_456, "containers": 3}}, {"probe": 0.1}, {"orders": newest - 5_000_000, "plain": None},
        {"orders": newest, "plain": newest},
    )  # fmt: skip


def test_the_delay_grows_while_nothing_comes() -> None:
    progress = Progress(-1)
    progress.add(committed(0, 10), 0.25, {"orders"})
    at_commit = progress.recent({})[0]["delay"]
    assert at_commit["orders"] == pytest.approx(10, abs=1)
    assert set(at_commit) == {"orders"}  # plain has the time of its batches
    time.sleep(0.01)
    assert progress.latest({}, {})["delay"]["orders"] > at_commit["orders"]


def test_it_is_plain_data_and_prints_as_a_table() -> None:
    progress = Progress(3)
    assert str(progress.latest({}, {})) == "no batch yet in this run; the last one before it is 3"
    assert str(progress.recent({})) == "no batch yet in this run"
    progress.add(committed(4, 10), 0.25, {"orders"})
    latest = progress.latest({4: {"triggerExecution": 300}}, {"orders": {"files": 3}})
    assert isinstance(latest, dict)
    assert json.loads(json.dumps(latest)) == dict(latest)
    lines = str(latest).splitlines()
    assert lines[0].startswith("batch 4 of generation 1, ")
    assert lines[0].endswith("0.250 s of the trigger's 0.300 s")
    assert [line.split()[0] for line in lines[1:]] == ["stream", "orders", "plain", "query", "paid", "store", "orders[id]", "since"]
    assert "3 files" in lines[2]
    assert lines[-1] == "since the start: 1 batches, 5,007 rows, 2 late, 1,234 results"
    assert len({len(line.rstrip()) for line in str(progress.recent({})).splitlines()}) == 1
    assert repr(latest) == str(latest)


def test_queries_that_ended_long_ago_are_only_counted() -> None:
    progress = Progress(-1)
    for batch in range(3000):
        progress.add(replace(committed(batch, 10), results={}, counts={f"q{batch}": 2, "live": 1}), 0.25, {"orders"})
    totals = progress.latest({}, {})["totals"]
    assert len(totals["results"]) == 1001
    assert totals["results"]["live"] == 3000
    assert totals["results"]["q2999"] == 2
    assert sum(totals["results"].values()) + totals["other_results"] == 9000
    assert str(progress.latest({}, {})).endswith("9,000 results")


def test_a_report_is_read_once_and_the_last_one_of_a_batch_counts() -> None:
    read: list[int] = []

    class Report:
        def __init__(self, batch: int, milliseconds: int) -> None:
            self.batch, self.milliseconds = batch, milliseconds

        def batchId(self) -> int:  # noqa: N802
            return self.batch

        def json(self) -> str:
            read.append(self.batch)
            return json.dumps({"batchId": self.batch, "durationMs": {"triggerExecution": self.milliseconds}})

    reports = [Report(batch, 10 * batch) for batch in range(1000)]
    assert read_durations(reports, -1) == {batch: {"triggerExecution": 10 * batch} for batch in range(1000)}
    read.clear()
    reports += [Report(1000, 1), Report(1000, 2), Report(1001, 3)]
    assert read_durations(reports, 1000) == {1000: {"triggerExecution": 2}, 1001: {"triggerExecution": 3}}
    assert read == [1001, 1000]
    assert read_durations([], 5) == {}


def test_doctests() -> None:
    for module in (progress_text, backlog):
        assert doctest.testmod(module).failed == 0


class Sequence:
    """As Scala's."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def size(self) -> int:
        return len(self.items)

    def apply(self, at: int) -> Any:
        return self.items[at]


def query(leaves: int, *reports: dict[str, Any]) -> Any:
    plan = SimpleNamespace(
        collectLeaves=lambda: Sequence(*(SimpleNamespace(isStreaming=lambda: True, output=lambda at=at: at) for at in range(leaves)))
    )
    execution = SimpleNamespace(lastExecution=lambda: plan, logicalPlan=lambda: plan)
    last = SimpleNamespace(json=lambda: json.dumps({"sources": reports}))
    return SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: execution, lastProgress=lambda: last))


def test_rows_behind_in_kafka() -> None:
    """A stream of two topics adds them up; one of whose sources one does not tell, says nothing."""
    kafka = {"description": "KafkaV2[Subscribe[orders]]", "endOffset": {"orders": {"0": 5}}, "latestOffset": {"orders": {"0": 9, "1": 3}}}
    rate = {"description": "RateStreamV2", "endOffset": 5, "latestOffset": 9}
    assert read_backlog(query(4, kafka, kafka, kafka, rate), {"a": 2, "b": 1, "c": 1}) == {"a": {"rows": 14}, "b": {"rows": 7}}
    assert read_backlog(query(2, kafka, rate), {"a": 2}) == {}
    assert read_backlog(query(2, kafka), {"a": 1}) == {}
    assert unread_rows(None, {}) is None
    assert read_backlog(SimpleNamespace(), {"a": 1}) == {}
