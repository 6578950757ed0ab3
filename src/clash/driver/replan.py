"""Re-planning beside the stream: statistics of an epoch are looked at in the next one, and a better plan is used in the one after.

Invariant: a batch never waits for it. At the border into epoch i + 1 it is handed the statistics of epoch i; what it finds is offered at
a border into i + 2 or later, and only for the generation that it was asked about. It changes nothing unless the gain that it predicts beats
a threshold, and not too often: a change that did not make batches cheaper doubles the pause before the next. As long as the data looks as
before, looking takes a small share of the time, and the solver too. A failure costs a warning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread

from clash.driver.price import price
from clash.driver.setup import Setup
from clash.model.statistics import Statistics
from clash.planner.plan import Plan

_LOG = logging.getLogger("clash")
Look = Callable[[], Statistics | None]  # works out statistics; it takes a while
_SHOWN = 3


@dataclass(frozen=True)
class Policy:
    """`gain`: predicted, as a share of the cost. `moved`: the share by which a number must change to be looked at again. `pause`: epochs
    between two changes of plan, at least; `longest`: after changes that did not help. The solver has `seconds`, and rests `rest` times as
    long as it took. As long as nothing stirs, looks are `idle` times as far apart
    as they take."""

    gain: float = 0.1
    moved: float = 0.2
    seconds: float = 3.0
    rest: float = 30.0
    idle: float = 30.0
    pause: int = 2
    longest: int = 64


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
        self._thread: Thread | None = None
        self._offer: Offer | None = None
        self._basis: tuple[int, Statistics] | None = None  # the generation and the statistics that were looked at last
        self._warned = False
        self._seen: int | None = None  # the generation that was looked at last
        self._idle = 0.0  # until then it looks only at what has moved
        self._rested = 0.0  # when the solver may work again, by this process's clock
        self._pause = self.policy.pause
        self._changed: int | None = None  # the epoch of the last change

    def ask(self, generation: int, epoch: int, setup: Setup, plan: Plan, look: Look) -> None:
        """At the border into `epoch`. While an earlier question is open this one is left out."""
        self._seen = generation
        self.beside(partial(self._work, generation, epoch, setup, plan, look))

    def beside(self, work: Callable[[], None]) -> None:
        """Runs it in a thread, unless the last one is still at work."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=work, name="clash-replan", daemon=True)
                self._thread.start()

    def rested(self, generation: int) -> bool:
        """Is it time for a look that nothing in the data calls for? A new generation is always worth one."""
        return generation != self._seen or time.monotonic() >= self._idle

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
        """Until the open question is answered; for tests."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)

    def _work(self, generation: int, epoch: int, setup: Setup, plan: Plan, look: Look) -> None:
        began = time.monotonic()
        try:
            statistics = look()
            self.latest = statistics or self.latest
            for offer in self._look(generation, epoch, setup, plan, plan.asked.statistics if statistics is None else statistics):
                with self._lock:
                    self._offer = offer
        except Exception as error:
            if not self._warned:
                _LOG.warning("no better plan was looked for: %s", error, exc_info=True)
            self._warned = True
        finally:
            self._idle = time.monotonic() + self.policy.idle * (time.monotonic() - began)

    def _look(self, generation: int, epoch: int, setup: Setup, plan: Plan, statistics: Statistics) -> Iterator[Offer]:
        """First what the heuristic finds, at once; then what the solver makes of it, if it has rested."""
        known = self._basis if self._basis is not None and self._basis[0] == generation else None
        basis = known[1] if known is not None else plan.asked.statistics
        changes = moved(basis, statistics, self.policy.moved)
        solved = known is not None or plan.optimal or plan.asked.time_limit > 0
        if not changes and solved:
            return
        better = setup.optimize(statistics, start=plan)  # by the heuristic: cheap enough for every epoch
        old = price(plan, better.asked.statistics)
        if old is None:
            return
        moves = moved(plan.asked.statistics, statistics, self.policy.moved)
        reason = "statistics moved: " + _listed(moves) if moves else "the solver's plan after the first one"
        enough = old * (1 - self.policy.gain)
        if better.cost < enough:
            yield Offer(generation, epoch, better, reason, (old, better.cost))
        if time.monotonic() >= self._rested:
            began = time.monotonic()
            best = setup.optimize(statistics, self.policy.seconds, start=better)
            self._rested = time.monotonic() + self.policy.rest * (time.monotonic() - began)
            self._basis = (generation, statistics)
            if best.cost < min(better.cost, enough):
                yield Offer(generation, epoch, best, reason, (old, best.cost))


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
