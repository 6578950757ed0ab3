"""When tuples lie in event time: a few spans with their numbers of tuples, so that one far from all others does not stretch theirs.

Spans add up: those that are united are the neighbours that this stretches least, each tuple counted. Numbers of tuples are about right.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 4  # spans
LOOKED = 128  # tuples of a block whose times are looked at, about, beside the first and the last
FEW = 0.05  # of the tuples: so many that lead are not where the stream is


class Span(NamedTuple):
    rows: float
    low: int
    high: int


Spans = tuple[Span, ...]


def spans_of(tau: NDArray[np.int64]) -> Spans:
    """Cut where a gap is more than a quarter of it all: in blocks of usual tuples there is none."""
    some = tau[:: max(1, len(tau) // LOOKED)]
    points = np.concatenate([some, [tau.min(), tau.max()]])
    points.sort()
    gaps = np.diff(points.view(np.uint64))  # a difference of times may be beyond int64
    cuts = np.flatnonzero(gaps > (int(points[-1]) - int(points[0])) // 4) + 1
    found = []
    for start, end in pairwise([0, *cuts.tolist(), len(points)]):
        looked = end - start - (start == 0) - (end == len(points))  # the first and the last were added
        found.append(Span(max(1.0, looked * len(tau) / len(some)), int(points[start]), int(points[end - 1])))
    return tuple(found)


def united(spans: Iterable[Span]) -> Spans:
    found = sorted(spans, key=lambda span: (span.low, span.high))
    while len(found) > MOST:
        at = min(range(len(found) - 1), key=lambda i: _stretch(found[i], found[i + 1]))
        found[at : at + 2] = [_both(found[at], found[at + 1])]
    return tuple(found)


def clock(spans: Iterable[Span]) -> int:
    """The largest event time, but for a few tuples that lead."""
    newest = sorted(spans, key=lambda span: span.high, reverse=True)
    ahead = list(accumulate(span.rows for span in newest))
    return next(span.high for span, rows in zip(newest, ahead, strict=True) if rows >= FEW * ahead[-1])


def share(spans: Spans, since: int, until: int) -> float:
    """The share of the tuples from `since` to `until`, those of a span lying evenly in it."""
    return sum(span.rows * _part(span, since, until) for span in spans) / sum(span.rows for span in spans)


def _part(span: Span, since: int, until: int) -> float:
    low, high = max(span.low, since), min(span.high, until)
    if low > high:
        return 0.0
    return (high - low) / (span.high - span.low) if span.high > span.low else 1.0


def _both(one: Span, other: Span) -> Span:
    return Span(one.rows + other.rows, min(one.low, other.low), max(one.high, other.high))


def _stretch(one: Span, other: Span) -> float:
    """By how much the spans of all their tuples grow if they are united."""
    length = max(one.high, other.high) - min(one.low, other.low)
    return one.rows * (length - one.high + one.low) + other.rows * (length - other.high + other.low)
