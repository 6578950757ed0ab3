"""Whether the runs of one commit are faster than those of another: the ratio of their figures, and how certain it is.

The ratio is the median of all ratios of a run of the second commit to a run of the first (the estimate of Hodges and Lehmann, on
logarithms). Its interval follows from the rank test of Mann and Whitney: it has all ratios that the test does not refuse at a level of 5 %.
It needs no assumption about the distribution of the figures except that a commit scales it, and one disturbed run does not decide.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

LEVEL = 0.05  # how often two equal commits are told apart by mistake, at most, for each measure
MIN_ROUNDS = 4  # with fewer, not even runs that do not overlap at all are that unlikely
Verdict = Literal["faster", "slower", "better", "worse", "not told apart"]


@dataclass(frozen=True)
class Measure:
    """What is compared. `is_time`: a difference is called faster or slower, and otherwise better or worse."""

    name: str
    more_is_better: bool = False
    is_time: bool = True


@dataclass(frozen=True)
class VerdictRow:
    """A line of the CSV file: the second commit, `b`, relative to the first, `a`."""

    measure: str
    runs: int
    """Of each commit."""
    a: float
    """The median of its runs; likewise `b`."""
    b: float
    ratio: float
    """`b` relative to `a`."""
    low: float
    """The interval of `ratio` begins here, and ends with `high`."""
    high: float
    verdict: Verdict


def compare(measure: Measure, a: Sequence[float], b: Sequence[float]) -> VerdictRow:
    """Figures are positive, one per run. The commits are told apart if the interval of their ratio excludes 1."""
    ratios = sorted(second / first for first in a for second in b)
    outside = _ranks_outside(len(a), len(b))
    low, high = (ratios[outside - 1], ratios[-outside]) if outside else (0.0, math.inf)
    verdict: Verdict = "not told apart"
    if high < 1 or low > 1:
        is_good = (low > 1) == measure.more_is_better
        verdict = ("faster" if is_good else "slower") if measure.is_time else ("better" if is_good else "worse")
    middle = math.exp(statistics.median(map(math.log, ratios)))
    return VerdictRow(measure.name, min(len(a), len(b)), statistics.median(a), statistics.median(b), middle, low, high, verdict)


def _ranks_outside(n: int, m: int) -> int:
    """The largest k such that the interval from the k-th smallest to the k-th largest ratio has the level; 0 if there is none."""
    arrangements, k, below = math.comb(n + m, n), 0, 0
    while k < n * m:
        below += _count(n, m, k)
        if 2 * below > LEVEL * arrangements:
            break
        k += 1
    return k


@cache
def _count(n: int, m: int, smaller: int) -> int:
    """The number of orders of n and m figures in which as many pairs have the second figure as the smaller one."""
    if smaller < 0 or n < 0 or m < 0:
        return 0
    if n == 0 or m == 0:
        return int(smaller == 0)
    return _count(n - 1, m, smaller - m) + _count(n, m - 1, smaller)
