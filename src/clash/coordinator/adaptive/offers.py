"""The plan that is on offer, and how often plans may change.

Invariant: an offer is for one generation, and is taken at most once, at a boundary of a later epoch than the one it was found in. Two
changes are at least a pause apart; a change that did not make batches cheaper doubles the pause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from clash.plan.logical import LogicalPlan


@dataclass(frozen=True)
class Offer:
    """A better plan, found in an epoch for a generation."""

    generation: int
    epoch: int
    plan: LogicalPlan
    reason: str
    predicted: tuple[float, float]
    """The costs of the running plan and of this one, under the statistics of the time."""


class Offers:
    """At most one offer at a time. `pause`: the epochs between two changes of plan, at least; `max_pause`: at most."""

    def __init__(self, pause: int, max_pause: int) -> None:
        self._first_pause, self._max_pause = pause, max_pause
        self._lock = Lock()
        self._offer: Offer | None = None
        self._pause = pause
        self._last_change: int | None = None  # the epoch of it

    @property
    def current(self) -> Offer | None:
        with self._lock:
            return self._offer

    def update(self, change: Callable[[Offer | None], Offer | None]) -> None:
        """Replaces the offer by what `change` makes of it, which may take a while: it is called again if the offer has changed
        meanwhile."""
        while True:
            before = self.current
            after = change(before)
            with self._lock:
                if self._offer is before:
                    self._offer = after
                    return

    def take(self, generation: int, epoch: int) -> Offer | None:
        """At the boundary into `epoch`: the offer for the generation, if the last change is long enough ago."""
        with self._lock:
            offer = self._offer
            if offer is None or offer.epoch >= epoch:
                return None
            if offer.generation != generation:
                self._offer = None
                return None
            if self._last_change is not None and epoch - self._last_change < self._pause:
                return None
            self._offer, self._last_change = None, epoch
            return offer

    def record_outcome(self, before: float, after: float) -> None:
        """What tuples cost before and after a change of plan, as measured."""
        with self._lock:
            self._pause = self._first_pause if after < before else min(2 * self._pause, self._max_pause)
