"""Samples of a stream's tuples: the hashes of all join keys, and which predicates hold.

A sample *on* a key has the tuples whose key hash is below `threshold`, and of those a random `share`. To shrink a sample, the threshold is
lowered first, as long as many keys remain: a few keys with all their tuples show how keys meet. Where keys are few and tuples many (the
customers of a nation), the share is lowered instead. A sample on no key is a random share of all tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.statistics.kernels import MAX_THRESHOLD, Hashes, below

PredicateBits = NDArray[np.uint16]


@dataclass(frozen=True)
class SampleLayout:
    """What the columns and bits of a sample mean. All samples of a stream that were taken under the same queries share one layout."""

    keys: tuple[str, ...]
    """Names of the keys (`column type`), one per column of `Sample.hashes`."""
    predicates: tuple[str, ...]
    """Texts of the predicates, one per bit of `Sample.bits`."""

    def mask(self, predicates: Iterable[str]) -> int:
        """The bits of those of the predicates that are sampled."""
        return sum(1 << self.predicates.index(text) for text in {*predicates} if text in self.predicates)


@dataclass(frozen=True, eq=False)
class Sample:
    """Sampled tuples of one stream."""

    layout: SampleLayout
    on: str | None
    """The key whose hashes the threshold applies to; None for a share of all tuples."""
    threshold: int
    share: float
    seen: float
    """Number of tuples that the sample was drawn from."""
    hashes: Hashes
    """A row per tuple, a column per key of the layout; 0 is NULL."""
    bits: PredicateBits
    """Per tuple the predicates that it passes."""

    @property
    def rows(self) -> int:
        return len(self.bits)

    def own_hashes(self) -> Hashes:
        """The hashes of the key that the sample is on."""
        return self.key_hashes(str(self.on))

    def key_hashes(self, key: str) -> Hashes:
        hashes: Hashes = self.hashes[:, self.layout.keys.index(key)]
        return hashes

    def take(self, rows: NDArray[Any]) -> Sample:
        return replace(self, hashes=self.hashes[rows], bits=self.bits[rows])

    def lowered(self, threshold: int) -> Sample:
        """The tuples that remain under a lower threshold."""
        if self.on is None or threshold >= self.threshold:
            return self
        return replace(self.take(below(self.own_hashes(), threshold)), threshold=threshold)

    def thinned(self, share: float) -> Sample:
        """A random part of the tuples: the same one for the same sample."""
        if share >= self.share:
            return self
        chosen = np.random.default_rng(self.rows).random(self.rows) < share / self.share
        return replace(self.take(chosen), share=share)

    def shrunk(self, max_rows: int, min_keys: int) -> Sample:
        """A sample of about `max_rows` at most; the threshold is lowered only while more than `min_keys` keys remain."""
        sample = self
        while sample.rows > max_rows:
            distinct = 0 if sample.on is None else _count_distinct(sample.own_hashes())
            if distinct > min_keys:
                threshold = int(sample.threshold * max(max_rows / sample.rows, min_keys / distinct) * 0.99)
                sample = sample.lowered(max(1, threshold))
            else:
                return sample.thinned(sample.share * max_rows / sample.rows)
        return sample


def empty_sample(layout: SampleLayout, on: str | None) -> Sample:
    return Sample(layout, on, MAX_THRESHOLD, 1.0, 0, np.empty((0, len(layout.keys)), np.uint32), np.empty(0, np.uint16))


def merge_samples(samples: list[Sample], max_rows: int, min_keys: int) -> Sample:
    """One sample of all tuples that the samples were drawn from. Only those of the last one's layout count: the last is the newest."""
    newest = samples[-1]
    alike = [sample for sample in samples if sample.layout == newest.layout]
    threshold, share = min(sample.threshold for sample in alike), min(sample.share for sample in alike)
    alike = [sample.lowered(threshold).thinned(share) for sample in alike]
    merged = replace(
        newest,
        threshold=threshold,
        share=share,
        seen=sum(sample.seen for sample in alike),
        hashes=np.concatenate([sample.hashes for sample in alike]),
        bits=np.concatenate([sample.bits for sample in alike]),
    )
    return merged.shrunk(max_rows, min_keys)


def _count_distinct(hashes: Hashes) -> int:
    """The number of different hashes; `np.unique` takes several times as long for so few rows."""
    ordered = np.sort(hashes)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
