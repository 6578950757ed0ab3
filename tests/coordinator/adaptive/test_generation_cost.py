"""Whether a change of plan paid: judged by what the plan before cost at its end, and shown the same after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from clash.codec import Codec
from clash.coordinator.adaptive.generation_cost import RECENT_BATCHES, GenerationCost, compare_costs
from clash.coordinator.adaptive.replanner import Policy, Replanner
from clash.coordinator.batch_reports import BatchReports
from clash.coordinator.checkpoint.manifest import BatchSummary
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream

COLUMNS = {"R": "ab", "S": "bc", "T": "cd"}
STREAMS = [Stream.of(name, dict.fromkeys(columns, "bigint")) for name, columns in COLUMNS.items()]
QUERY = "SELECT R.a, T.d FROM R JOIN S ON R.b = S.b JOIN T ON S.c = T.c"
FIRST = Statistics(rates={"R": 10, "S": 1000, "T": 1000}, selectivities={"R.b = S.b": 1e-3, "S.c = T.c": 1e-3})
OTHER = Statistics(rates={"R": 1e6, "S": 10, "T": 10}, selectivities={"R.b = S.b": 0.1, "S.c = T.c": 1e-6})
ROWS = {name: pa.table({c: pa.array([1], pa.int64()) for c in columns}) for name, columns in COLUMNS.items()}


def after(costs: Sequence[float]) -> GenerationCost:
    """Batches of one tuple each."""
    cost = GenerationCost()
    for micros in costs:
        cost = cost.plus(1, micros / 1e6)
    return cost


def test_sums_are_of_the_whole_life_and_of_the_end() -> None:
    cost = after([10.0] * 20 + [100.0] * 4)
    assert (cost.batches, cost.tuples, cost.micros_per_tuple) == (24, 24, 25.0)
    assert [round(seconds * 1e6) for _, seconds in cost.recent] == [10, 100, 100, 100, 100]
    codec: Codec[GenerationCost] = Codec(GenerationCost)
    assert codec.loads(codec.dumps(cost)) == cost
    assert GenerationCost().micros_per_tuple is None


def test_the_end_of_one_is_compared_with_the_other_after_its_first_batch() -> None:
    old, new = after([10.0] * 20 + [100.0] * RECENT_BATCHES), after([900.0] + [50.0] * (RECENT_BATCHES - 1))
    assert compare_costs(old, new) == (100.0, 50.0)
    assert compare_costs(after([30.0, 50.0]), new) == (40.0, 50.0)  # it had no more
    assert compare_costs(old, after([900.0, 50.0])) is None  # too early to judge
    assert compare_costs(old, new.plus(1, 1.0)) is None  # judged once
    assert compare_costs(GenerationCost(), new) is None


def test_a_change_after_a_long_cheap_life_is_seen_to_have_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"q": QUERY}, adaptive=True, statistics=FIRST)
    run.coordinator.replanner = Replanner(
        Policy(solver_seconds=0.0, solver_pause=0, solver_pause_if_drifted=0, estimate_interval=0, estimate_interval_if_drifted=0)
    )
    outcomes: list[tuple[float, float]] = []
    monkeypatch.setattr(run.coordinator.replanner.offers, "record_outcome", lambda *costs: outcomes.append(costs))
    costs = iter([10.0] * 12 + [130.0] * 2 + [90.0] + [50.0] * RECENT_BATCHES)
    summary = BatchReports.summary

    def summary_with_cost(reports: BatchReports) -> BatchSummary:
        return replace(summary(reports), seconds={"all": next(costs) * len(ROWS) / 1e6})

    monkeypatch.setattr(BatchReports, "summary", summary_with_cost)
    monkeypatch.setattr(run.coordinator.collector, "estimate", lambda *_: FIRST if run.coordinator.last < 12 else OTHER)  # the data drifts
    for _ in range(14 + 1 + RECENT_BATCHES):
        run.batch(ROWS)
        run.coordinator.replanner.wait(60)
    before = (3 * 10.0 + 2 * 130.0) / RECENT_BATCHES
    assert outcomes == [(before, 50.0)]
    expected = [(None, 27.143, 14), (before, 56.667, 6)]
    for _ in range(2):
        assert [(g["measured_before"], g["measured"], g["batches"]) for g in run.generations] == expected
        run.coordinator.close()
        run.restart()


def test_costs_are_shown_after_the_manifest_has_dropped_them() -> None:
    run = InProcessEngine(STREAMS, {"q": QUERY})
    for workers in (3, 2, 3):
        run.batch(ROWS)
        run.batch(ROWS)
        run.rescale(workers)
    run.batch(ROWS)
    outlines = run.generations
    assert sorted(run.coordinator.manifest.costs) == [2, 3]
    assert [g["measured_before"] for g in outlines[1:]] == [g["measured"] for g in outlines[:-1]]  # of two batches all are recent
    run.restart()
    assert run.generations == outlines
