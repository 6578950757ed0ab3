"""The size of the join of two keys, from their hashed histograms.

Different keys that share a bucket by chance add n·m/B to the inner product on average, which is subtracted. The rest is unbiased, with a
standard error of about √(F·G/B), where F and G are the sums of squared key counts; this holds under skew too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clash.statistics.kernels import BUCKETS
from clash.statistics.stream_view import Floats, StreamView


class PairSize(NamedTuple):
    """Rows of a join of two streams, and their relative standard error."""

    rows: float
    error: float


def equal_pairs(left: Floats, right: Floats, excess: float = 0.0) -> PairSize:
    """Pairs of equal keys; `excess` is what tuples that were counted several-fold add to the join of a stream with itself."""
    n, m = float(left.sum()), float(right.sum())
    rows = max(0.0, (BUCKETS * float(left @ right) - n * m) / (BUCKETS - 1) - excess)
    deviation = float(np.sqrt(squared_counts(left) * squared_counts(right) / BUCKETS))
    return PairSize(rows, deviation / rows if rows > 0 else float("inf") if deviation else 0.0)


def squared_counts(counts: Floats) -> float:
    """The sum of squared key counts."""
    n = float(counts.sum())
    return max(n, (BUCKETS * float(counts @ counts) - n * n) / (BUCKETS - 1))


def pair_size(left: StreamView, left_key: str, right: StreamView, right_key: str) -> PairSize | None:
    """The join of two streams on one pair of keys; None where one of them was not collected."""
    left_counts, right_counts = left.histograms.get(left_key), right.histograms.get(right_key)
    if left_counts is None or right_counts is None:
        return None
    with_itself = left.stream == right.stream and left_key == right_key
    return equal_pairs(left_counts, right_counts, min(left.excess, right.excess) if with_itself else 0.0)
