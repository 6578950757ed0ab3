"""Rates of the last seconds, from what batches report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clash.coordinator.committed_batch import CommittedBatch
from clash.protocol.reports import ProbeCount
from clash.spark.probe_rates import ProbeRates, RecentRates

BATCH = CommittedBatch(
    batch=0, generation=0, results={}, counts={"q": 20}, input={"R": 100}, late={}, stores={}, seconds={}, watermarks={}, event_times={},
    plan_path="plan-1", probes={"e1": ProbeCount(100, 20)}, worker_seconds=(3.0, 1.0),
)  # fmt: skip


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("clash.spark.probe_rates.time.monotonic", made)
    return made


def test_rates_are_sums_over_the_last_seconds(clock: Clock) -> None:
    rates = ProbeRates()
    assert rates.recent() == RecentRates()
    for _ in range(30):
        clock.now += 1
        rates.add(BATCH)
    found = rates.recent(10)
    assert found.seconds == 10
    assert found.input == {"R": pytest.approx(100, rel=0.11)}
    assert found.results == {"q": pytest.approx(20, rel=0.11)}
    assert found.probes["e1"] == pytest.approx((100, 20), rel=0.11)
    assert found.worker_shares == (0.75, 0.25)


def test_rates_of_an_idle_run_go_to_zero(clock: Clock) -> None:
    rates = ProbeRates()
    clock.now += 1
    rates.add(BATCH)
    clock.now += 60
    found = rates.recent(10)
    assert (found.input, found.results, found.probes, found.worker_shares) == ({}, {}, {}, ())


def test_edges_are_of_the_plan_that_runs(clock: Clock) -> None:
    """Labels of another plan name other edges, and what was before it does not count as time without tuples."""
    rates = ProbeRates()
    clock.now += 8
    rates.add(BATCH)
    clock.now += 2
    rates.add(replace(BATCH, plan_path="plan-2", probes={"e1": ProbeCount(10, 4)}, worker_seconds=(1.0,)))
    found = rates.recent(10)
    assert found.plan_path == "plan-2"
    assert found.probes == {"e1": ProbeCount(5, 2)}
    assert found.worker_shares == (0.75, 0.25)
