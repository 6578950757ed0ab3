"""Re-planning beside the stream: statistics of an epoch are looked at in the next one, and a better plan is used in the one after.

Invariant: a batch never waits for it. At the border into epoch i + 1 it is handed the statistics of epoch i; what it finds is offered at
a border into i + 2 or later, and only for the generation that it was asked about. It changes nothing unless the gain that it predicts beats
a threshold, and not too often: a change that did not make batches cheaper doubles the pause before the next. As long as the data looks as
before, looking takes a small share of the time, and the solver, which works when nobody else wants the processor, another. A failure costs
a warning. After `close` nothing is at work any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock, Thread

from clash.coordinator.adaptive.plan_pricing import price
from clash.coordinator.control.setup import Setup
from clash.model.statistics import Statistics
from clash.planner.solver import Aside, ClosedError
from clash.planner.plan import Plan
from clash.planner.statistics_text import normal_statistics

_LOG = logging.getLogger("clash")
Look = Callable[[], Statistics | None]  # works out statistics; it takes a while
_SHOWN = 3


@dataclass(frozen=True)
class Policy:
    """`gain`: predicted, as a share of the cost. `moved`: the share by which a number must change to be looked at again. `pause`: epochs
    between two changes of plan, at least; `longest`: after changes that did not help. The solver has `seconds`, of which it works when the
    batches leave it a processor, and rests `rest` times as long as it took, or `alert` times if something stirs. Looks are `idle` times as
    far apart as they take as long as nothing stirs, and `busy` times if something does, over and over."""

    gain: float = 0.1
    moved: float = 0.2
    seconds: float = 10.0
    rest: float = 100.0
    alert: float = 10.0
    idle: float = 50.0
    busy: float = 5.0
    pause: int = 2
    longest: int = 64


@dataclass(frozen=True)
class Question:
    """Asked at the border into `epoch`: is there a better plan for the generation's set-up than the one that runs? `stirred`: because the
    data has moved."""

    generation: int
    epoch: int
    setup: Setup
    plan: Plan
    stirred: bool


@dataclass(frozen=True)
class Offer:
    """A better plan, found in `epoch` for a generation."""

    generation: int
    epoch: int
    plan: Plan
    reason: str
    predicted: tuple[float, float]


class Replanner:
    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.latest: Statistics | None = None  # the statistics that were looked at last
        self._lock = Lock()
        self._aside = Aside()
        self._closed = False
        self._looking: Thread | None = None
        self._solving: Thread | None = None
        self._offer: Offer | None = None
        self._basis: tuple[int, Statistics] | None = None  # the generation and the statistics that the solver was asked about last
        self._priced = (-1, Statistics())  # the generation whose plans were compared last, and by which statistics
        self._warned = False
        self._seen: int | None = None  # the generation that was looked at last
        self._idle = 0.0  # until then it looks only at what has moved,
        self._busy = 0.0  # and until then only at a new generation
        self._solved = (0.0, 0.0)  # when the solver has worked last, and for how long
        self._pause = self.policy.pause
        self._changed: int | None = None  # the epoch of the last change

    def ask(self, generation: int, epoch: int, setup: Setup, plan: Plan, look: Look, stirred: bool = False) -> None:
        """At the border into `epoch`. While an earlier question is open this one is left out."""
        if self.beside(partial(self._look, Question(generation, epoch, setup, plan, stirred), look)):
            self._seen = generation

    def beside(self, work: Callable[[], None]) -> bool:
        """Runs it in a thread, unless the last one is still at work."""
        with self._lock:
            free = not self._closed and (self._looking is None or not self._looking.is_alive())
            if free:  # a program that ends waits for it: what it works with is native code that must not be left in the middle
                self._looking = Thread(target=self._safely, args=(work,), name="clash-replan", daemon=False)
                self._looking.start()
        return free

    def rested(self, generation: int, stirred: bool) -> bool:
        """Is it time for a look? A new generation is always worth one, and data that has moved sooner than data that has not."""
        return generation != self._seen or time.monotonic() >= (self._busy if stirred else self._idle)

    def take(self, generation: int, epoch: int) -> Offer | None:
        """What was found in an earlier epoch for this generation, if the last change is long enough ago."""
        with self._lock:
            offer = self._offer
            if offer is None or offer.epoch >= epoch:
                return None
            if offer.generation != generation:
                self._offer = None
                return None
            if self._changed is not None and epoch - self._changed < self._pause:
                return None
            self._offer = None
            self._changed = epoch
            return offer

    def learn(self, before: float, after: float) -> None:
        """What tuples cost before and after a change of plan, as measured."""
        with self._lock:
            self._pause = self.policy.pause if after < before else min(2 * self._pause, self.policy.longest)

    def wait(self, timeout: float | None = None) -> None:
        """Until the open question is answered, by the solver too."""
        if self._looking is not None:
            self._looking.join(timeout)
        if self._solving is not None:
            self._solving.join(timeout)

    def close(self) -> None:
        """Ends what can be ended, and waits for the rest, a fraction of a second: the checkpoint may be another's then."""
        with self._lock:
            self._closed = True
        self._aside.close()
        self.wait()

    def _safely(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ClosedError:
            pass
        except Exception as error:
            if not self._warned:
                _LOG.warning("no better plan was looked for: %s", error, exc_info=True)
            self._warned = True

    def _look(self, asked: Question, look: Look) -> None:
        began = time.monotonic()
        try:
            statistics = look()
            self.latest = statistics or self.latest
            self._compare(asked, asked.plan.asked.statistics if statistics is None else statistics)
        finally:
            now = time.monotonic()
            self._idle, self._busy = now + self.policy.idle * (now - began), now + self.policy.busy * (now - began)

    def _compare(self, asked: Question, statistics: Statistics) -> None:
        """What the heuristic finds is offered at once; then the solver is asked, if it has rested."""
        plan, policy = asked.plan, self.policy
        self._priced = (asked.generation, normal_statistics(statistics, asked.setup.by_name))
        known = self._basis if self._basis is not None and self._basis[0] == asked.generation else None
        solved = known is not None or plan.optimal or plan.asked.time_limit > 0
        still = solved and not moved(plan.asked.statistics if known is None else known[1], statistics, policy.moved)
        if still and self._offer is None:
            return
        old = price(plan, self._priced[1])
        if old is None:
            return
        if still:
            self._put_best(asked, old, None)
            return
        better = asked.setup.optimize(statistics, start=plan)  # by the heuristic: cheap enough for every epoch
        moves = moved(plan.asked.statistics, statistics, policy.moved)
        reason = "statistics moved: " + _listed(moves) if moves else "the solver's plan after the first one"
        self._put_best(asked, old, Offer(asked.generation, asked.epoch, better, reason, (old, better.cost)))
        with self._lock:
            if not self._closed and self._has_rested(asked.stirred) and (self._solving is None or not self._solving.is_alive()):
                work = partial(self._solve, asked, statistics, better, reason)
                self._solving = Thread(target=self._safely, args=(work,), name="clash-solve", daemon=True)
                self._solving.start()

    def _has_rested(self, stirred: bool) -> bool:
        ended, took = self._solved
        return not ended or time.monotonic() >= ended + (self.policy.alert if stirred else self.policy.rest) * took

    def _put_best(self, asked: Question, old: float, found: Offer | None) -> None:
        """What was found, or what is on offer already, whichever is cheaper by the statistics of now; nothing if neither will do."""
        enough = old * (1 - self.policy.gain)
        found = found if found is not None and found.predicted[1] < enough else None
        while True:
            with self._lock:
                held = self._offer
            best = found
            if held is not None and held.generation == asked.generation:
                cost = price(held.plan, self._priced[1])
                if cost is not None and cost < (enough if found is None else found.predicted[1]):
                    best = replace(held, predicted=(old, cost))
            with self._lock:
                if self._offer is held:  # else the solver has found something meanwhile, or a border has taken it
                    self._offer = best
                    return

    def _solve(self, asked: Question, statistics: Statistics, better: Plan, reason: str) -> None:
        """In a thread of its own, so that looks go on meanwhile: what it finds is priced by the statistics of its end."""
        began = time.monotonic()
        try:
            best = asked.setup.optimize(statistics, self.policy.seconds, better, self._aside)
        finally:
            self._solved = time.monotonic(), time.monotonic() - began
        generation, now = self._priced
        if generation != asked.generation:
            return  # there is another one by now
        self._basis = (asked.generation, statistics)
        old, cost = price(asked.plan, now), price(best, now)
        if old is None or cost is None or cost >= old * (1 - self.policy.gain):
            return
        with self._lock:
            held = self._offer
            if held is None or held.generation < asked.generation or (held.generation == asked.generation and cost < held.predicted[1]):
                self._offer = Offer(asked.generation, asked.epoch, best, reason, (old, cost))


def moved(old: Statistics, new: Statistics, share: float) -> list[str]:
    """The numbers that differ by more than a share, the largest change first."""
    found: list[tuple[float, str]] = []
    tables = (
        (dict(old.rates), dict(new.rates), old.default_rate),
        (dict(old.selectivities), dict(new.selectivities), old.default_selectivity),
        ({" ⋈ ".join(k): v for k, v in old.sizes.items()}, {" ⋈ ".join(k): v for k, v in new.sizes.items()}, None),
    )
    for before, after, default in tables:
        for name, value in after.items():
            was = before.get(name, default)
            if was is None:
                found.append((1.0, f"{name} is {value:.3g}"))
            elif abs(value - was) > share * max(value, was):
                found.append((abs(value - was) / max(value, was), f"{name} {was:.3g} → {value:.3g}"))
    return [text for _, text in sorted(found, key=lambda item: (-item[0], item[1]))]


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:_SHOWN]) + (f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else "")
