"""For how long the data is expected to stay as it is: what a new plan costs to change to has to be earned by then.

Invariant: time is counted in tuples. What a plan costs is a cost of tuples, too, so it does not matter whether they come fast or slowly, as
live data or as files that are read as fast as possible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

ASSUMED_WINDOWS = 10.0
"""The horizon as long as few drifts have been seen: most data changes more slowly than its windows, and a change of plan that introduces an
intermediate result earns its price in one or two windows if it gains much."""
_MIN_SPELLS = 2  # spells between drifts from which on they count: a single one may be chance
_MAX_SPELLS = 8  # the last ones
_MAX_DRIFTS = 64  # epochs that are remembered


@dataclass(frozen=True)
class Stability:
    """When the data has drifted so far. A restart forgets it."""

    tuples: int = 0
    """The tuples of all epochs."""
    drifts: tuple[int, ...] = ()
    """The number of tuples at each epoch that had drifted, the last ones."""

    def after_epoch(self, tuples: int, drifted: bool) -> Stability:
        if drifted:
            return Stability(self.tuples + tuples, (*self.drifts, self.tuples)[-_MAX_DRIFTS:])
        return replace(self, tuples=self.tuples + tuples)

    def horizon(self, window: float, assumed: float = ASSUMED_WINDOWS) -> float:
        """The expected time until the next drift, in windows of so many tuples.

        It is the usual time between two; `assumed` where there are too few to tell. If no drift has come for longer than ever between two,
        the data has become more stable: then it is the time since the last one.
        """
        starts = _starts(self.drifts, window)
        spells = [(after - before) / max(window, 1.0) for before, after in pairwise(starts)][-_MAX_SPELLS:]
        if len(spells) < _MIN_SPELLS:
            return assumed
        since_last = (self.tuples - starts[-1]) / max(window, 1.0)
        return since_last if since_last > max(spells) else median(spells)


UNKNOWN_STABILITY = Stability()


def _starts(drifts: tuple[int, ...], window: float) -> list[int]:
    """Where drifts began. A sudden change shows in every epoch until the windows contain nothing else, and is one drift; data that drifts
    for longer has a drift per window."""
    starts: list[int] = []
    for at in drifts:
        if not starts or at - starts[-1] > window:
            starts.append(at)
    return starts
