"""What a generation has cost, over its whole life and of late.

Invariant: data drifts, so what a plan cost is only worth comparing with what the one before cost just before it. That is kept of every
generation, a few batches long, and recorded when the generation is over; a restart tells the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

RECENT = 5  # batches; so long has a plan to settle, too

Spent = tuple[int, float]  # tuples, and seconds of all tasks


class Measured(NamedTuple):
    """`recent`: each of the last few batches, oldest first."""

    batches: int = 0
    tuples: int = 0
    seconds: float = 0.0
    recent: tuple[Spent, ...] = ()

    def plus(self, tuples: int, seconds: float) -> Measured:
        """After one more batch."""
        recent = (*self.recent, (tuples, round(seconds, 6)))[-RECENT:]
        return Measured(self.batches + 1, self.tuples + tuples, round(self.seconds + seconds, 6), recent)

    @property
    def micros(self) -> float | None:
        return micros([(self.tuples, self.seconds)])

    @staticmethod
    def from_json(data: list[Any]) -> Measured:
        batches, tuples, seconds, recent = data
        return Measured(batches, tuples, seconds, tuple((number, spent) for number, spent in recent))


def micros(spent: Iterable[Spent]) -> float | None:
    """µs of all tasks per tuple; None if there was none."""
    spent = tuple(spent)
    tuples = sum(number for number, _ in spent)
    return round(sum(seconds for _, seconds in spent) * 1e6 / tuples, 3) if tuples else None


def compared(before: Measured, now: Measured) -> tuple[float, float] | None:
    """What tuples cost under the last plan at its end, and under this one since its first batch, which pays for opening; told once, when it
    has settled."""
    was, cost = micros(before.recent), micros(now.recent[1:])
    return (was, cost) if now.batches == RECENT and was is not None and cost is not None else None
