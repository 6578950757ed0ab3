"""When an answer is due.

Everything whose time grows with the query set looks at the deadline, again and again. What is done past it is at most the smallest search
space and one plan in it, because there is no answer without them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]
"""Seconds since some fixed moment."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment, and the clock that it refers to."""

    at: float = math.inf
    clock: Clock = time.perf_counter

    @property
    def left(self) -> float:
        """The seconds until then, at least 0."""
        return max(0.0, self.at - self.clock())

    @property
    def passed(self) -> bool:
        return self.clock() >= self.at

    def share(self, share: float) -> Deadline:
        """An earlier one: that share of the time until then from now."""
        return self if self.at == math.inf else self.within(share * self.left)

    def within(self, seconds: float) -> Deadline:
        """That many seconds from now, but no later than this."""
        return Deadline(min(self.at, self.clock() + seconds), self.clock)

    def earlier(self, seconds: float) -> Deadline:
        """That many seconds before this."""
        return Deadline(self.at - seconds, self.clock)


NEVER = Deadline()
