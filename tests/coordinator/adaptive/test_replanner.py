"""Replanning beside the stream: when it estimates, what it offers, and when its offers take effect."""

from __future__ import annotations

import logging
from threading import Event, Thread

import pyarrow as pa
import pytest

from clash.coordinator.adaptive.replanner import ESTIMATING, EstimateStatistics, Policy, Replanner, ReplanRequest, changed_statistics
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.coordinator.control.setup import Setup
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan
from clash.planner.solver import SolverProcess

STREAMS = [Stream.of(name, dict.fromkeys(columns, "bigint")) for name, columns in {"R": "ab", "S": "bc", "T": "cd"}.items()]
QUERY = "SELECT R.a, T.d FROM R JOIN S ON R.b = S.b JOIN T ON S.c = T.c"
SETUP = Setup.of(JobSpec(tuple(STREAMS), (QueryRequest("q", QUERY),), workers=4))
FIRST = Statistics(rates={"R": 10, "S": 1000, "T": 1000}, selectivities={"R.b = S.b": 1e-3, "S.c = T.c": 1e-3})
OTHER = Statistics(rates={"R": 1e6, "S": 10, "T": 10}, selectivities={"R.b = S.b": 0.1, "S.c = T.c": 1e-6})
PLAN = SETUP.optimize(FIRST, 5)


def ask(planner: Replanner, generation: int, epoch: int, estimate: EstimateStatistics, drifted: bool = False) -> None:
    planner.request(ReplanRequest(generation, epoch, SETUP, PLAN, drifted), estimate)


def test_which_statistics_have_changed() -> None:
    assert changed_statistics(FIRST, FIRST, 0.2) == []
    assert changed_statistics(FIRST, Statistics(rates={"R": 11}), 0.2) == []
    assert changed_statistics(FIRST, Statistics(rates={"R": 20, "S": 100}), 0.2) == ["S 1e+03 → 100", "R 10 → 20"]


def test_a_better_plan_is_offered_one_epoch_later_and_once() -> None:
    planner = Replanner()
    ask(planner, 0, 5, lambda: OTHER)
    planner.wait()
    assert planner.offers.take(0, 5) is None  # estimated in epoch 5: in effect from 6 on
    offer = planner.offers.take(0, 6)
    assert offer is not None
    assert offer.predicted[1] < 0.9 * offer.predicted[0]
    assert "R 10 → 1e+06" in offer.reason
    assert planner.offers.take(0, 7) is None


def test_an_offer_for_another_generation_is_dropped() -> None:
    planner = Replanner()
    ask(planner, 0, 1, lambda: OTHER)
    planner.wait()
    assert planner.offers.take(1, 2) is None
    assert planner.offers.take(0, 3) is None


def test_nothing_is_offered_below_the_threshold() -> None:
    planner = Replanner(Policy(gain=0.999999))
    ask(planner, 0, 1, lambda: OTHER)
    planner.wait()
    assert planner.offers.take(0, 2) is None


def test_changes_that_did_not_pay_double_the_pause() -> None:
    planner = Replanner(Policy(pause=2))

    def offered(generation: int, epoch: int) -> bool:
        ask(planner, generation, epoch - 1, lambda: OTHER)
        planner.wait()
        return planner.offers.take(generation, epoch) is not None

    assert offered(0, 10)
    assert not offered(1, 11)
    assert planner.offers.take(1, 12) is not None
    planner.offers.record_outcome(before=1.0, after=1.2)
    assert not offered(2, 15)
    assert planner.offers.take(2, 16) is not None
    planner.offers.record_outcome(before=1.0, after=0.5)
    assert offered(3, 18)


def test_an_offer_that_would_not_pay_any_more_is_dropped() -> None:
    planner = Replanner(Policy(pause=10, solver_pause=0, solver_seconds=0))
    planner.offers._last_change = 0
    ask(planner, 1, 1, lambda: OTHER)
    planner.wait()
    assert planner.offers.take(1, 2) is None  # it waits
    for epoch in range(2, 10):
        ask(planner, 1, epoch, lambda: FIRST)  # the data is again what the plan was made for
        planner.wait()
    assert planner.offers.take(1, 10) is None


def test_an_offer_that_waits_is_kept_while_it_pays() -> None:
    planner = Replanner(Policy(pause=10, solver_pause=0, solver_seconds=0))
    planner.offers._last_change = 0
    for epoch in range(1, 10):
        ask(planner, 1, epoch, lambda: OTHER)
        planner.wait()
    offer = planner.offers.take(1, 10)
    assert offer is not None
    assert offer.predicted[1] < 0.9 * offer.predicted[0]


