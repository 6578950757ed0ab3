"""Re-planning beside the stream: when it looks, what it offers, and when its offers are used."""

from __future__ import annotations

import logging
from threading import Event, Thread

import pyarrow as pa
import pytest

from clash.coordinator.adaptive.replanner import Policy, Replanner, changed_statistics
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.coordinator.control.setup import Setup
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.optimizer import Plan
from clash.planner.solver import SolverProcess

STREAMS = [Stream.of(name, dict.fromkeys(columns, "bigint")) for name, columns in {"R": "ab", "S": "bc", "T": "cd"}.items()]
QUERY = "SELECT R.a, T.d FROM R JOIN S ON R.b = S.b JOIN T ON S.c = T.c"
SETUP = Setup.of(JobSpec(tuple(STREAMS), (QueryRequest("q", QUERY),), workers=4))
FIRST = Statistics(rates={"R": 10, "S": 1000, "T": 1000}, selectivities={"R.b = S.b": 1e-3, "S.c = T.c": 1e-3})
OTHER = Statistics(rates={"R": 1e6, "S": 10, "T": 10}, selectivities={"R.b = S.b": 0.1, "S.c = T.c": 1e-6})
PLAN = SETUP.optimize(FIRST, 5)


def test_what_has_moved() -> None:
    assert changed_statistics(FIRST, FIRST, 0.2) == []
    assert changed_statistics(FIRST, Statistics(rates={"R": 11}), 0.2) == []
    assert changed_statistics(FIRST, Statistics(rates={"R": 20, "S": 100}), 0.2) == ["S 1e+03 → 100", "R 10 → 20"]


def test_a_better_plan_is_offered_one_epoch_later_and_once() -> None:
    planner = Replanner()
    planner.ask(0, 5, SETUP, PLAN, lambda: OTHER)
    planner.wait()
    assert planner.take(0, 5) is None  # looked at in epoch 5: used from 6 on
    offer = planner.take(0, 6)
    assert offer is not None
    assert offer.predicted[1] < 0.9 * offer.predicted[0]
    assert "R 10 → 1e+06" in offer.reason
    assert planner.take(0, 7) is None


def test_an_offer_for_another_generation_is_dropped() -> None:
    planner = Replanner()
    planner.ask(0, 1, SETUP, PLAN, lambda: OTHER)
    planner.wait()
    assert planner.take(1, 2) is None
    assert planner.take(0, 3) is None


def test_nothing_is_offered_below_the_threshold() -> None:
    planner = Replanner(Policy(gain=0.999999))
    planner.ask(0, 1, SETUP, PLAN, lambda: OTHER)
    planner.wait()
    assert planner.take(0, 2) is None


def test_changes_that_did_not_help_make_it_wait_longer() -> None:
    planner = Replanner(Policy(pause=2))

    def offered(generation: int, epoch: int) -> bool:
        planner.ask(generation, epoch - 1, SETUP, PLAN, lambda: OTHER)
        planner.wait()
        return planner.take(generation, epoch) is not None

    assert offered(0, 10)
    assert not offered(1, 11)
    assert planner.take(1, 12) is not None
    planner.learn(before=1.0, after=1.2)
    assert not offered(2, 15)
    assert planner.take(2, 16) is not None
    planner.learn(before=1.0, after=0.5)
    assert offered(3, 18)


def test_an_offer_that_would_not_pay_any_more_is_dropped() -> None:
    planner = Replanner(Policy(pause=10, rest=0, seconds=0))
    planner._changed = 0
    planner.ask(1, 1, SETUP, PLAN, lambda: OTHER)
    planner.wait()
    assert planner.take(1, 2) is None  # it waits
    for epoch in range(2, 10):
        planner.ask(1, epoch, SETUP, PLAN, lambda: FIRST)  # the data is again what the plan was made for
        planner.wait()
    assert planner.take(1, 10) is None


def test_an_offer_that_waits_is_kept_while_it_pays() -> None:
    planner = Replanner(Policy(pause=10, rest=0, seconds=0))
    planner._changed = 0
    for epoch in range(1, 10):
        planner.ask(1, epoch, SETUP, PLAN, lambda: OTHER)
        planner.wait()
    offer = planner.take(1, 10)
    assert offer is not None
    assert offer.predicted[1] < 0.9 * offer.predicted[0]


