"""Replanning beside the stream: statistics of an epoch are estimated in the next one, and a better plan takes effect in the one after.

Invariant: a batch never waits for it. At the boundary into epoch i + 1 it gets the statistics of epoch i; what it finds is offered at a
boundary into i + 2 or later, and only for the generation that it was requested for. It changes nothing unless the gain that it predicts
exceeds a threshold and earns what the change itself costs (`transition_pricing`) for as long as the data is expected to stay as it is
(`stability`), and not too often (`offers`). As long as the data has not drifted, estimating takes a small share of the time, and the
solver, which works when no other process needs the processor, another. A failure costs a warning. After `close` nothing runs any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

from clash.coordinator.adaptive.background import Background
from clash.coordinator.adaptive.offers import Known, Offer, Offers
from clash.coordinator.adaptive.payback import Prices
from clash.coordinator.adaptive.plan_pricing import price_plan
from clash.coordinator.adaptive.stability import ASSUMED_WINDOWS, UNKNOWN_STABILITY, Stability
from clash.coordinator.control.setup import Setup
from clash.model.statistics import Statistics
from clash.plan.logical import LogicalPlan
from clash.plan.options import BoundSource
from clash.planner.solver import ClosedError, SolverProcess
from clash.sql.statistics_text import normal_statistics

_LOG = logging.getLogger("clash")
EstimateStatistics = Callable[[], Statistics | None]  # it takes a while
_MAX_SHOWN = 3
_MIN_MOVED = 0.02  # of the tuples: a smaller share that has other frequent keys than before changes no plan
ESTIMATING, SOLVING = "clash-replan", "clash-solve"  # the names of threads


@dataclass(frozen=True)
class Policy:
    """When the replanner works, and what it takes for a better plan."""

    gain: float = 0.1
    """The predicted gain from which on a plan is offered, as a share of the cost: predictions are not exact."""
    assumed_horizon: float = ASSUMED_WINDOWS
    """For how many windows the data is expected to stay as it is, before drifts have been seen."""
    min_change: float = 0.2
    """The share by which a statistic must change for the plan to be looked at again."""
    solver_seconds: float = 10.0
    """The time limit of the solver."""
    solver_pause: float = 100.0
    """The solver pauses for this many times as long as it took, while the data has not drifted, …"""
    solver_pause_if_drifted: float = 10.0
    """… and for this many times while it has."""
    estimate_interval: float = 50.0
    """Estimates are this many times as far apart as they take, while the data has not drifted, …"""
    estimate_interval_if_drifted: float = 5.0
    """… and this many times while it has."""
    pause: int = 2
    """Epochs between two changes of plan, at least."""
    max_pause: int = 64
    """The longest pause, after changes that did not pay."""

    @property
    def estimate_intervals(self) -> tuple[float, float]:
        return self.estimate_interval, self.estimate_interval_if_drifted


@dataclass(frozen=True)
class ReplanRequest:
    """Whether there is a better plan than the running one; put at the boundary into `epoch`."""

    generation: int
    epoch: int
    setup: Setup
    plan: LogicalPlan
    drifted: bool
    """Whether it is put because the data has drifted."""
    stability: Stability = UNKNOWN_STABILITY
    """For how long the data usually stays as it is."""


@dataclass(frozen=True)
class _Estimates:
    """When the next estimate is due."""

    generation: int | None = None
    """The generation of the last one."""
    due: float = 0.0
    """From then on without drift."""
    due_if_drifted: float = 0.0


@dataclass(frozen=True)
class _Solved:
    """What the solver did last."""

    ended: float = 0.0
    took: float = 0.0
    basis: tuple[int, Statistics] | None = None
    """The generation and the statistics that it planned for."""


@dataclass(frozen=True)
class ComparedPlans:
    """What the solver has found last, beside the plan that runs, under the same statistics."""

    generation: int
    running: float
    """The cost of the running plan."""
    best: float
    """The cost of the solver's."""
    bound: float
    """No plan costs less."""
    is_proven: bool
    """Whether the solver's plan is the cheapest there is."""
    bound_source: BoundSource = "solver"


