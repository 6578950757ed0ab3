"""The join of two keys by their hashed histograms.

Keys that share a bucket by chance add n·m/B to the inner product, on average; that is taken off. What is left is right on
average, with a standard error of about √(F·G/B), F and G being the sums of squared key counts: skew and all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clash.statistics.kernels import BUCKETS
from clash.statistics.stream_view import Floats, View


class Size(NamedTuple):
    """Rows, and the relative standard error."""

    rows: float
    error: float


def joined_keys(left: Floats, right: Floats, excess: float = 0.0) -> Size:
    """Pairs of equal keys; `excess`: what a stream counted several-fold adds to its join with itself."""
    n, m = float(left.sum()), float(right.sum())
    rows = max(0.0, (BUCKETS * float(left @ right) - n * m) / (BUCKETS - 1) - excess)
    deviation = float(np.sqrt(squares(left) * squares(right) / BUCKETS))
    return Size(rows, deviation / rows if rows > 0 else float("inf") if deviation else 0.0)


def squares(counts: Floats) -> float:
    """The sum of squared key counts."""
    n = float(counts.sum())
    return max(n, (BUCKETS * float(counts @ counts) - n * n) / (BUCKETS - 1))


def pair(left: View, left_key: str, right: View, right_key: str) -> Size | None:
    """The join of two streams on one pair of keys; None where one was not gathered."""
    one, other = left.histograms.get(left_key), right.histograms.get(right_key)
    if one is None or other is None:
        return None
    own = left.stream == right.stream and left_key == right_key
    return joined_keys(one, other, min(left.excess, right.excess) if own else 0.0)
