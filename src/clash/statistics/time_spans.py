"""Where tuples lie in event time: a few spans with their numbers of tuples, so that one tuple far from all others stretches no span.

Spans add up: when there are too many, those two neighbours are merged whose tuples this stretches least, and the sum of the tuples stays.
The number of tuples of a span is approximate, because only some event times of a block are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_SPANS = 4
EVENT_TIMES_READ = 128  # of a block, about, beside the smallest and the largest
LEADING_SHARE = 0.05  # of the tuples: so few that lead do not tell how far the stream has come


class Span(NamedTuple):
    """`rows` tuples with event times from `low` to `high`, both included, evenly distributed."""

    rows: float
    low: int
    high: int


Spans = tuple[Span, ...]


def spans_of(event_times: NDArray[np.int64]) -> Spans:
    """The spans of a block: cut where a gap is more than a quarter of the whole range, which blocks of usual tuples do not have."""
    sampled = event_times[:: max(1, len(event_times) // EVENT_TIMES_READ)]
    points = np.concatenate([sampled, [event_times.min(), event_times.max()]])
    points.sort()
    gaps = np.diff(points.view(np.uint64))  # unsigned, as the difference of two event times may exceed int64
    cuts = np.flatnonzero(gaps > (int(points[-1]) - int(points[0])) // 4) + 1
    spans = []
    for start, end in pairwise([0, *cuts.tolist(), len(points)]):
        points_sampled = end - start - (start == 0) - (end == len(points))  # the smallest and the largest were added
        rows = max(1.0, points_sampled * len(event_times) / len(sampled))
        spans.append(Span(rows, int(points[start]), int(points[end - 1])))
    return tuple(spans)


def merge_spans(spans: Iterable[Span]) -> Spans:
    """The same tuples in at most `MAX_SPANS` spans."""
    merged = sorted(spans, key=lambda span: (span.low, span.high))
    while len(merged) > MAX_SPANS:
        at = min(range(len(merged) - 1), key=lambda i: _stretch(merged[i], merged[i + 1]))
        merged[at : at + 2] = [_union(merged[at], merged[at + 1])]
    return tuple(merged)


def clock(spans: Iterable[Span]) -> int:
    """The largest event time, apart from the spans of a few tuples that lead."""
    newest = sorted(spans, key=lambda span: span.high, reverse=True)
    rows_from_end = list(accumulate(span.rows for span in newest))
    return next(span.high for span, rows in zip(newest, rows_from_end, strict=True) if rows >= LEADING_SHARE * rows_from_end[-1])


def share_between(spans: Spans, since: int, until: int) -> float:
    """The share of the tuples that lie from `since` to `until`."""
    return sum(span.rows * _overlap(span, since, until) for span in spans) / sum(span.rows for span in spans)


def _overlap(span: Span, since: int, until: int) -> float:
    low, high = max(span.low, since), min(span.high, until)
    if low > high:
        return 0.0
    return (high - low) / (span.high - span.low) if span.high > span.low else 1.0


def _union(left: Span, right: Span) -> Span:
    return Span(left.rows + right.rows, min(left.low, right.low), max(left.high, right.high))


def _stretch(left: Span, right: Span) -> float:
    """By how much the spans of all their tuples grow in sum if the two are merged."""
    length = max(left.high, right.high) - min(left.low, right.low)
    return left.rows * (length - left.high + left.low) + right.rows * (length - right.high + right.low)