def test_a_solver_of_an_old_generation_does_not_replace_an_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, go, optimize = Replanner(), Event(), Setup.optimize

    def slow(
        setup: Setup, statistics: Statistics, seconds: float = 0, start: LogicalPlan | None = None, solver: SolverProcess | None = None
    ) -> LogicalPlan:
        if seconds:
            go.wait(60)
        return optimize(setup, statistics, 0, start)

    monkeypatch.setattr(Setup, "optimize", slow)
    ask(planner, 0, 1, lambda: OTHER)
    planner._background.join(ESTIMATING)
    ask(planner, 1, 5, lambda: OTHER)
    planner._background.join(ESTIMATING)
    go.set()
    planner.wait()
    offer = planner.offers.take(1, 9)
    assert offer is not None
    assert offer.generation == 1


def test_a_solver_that_fails_pauses_too(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, limits, optimize = Replanner(), [], Setup.optimize

    def failing(
        setup: Setup, statistics: Statistics, seconds: float = 0, start: LogicalPlan | None = None, solver: SolverProcess | None = None
    ) -> LogicalPlan:
        if seconds:
            limits.append(seconds)
            raise RuntimeError("no")
        return optimize(setup, statistics, 0, start)

    monkeypatch.setattr(Setup, "optimize", failing)
    planner.policy = Policy(solver_pause=1e9, solver_pause_if_drifted=1e9)
    for epoch in range(1, 4):
        ask(planner, 0, epoch, lambda: OTHER)
        planner.wait()
    assert len(limits) == 1


def test_the_solver_pauses_less_when_the_data_has_drifted(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, limits, optimize = Replanner(Policy(solver_pause=1e9, solver_pause_if_drifted=0)), [], Setup.optimize

    def noted(
        setup: Setup, statistics: Statistics, seconds: float = 0, start: LogicalPlan | None = None, solver: SolverProcess | None = None
    ) -> LogicalPlan:
        limits.append(seconds)
        return optimize(setup, statistics, 0, start)

    monkeypatch.setattr(Setup, "optimize", noted)
    worked = []
    for epoch, drifted in enumerate((False, False, True)):
        ask(planner, 0, epoch, lambda: Statistics(rates={"R": 10.0 ** len(limits)}), drifted)
        planner.wait()
        worked.append(sum(seconds > 0 for seconds in limits))
    assert worked == [1, 1, 2]


def test_after_closing_nothing_runs(caplog: pytest.LogCaptureFixture) -> None:
    planner, go = Replanner(), Event()

    def estimate() -> Statistics:
        go.wait(60)
        return OTHER

    ask(planner, 0, 1, estimate)
    closing = Thread(target=planner.close)
    closing.start()
    go.set()
    closing.join()
    assert not planner._background.is_running(ESTIMATING)
    ask(planner, 0, 2, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    planner.wait()
    assert caplog.records == []


def test_a_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    planner = Replanner()
    with caplog.at_level(logging.WARNING, "clash"):
        for epoch in (1, 2):
            ask(planner, 0, epoch, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
            planner.wait()
    assert len(caplog.records) == 1
    ask(planner, 0, 3, lambda: OTHER)
    planner.wait()
    assert planner.offers.take(0, 4) is not None


def test_a_batch_never_waits_for_the_replanner(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"q": QUERY}, adaptive=True, statistics=FIRST)
    go = Event()

    def estimate(*_: object) -> Statistics:
        go.wait(60)
        return OTHER

    monkeypatch.setattr(run.coordinator.collector, "estimate", estimate)
    for batch in range(4):
        run.batch(tables(batch))
    assert len(run.generations) == 1
    go.set()
    run.coordinator.replanner.wait(60)
    run.batch(tables(4))
    assert len(run.generations) == 2
    outline = run.generations[1]
    assert outline["batch"] == 4
    assert outline["predicted_new"] < outline["predicted_old"]
    assert outline["measured_before"] > 0
    assert outline["measured"] > 0
    assert "statistics moved" in outline["reason"]
    run.batch(tables(5))
    assert run.results("q").num_rows == (6 * 4) ** 3


def test_without_adaptive_the_first_plan_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"q": QUERY}, adaptive=False, statistics=FIRST)
    monkeypatch.setattr(run.coordinator.collector, "estimate", lambda *_: OTHER)
    for batch in range(4):
        run.batch(tables(batch))
        run.coordinator.replanner.wait(60)
    assert len(run.generations) == 1


def tables(batch: int) -> dict[str, pa.Table]:
    columns = {"R": "ab", "S": "bc", "T": "cd"}
    return {name: pa.table({c: pa.array([1] * 4, pa.int64()) for c in both}) for name, both in columns.items()}
