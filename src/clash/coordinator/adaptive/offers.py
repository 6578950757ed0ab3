"""The plan that is on offer, and how often plans may change.

Invariant: an offer is for one generation, and is taken at most once, at a boundary of a later epoch than the one it was found in. Two
changes are at least a pause apart; a change that did not make batches cheaper doubles the pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from clash.coordinator.adaptive.payback import Payback
from clash.plan.logical import LogicalPlan


@dataclass(frozen=True)
class Offer:
    """A better plan, found in an epoch for a generation."""

    generation: int
    epoch: int
    plan: LogicalPlan
    reason: str
    payback: Payback

    @property
    def predicted(self) -> tuple[float, float]:
        """The costs of the running plan and of this one."""
        return self.payback.old, self.payback.new


class Known(NamedTuple):
    """The better plans that are known."""

    offer: Offer | None = None
    """The one on offer."""
    unpaid: Offer | None = None
    """The best of those that are cheaper, but do not earn within the horizon what the change costs. Every estimate prices it again."""

    @staticmethod
    def best(plans: Iterable[Offer], gain: float) -> Known:
        """Of plans that gain at least this share, the ones that bring most."""
        by_net = sorted((p for p in plans if p.payback.new < p.payback.old * (1 - gain)), key=lambda p: -p.payback.net)
        offer, unpaid = (next((p for p in by_net if p.payback.pays == pays), None) for pays in (True, False))
        return Known(offer, unpaid)


class Offers:
    """At most one offer at a time. `pause`: the epochs between two changes of plan, at least; `max_pause`: at most."""

    def __init__(self, pause: int, max_pause: int) -> None:
        self._first_pause, self._max_pause = pause, max_pause
        self._lock = Lock()
        self._known = Known()
        self._pause = pause
        self._last_change: int | None = None  # the epoch of it

    @property
    def known(self) -> Known:
        with self._lock:
            return self._known

    def unpaid(self, generation: int) -> Payback | None:
        """What a change to the best plan brings and costs that is known for the generation, but does not pay yet."""
        unpaid = self.known.unpaid
        return unpaid.payback if unpaid is not None and unpaid.generation == generation else None

    def update(self, change: Callable[[Known], Known]) -> None:
        """Replaces what is known by what `change` makes of it, which may take a while: it is called again if it has changed meanwhile."""
        while True:
            before = self.known
            after = change(before)
            with self._lock:
                if self._known is before:
                    self._known = after
                    return

    def take(self, generation: int, epoch: int) -> Offer | None:
        """At the boundary into `epoch`: the offer for the generation, if the last change is long enough ago."""
        with self._lock:
            offer = self._known.offer
            if offer is None or offer.epoch >= epoch:
                return None
            if offer.generation != generation:
                self._known = Known()
                return None
            if self._last_change is not None and epoch - self._last_change < self._pause:
                return None
            self._known, self._last_change = Known(), epoch
            return offer

    def record_outcome(self, before: float, after: float) -> None:
        """What tuples cost before and after a change of plan, as measured."""
        with self._lock:
            self._pause = self._first_pause if after < before else min(2 * self._pause, self._max_pause)