class Replanner:
    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.offers = Offers(self.policy.pause, self.policy.max_pause)
        self.latest: Statistics | None = None  # the last estimate
        self.compared: ComparedPlans | None = None  # by the solver, for people
        self.failed = False  # a failure is logged once
        self._lock = Lock()
        self._solver = SolverProcess()
        self._background = Background(self._guarded)
        self._estimates = _Estimates()
        self._solved = _Solved()
        self._priced = (-1, Statistics())  # the generation whose plans were compared last, and by which statistics

    # ---- the coordinator's side --------------------------------------------------------------------------------

    def is_due(self, generation: int, drifted: bool) -> bool:
        """Whether to estimate again: always for a new generation, and sooner for data that has drifted."""
        estimates = self._estimates
        return generation != estimates.generation or time.monotonic() >= (estimates.due_if_drifted if drifted else estimates.due)

    def request(self, question: ReplanRequest, estimate: EstimateStatistics) -> None:
        """At a boundary. While an earlier question is open this one is dropped."""
        if self.run_beside(partial(self._answer, question, estimate)):
            with self._lock:
                self._estimates = replace(self._estimates, generation=question.generation)

    def run_beside(self, work: Callable[[], None]) -> bool:
        """Runs the work in a thread, unless the last work still runs; whether it does."""
        return self._background.start(ESTIMATING, work)

    def wait(self, timeout: float | None = None) -> None:
        """Until the open question is answered, by the solver too."""
        self._background.join(ESTIMATING, timeout)
        self._background.join(SOLVING, timeout)

    def close(self) -> None:
        """Ends what can be ended and waits for the rest, a fraction of a second: another run may have the checkpoint then."""
        self._background.close()
        self._solver.close()
        self.wait()

    # ---- beside the stream -------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ClosedError:
            pass
        except Exception as error:
            if not self.failed:
                _LOG.warning("no better plan was looked for: %s", error, exc_info=True)
            self.failed = True

    def _answer(self, question: ReplanRequest, estimate: EstimateStatistics) -> None:
        began = time.monotonic()
        try:
            statistics = estimate()
            self.latest = statistics or self.latest
            self._compare(question, question.plan.request.statistics if statistics is None else statistics)
        finally:
            now = time.monotonic()
            took = now - began
            due, due_if_drifted = (now + factor * took for factor in self.policy.estimate_intervals)
            with self._lock:
                self._estimates = replace(self._estimates, due=due, due_if_drifted=due_if_drifted)

    def _compare(self, question: ReplanRequest, statistics: Statistics) -> None:
        """Offers the heuristic's plan at once, if it is better; then starts the solver, if its pause is over."""
        plan, policy = question.plan, self.policy
        self._priced = (question.generation, normal_statistics(statistics, question.setup.read_streams))
        basis = self._solved.basis if self._solved.basis is not None and self._solved.basis[0] == question.generation else None
        solved = basis is not None or plan.optimal or plan.request.time_limit > 0
        steady = solved and not changed_statistics(plan.request.statistics if basis is None else basis[1], statistics, policy.min_change)
        if steady and self.offers.known == Known():
            return
        prices = self._prices(question, self._priced[1])
        if prices.old is None:
            return
        if steady:
            self._offer_best(question, prices, None)
            return
        better = question.setup.optimize(statistics, start=plan)  # by the heuristic: cheap enough for every epoch
        changes = changed_statistics(plan.request.statistics, statistics, policy.min_change)
        reason = "statistics moved: " + _listed(changes) if changes else "the solver's plan after the first one"
        self._offer_best(question, prices, (better, reason))
        known = self.offers.known
        if known.offer is None and known.unpaid is not None and plan.request.mirs:
            # New intermediate results do not pay, but other orders and layouts may. The bound is one on plans of either kind.
            other = replace(question.setup, mirs=False).optimize(statistics, start=plan)
            other = replace(other, request=better.request, bound=min(better.bound, other.cost), optimal=False)
            self._offer_best(question, prices, (other, reason))
        if self._solver_is_due(question.drifted):
            self._background.start(SOLVING, partial(self._solve, question, statistics, better, reason), daemon=True)

    def _prices(self, question: ReplanRequest, now: Statistics) -> Prices:
        return Prices(question.plan, now, question.stability, self.policy.assumed_horizon)

    def _solver_is_due(self, drifted: bool) -> bool:
        last = self._solved
        return (
            not last.ended
            or time.monotonic() >= last.ended + (self.policy.solver_pause_if_drifted if drifted else self.policy.solver_pause) * last.took
        )

    def _offer_best(self, question: ReplanRequest, prices: Prices, found: tuple[LogicalPlan, str] | None) -> None:
        """Offers the plan that was found, for a reason, or one that is known, whichever brings more under the statistics of now."""
        payback = None if found is None else prices.payback(found[0])
        new = [] if found is None or payback is None else [Offer(question.generation, question.epoch, *found, payback)]

        def choose(known: Known) -> Known:
            earlier = [offer for offer in known if offer is not None]
            if any(offer.generation > question.generation for offer in earlier):
                return known
            of_now = [(offer, prices.payback(offer.plan)) for offer in earlier if offer.generation == question.generation]
            priced = [replace(offer, payback=payback) for offer, payback in of_now if payback is not None]
            return Known.best([*new, *priced], self.policy.gain)

        self.offers.update(choose)

    def _solve(self, question: ReplanRequest, statistics: Statistics, better: LogicalPlan, reason: str) -> None:
        """In a thread of its own, so that estimates continue meanwhile: its plan is priced by the statistics of its end."""
        began = time.monotonic()
        basis = self._solved.basis
        try:
            best = question.setup.optimize(statistics, self.policy.solver_seconds, better, self._solver)
        finally:
            self._solved = _Solved(time.monotonic(), time.monotonic() - began, basis)
        generation, now = self._priced
        if generation != question.generation:
            return  # there is another one by now
        self._solved = replace(self._solved, basis=(question.generation, statistics))
        running = price_plan(question.plan, best.request.statistics)
        if running is not None:
            self.compared = ComparedPlans(question.generation, running, best.cost, best.bound, best.optimal, best.bound_source)
        self._offer_best(question, self._prices(question, now), (best, reason))


