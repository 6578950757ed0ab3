"""What takes effect where an epoch begins: requested changes, a given plan, or a better plan that the replanner offers.

Invariant: nothing that goes wrong with a plan stops the stream: the change is refused, and the run continues as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from clash.coordinator.control.changes import Pending
from clash.coordinator.control.setup import Setup, differences
from clash.plan.logical import LogicalPlan

PlanOverride = Callable[[Setup, int], LogicalPlan | None]  # a plan for a set-up at the boundary before a batch; for tests


class BoundaryRequests:
    """Requests that the next batch which is not decided yet begins an epoch."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requested = self._served = 0

    def request(self) -> None:
        with self._lock:
            self._requested += 1

    def pending(self) -> tuple[int, bool]:
        """How many requests there were, and whether some of them are not served yet."""
        with self._lock:
            return self._requested, self._requested > self._served

    def serve(self, requested: int) -> None:
        """A batch that begins an epoch is recorded; requests up to this number were made before its decision."""
        with self._lock:
            self._served = requested


class NextPlan(NamedTuple):
    """What a boundary is to put into effect."""

    plan: LogicalPlan | None
    """None where the coordinator has to make one."""
    reason: str
    predicted: tuple[float, float] | None = None


def plan_of_changes(pending: Pending, running: Setup, override: LogicalPlan | None) -> NextPlan:
    reason = "; ".join(differences(running, pending.setup)) or pending.changes[-1].description
    return NextPlan(override or pending.plan, reason)
