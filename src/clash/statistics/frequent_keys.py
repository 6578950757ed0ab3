"""The most frequent values of a joined column, by the hash that decides their slot (`clash.columnar.slots`).

Only a part of the tuples is examined, and only the values that are most frequent in it are listed. A value that is frequent overall is so
in most parts, and its count there is right; one that is rare in a part counts as if it were not in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from clash.columnar.slots import key_hashes

MAX_LISTED = 32  # values of one part or of several
MIN_SHARE = 1 / 128  # of the tuples of a part; rarer values are not listed


@dataclass(frozen=True)
class FrequentKeys:
    """The most frequent values in a part of a stream."""

    rows: float = 0.0
    """The tuples that the part stands for, those without a value included."""
    counts: Mapping[int, float] = field(default_factory=dict)
    """By hash, how many of them have the value."""

    def scaled(self, factor: float) -> FrequentKeys:
        return FrequentKeys(self.rows * factor, {key: count * factor for key, count in self.counts.items()})


def count_keys(column: pa.Array, rows: float, timezone: str) -> FrequentKeys:
    """The values in a column of tuples that stand for so many, without rare ones."""
    if not len(column):
        return FrequentKeys()
    hashes, valid = key_hashes(column, timezone)
    found, counts = np.unique(hashes if valid is None else hashes[valid], return_counts=True)
    often = counts >= MIN_SHARE / 2 * len(column)
    scaled = counts[often] * (rows / len(column))
    return FrequentKeys(rows, dict(zip(found[often].tolist(), scaled.tolist(), strict=True)))


def merge_frequent(parts: Iterable[FrequentKeys]) -> FrequentKeys:
    """The parts together; the most frequent values alone are listed, in a fixed order."""
    rows, counts = 0.0, Counter[int]()
    for part in parts:
        rows += part.rows
        for key, count in part.counts.items():
            counts[key] += count  # type: ignore[assignment]
    listed = sorted(((key, count) for key, count in counts.items() if count >= MIN_SHARE * rows), key=lambda item: (-item[1], item[0]))
    return FrequentKeys(rows, dict(listed[:MAX_LISTED]))