def changed_statistics(old: Statistics, new: Statistics, share: float) -> list[str]:
    """The statistics that differ by more than a share, in words, the largest change first."""
    changes: list[tuple[float, str]] = []
    tables = (
        (dict(old.rates), dict(new.rates), old.default_rate),
        (dict(old.selectivities), dict(new.selectivities), old.default_selectivity),
        ({" ⋈ ".join(k): v for k, v in old.sizes.items()}, {" ⋈ ".join(k): v for k, v in new.sizes.items()}, None),
    )
    for before, after, default in tables:
        for name, value in after.items():
            was = before.get(name, default)
            if was is None:
                changes.append((1.0, f"{name} is {value:.3g}"))
            elif abs(value - was) > share * max(value, was):
                changes.append((abs(value - was) / max(value, was), f"{name} {was:.3g} → {value:.3g}"))
    for column in sorted({*old.frequent, *new.frequent}):
        was_shares, shares = old.frequent.get(column, {}), new.frequent.get(column, {})
        moved = sum(abs(shares.get(key, 0.0) - was_shares.get(key, 0.0)) for key in {*shares, *was_shares}) / 2
        if moved > max(share * max(sum(shares.values()), sum(was_shares.values())), _MIN_MOVED):
            changes.append((moved, f"frequent values of {column} moved"))
    return [text for _, text in sorted(changes, key=lambda item: (-item[0], item[1]))]


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:_MAX_SHOWN]) + (f" and {len(texts) - _MAX_SHOWN} more" if len(texts) > _MAX_SHOWN else "")