def test_a_solver_of_an_old_generation_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, go, optimize = Replanner(), Event(), Setup.optimize

    def slow(
        setup: Setup, statistics: Statistics, seconds: float = 0, start: Plan | None = None, aside: SolverProcess | None = None
    ) -> Plan:
        if seconds:
            go.wait(60)
        return optimize(setup, statistics, 0, start)

    monkeypatch.setattr(Setup, "optimize", slow)
    planner.ask(0, 1, SETUP, PLAN, lambda: OTHER)
    assert planner._looking is not None
    planner._looking.join()
    planner.ask(1, 5, SETUP, PLAN, lambda: OTHER)
    planner._looking.join()
    go.set()
    planner.wait()
    offer = planner.take(1, 9)
    assert offer is not None
    assert offer.generation == 1


def test_a_solver_that_fails_rests_too(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, asked, optimize = Replanner(), [], Setup.optimize

    def failing(
        setup: Setup, statistics: Statistics, seconds: float = 0, start: Plan | None = None, aside: SolverProcess | None = None
    ) -> Plan:
        if seconds:
            asked.append(seconds)
            raise RuntimeError("no")
        return optimize(setup, statistics, 0, start)

    monkeypatch.setattr(Setup, "optimize", failing)
    planner.policy = Policy(rest=1e9, alert=1e9)
    for epoch in range(1, 4):
        planner.ask(0, epoch, SETUP, PLAN, lambda: OTHER)
        planner.wait()
    assert len(asked) == 1


def test_the_solver_rests_less_when_the_data_stirs(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, asked, optimize = Replanner(Policy(rest=1e9, alert=0)), [], Setup.optimize

    def noted(
        setup: Setup, statistics: Statistics, seconds: float = 0, start: Plan | None = None, aside: SolverProcess | None = None
    ) -> Plan:
        asked.append(seconds)
        return optimize(setup, statistics, 0, start)

    monkeypatch.setattr(Setup, "optimize", noted)
    worked = []
    for epoch, stirred in enumerate((False, False, True)):
        planner.ask(0, epoch, SETUP, PLAN, lambda: Statistics(rates={"R": 10.0 ** len(asked)}), stirred)
        planner.wait()
        worked.append(sum(seconds > 0 for seconds in asked))
    assert worked == [1, 1, 2]


def test_after_closing_nothing_is_at_work(caplog: pytest.LogCaptureFixture) -> None:
    planner, go = Replanner(), Event()

    def look() -> Statistics:
        go.wait(60)
        return OTHER

    planner.ask(0, 1, SETUP, PLAN, look)
    closing = Thread(target=planner.close)
    closing.start()
    go.set()
    closing.join()
    assert planner._looking is not None
    assert not planner._looking.is_alive()
    planner.ask(0, 2, SETUP, PLAN, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    planner.wait()
    assert caplog.records == []


def test_a_failure_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    planner = Replanner()
    with caplog.at_level(logging.WARNING, "clash"):
        for epoch in (1, 2):
            planner.ask(0, epoch, SETUP, PLAN, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
            planner.wait()
    assert len(caplog.records) == 1
    planner.ask(0, 3, SETUP, PLAN, lambda: OTHER)
    planner.wait()
    assert planner.take(0, 4) is not None


def test_a_batch_never_waits_for_the_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"q": QUERY}, adaptive=True, statistics=FIRST)
    go = Event()

    def look(*_: object) -> Statistics:
        go.wait(60)
        return OTHER

    monkeypatch.setattr(run.coordinator.collector, "statistics", look)
    for batch in range(4):
        run.batch(tables(batch))
    assert len(run.generations) == 1
    go.set()
    run.coordinator.replanner.wait(60)
    run.batch(tables(4))
    assert len(run.generations) == 2
    told = run.generations[1]
    assert told["batch"] == 4
    assert told["predicted_new"] < told["predicted_old"]
    assert told["measured_before"] > 0
    assert told["measured"] > 0
    assert "statistics moved" in told["reason"]
    run.batch(tables(5))
    assert run.results("q").num_rows == (6 * 4) ** 3


def test_without_adaptive_the_first_plan_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"q": QUERY}, adaptive=False, statistics=FIRST)
    monkeypatch.setattr(run.coordinator.collector, "statistics", lambda *_: OTHER)
    for batch in range(4):
        run.batch(tables(batch))
        run.coordinator.replanner.wait(60)
    assert len(run.generations) == 1


def tables(batch: int) -> dict[str, pa.Table]:
    columns = {"R": "ab", "S": "bc", "T": "cd"}
    return {name: pa.table({c: pa.array([1] * 4, pa.int64()) for c in both}) for name, both in columns.items()}
