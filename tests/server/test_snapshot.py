"""Snapshots of a run whose batches are real, in process: what they say is what the batches did."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest

from clash.coordinator import inspection
from clash.coordinator.adaptive.replanner import ComparedPlans
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.server import snapshot
from clash.server.snapshot.run_view import view_of
from clash.spark.probe_rates import ProbeRates
from clash.spark.progress import Progress

MINUTE = 60_000_000
COLUMNS = {"order_id": "bigint", "customer": "bigint", "ts": "timestamp"}
QUERIES = {
    "paid": "SELECT o.order_id FROM orders o JOIN payments p ON o.order_id = p.order_id",
    "sent": "SELECT o.order_id FROM orders o JOIN payments p ON o.order_id = p.order_id JOIN parcels s ON o.order_id = s.order_id",
}


class InProcessRun:
    """What the snapshots read of a run, over an engine without Spark."""

    def __init__(self) -> None:
        streams = [
            Stream.of(name, COLUMNS, time="ts", window="10 minutes", lateness="1 minute") for name in ("orders", "payments", "parcels")
        ]
        self.engine = InProcessEngine(streams, QUERIES, workers=2)
        self.name, self.is_active, self.exception = "shop", True, None
        self.probe_rates = ProbeRates()
        self._progress = Progress(-1)

    @property
    def coordinator(self) -> Any:
        return self.engine.coordinator

    @property
    def progress(self) -> Any:
        return self._progress.latest({}, {"orders": {"files": 3}})

    def progress_after(self, batch: int) -> Any:
        return self._progress.recent({}, batch)

    @property
    def queries(self) -> dict[str, str]:
        return {live.name: live.request.text for live in self.coordinator.generation.setup.queries}

    @property
    def complete_from(self) -> dict[str, int | None]:
        return inspection.complete_from(self.coordinator)

    @property
    def generations(self) -> list[dict[str, Any]]:
        return inspection.outlines(self.coordinator)

    def batch(self, minute: int) -> None:
        rows = pa.table(
            {
                "order_id": range(10 * minute, 10 * minute + 10),
                "customer": range(10),
                "ts": pa.array([minute * MINUTE] * 10, pa.timestamp("us", "UTC")),
            }
        )
        committed = self.engine.batch(dict.fromkeys(("orders", "payments", "parcels"), rows))
        self._progress.add(committed, 0.05, {"orders", "payments", "parcels"})
        self.probe_rates.add(committed)


@pytest.fixture
def run() -> InProcessRun:
    started = InProcessRun()
    for minute in range(3):
        started.batch(minute)
    return started


def test_every_snapshot_is_json_before_and_after_the_first_batch(run: InProcessRun) -> None:
    for each in (InProcessRun(), run):
        for name, take in snapshot.EVENTS.items():
            assert json.loads(json.dumps(take(each), allow_nan=False)) is not None, name


def test_the_status_adds_up(run: InProcessRun) -> None:
    status = snapshot.status(run)
    assert (status["name"], status["batch"], status["workers"], status["queries"], status["streams"]) == ("shop", 2, 2, 2, 3)
    assert status["rows"] >= 90
    assert status["input_rate"] > 0
    assert status["pending"] == []


def test_flows_count_what_probes_found(run: InProcessRun) -> None:
    """Every order has its payment and its parcel in the same batch: 30 results of each query."""
    topology, flows = snapshot.topology(run), snapshot.flows(run)
    emitted = dict.fromkeys(QUERIES, 0.0)
    for step in topology["steps"]:
        for query in step["emits"]:
            emitted[query] += flows["steps"][step["id"]][1]
    rates = flows["results"]
    assert emitted == pytest.approx(rates, abs=0.01)
    assert flows["stores"].keys() == {store["id"] for store in topology["stores"]}
    assert flows["streams"]["orders"]["rows"] == 30
    assert flows["streams"]["orders"]["backlog"] == {"files": 3}
    assert 0.15 < flows["stores"]["s_orders"]["window_share"] < 0.25  # two of ten minutes


def test_queries_have_cost_columns_and_latency(run: InProcessRun) -> None:
    paid, sent = snapshot.queries(run)
    assert (paid["name"], paid["results"], paid["complete_from"], paid["columns"]) == ("paid", 30, 0, ["order_id"])
    assert sent["streams"] == ["orders", "parcels", "payments"]
    assert paid["share"] + sent["share"] == pytest.approx(snapshot.topology(run)["cost"]["total"])
    assert 0 < paid["latency"]["p50"] <= paid["latency"]["p95"]


def test_the_history_goes_on_where_it_ended_and_adds_up_when_it_is_thinned(run: InProcessRun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [entry["batch"] for entry in snapshot.history(run)] == [0, 1, 2]
    assert [entry["batch"] for entry in snapshot.history(run, after=1)] == [2]
    monkeypatch.setattr("clash.server.snapshot.batches._MAX_POINTS", 2)
    monkeypatch.setattr("clash.server.snapshot.batches._SINGLE", 1)
    thinned = snapshot.history(run)
    assert [entry["batch"] for entry in thinned] == [1, 2]
    assert [entry["input"]["orders"] for entry in thinned] == [20, 10]


def test_the_history_says_where_the_time_of_each_batch_went_and_which_rows_were_late(run: InProcessRun) -> None:
    run.batch(60)
    run.batch(3)  # the watermark has passed it
    *_, last = snapshot.history(run)
    assert last["late"] == {"orders": 10, "payments": 10, "parcels": 10}
    assert last["driver"].keys() == {"offsets", "decide", "job", "commit", "sinks", "spark"}
    assert last["seconds"] == snapshot.batch(run)["seconds"] > 0


def test_what_spark_reports_later_is_added_to_the_last_batch(run: InProcessRun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert snapshot.history(run)[-1]["trigger"] is None
    durations = {2: {"triggerExecution": 250, "latestOffset": 20}}
    monkeypatch.setattr(run, "progress_after", lambda batch: run._progress.recent(durations, batch))
    monkeypatch.setattr("clash.server.snapshot.run_view._FRESH", 0.0)
    history = snapshot.history(run)
    assert [entry["batch"] for entry in history] == [0, 1, 2]
    assert (history[-1]["trigger"], history[-1]["driver"]["offsets"]) == (0.25, 0.02)


def test_a_change_of_queries_changes_the_picture(run: InProcessRun) -> None:
    before = snapshot.topology(run)
    run.engine.add_query("again", "SELECT o.customer FROM orders o JOIN parcels s ON o.customer = s.customer")
    assert snapshot.status(run)["pending"] == ["add again"]
    run.batch(3)
    after = snapshot.topology(run)
    assert [query["name"] for query in before["queries"]] == ["paid", "sent"]
    assert [query["name"] for query in after["queries"]] == ["paid", "sent", "again"]
    assert [outline["reason"] for outline in snapshot.generations(run)] == ["start", "query again added"]


def test_the_quality_of_a_plan_is_between_the_bound_and_separate_jobs(run: InProcessRun) -> None:
    end = time.monotonic() + 20
    while (quality := snapshot.quality(run))["independent"] is None and time.monotonic() < end:
        time.sleep(0.02)
    assert 0 < quality["bound"] <= quality["best"] <= quality["cost"] <= quality["independent"]["cost"]
    assert quality["independent"]["stores"] > quality["stores"] > 0
    run.coordinator.replanner.compared = ComparedPlans(0, 200.0, 150.0, 140.0, False)
    assert [snapshot.quality(run)[name] for name in ("cost", "best", "bound", "proven")] == [200.0, 150.0, 140.0, False]


def test_readings_are_shared_for_a_moment(run: InProcessRun) -> None:
    assert view_of(run) is view_of(run)
    assert view_of(run).progress() is view_of(run).progress()
