"""What a generation has cost, over its whole life and in its last batches.

Invariant: data drifts, so the cost of a plan is only comparable with what the plan before cost just before it. The last few batches of
every generation are kept for that, and recorded when the generation is over, so that a restart shows the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

RECENT_BATCHES = 5  # also the batches after which a new plan has settled


class BatchCost(NamedTuple):
    tuples: int
    seconds: float
    """Summed over all tasks."""


class GenerationCost(NamedTuple):
    batches: int = 0
    tuples: int = 0
    seconds: float = 0.0
    recent: tuple[BatchCost, ...] = ()
    """Each of the last few batches, oldest first."""

    def plus(self, tuples: int, seconds: float) -> GenerationCost:
        """After one more batch."""
        recent = (*self.recent, BatchCost(tuples, round(seconds, 6)))[-RECENT_BATCHES:]
        return GenerationCost(self.batches + 1, self.tuples + tuples, round(self.seconds + seconds, 6), recent)

    @property
    def micros_per_tuple(self) -> float | None:
        return micros_per_tuple([BatchCost(self.tuples, self.seconds)])


def micros_per_tuple(batches: Iterable[BatchCost]) -> float | None:
    """Microseconds of all tasks per tuple; None if there was no tuple."""
    batches = tuple(batches)
    tuples = sum(batch.tuples for batch in batches)
    return round(sum(batch.seconds for batch in batches) * 1e6 / tuples, 3) if tuples else None


def compare_costs(before: GenerationCost, now: GenerationCost) -> tuple[float, float] | None:
    """What tuples cost under the last plan at its end, and under this one after its first batch, which pays for opening stores. None except
    in the one batch after which the new plan has settled."""
    old, new = micros_per_tuple(before.recent), micros_per_tuple(now.recent[1:])
    return (old, new) if now.batches == RECENT_BATCHES and old is not None and new is not None else None
