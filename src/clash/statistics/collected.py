"""What the tasks of one or more batches have collected: counts, histograms and samples that add up.

Invariant: merging in any order gives the same counts and histograms; of frequent keys, as far as none is dropped from a full list. Parts
that were collected under other queries merge too: a histogram is named by column and type, and a sample whose layout (keys and predicates)
has changed starts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clash.codec import Codec
from clash.statistics.frequent_keys import FrequentKeys, merge_frequent
from clash.statistics.kernels import BUCKETS
from clash.statistics.sample import Sample, SampleLayout, merge_samples
from clash.statistics.time_spans import Spans, merge_spans

Histogram = NDArray[np.int64]

MAX_SAMPLE_ROWS = 1024  # of a merged sample
MIN_SAMPLE_KEYS = 256  # keys of a merged sample that are not given up to have fewer rows


@dataclass(frozen=True)
class StreamCounts:
    """The tuples of a stream."""

    rows: float = 0
    excess: float = 0
    """Σ w² − w over tuples that were counted with weight w, which stands for tuples that were skipped."""
    spans: Spans = ()
    """Their event times; empty where these are unknown."""

    def plus(self, other: StreamCounts) -> StreamCounts:
        return StreamCounts(self.rows + other.rows, self.excess + other.excess, merge_spans(self.spans + other.spans))


class PredicateCounts(NamedTuple):
    """Tuples that pass a predicate, of those that it was evaluated on; both scaled to all tuples of the stream."""

    passed: float = 0.0
    evaluated: float = 0.0

    def plus(self, other: PredicateCounts) -> PredicateCounts:
        return PredicateCounts(self.passed + other.passed, self.evaluated + other.evaluated)


@dataclass(frozen=True)
class Collected:
    """Statistics of the tuples of some batches, by stream."""

    streams: Mapping[str, StreamCounts] = field(default_factory=dict)
    histograms: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)
    """By stream and name of the key."""
    passes: Mapping[tuple[str, str], PredicateCounts] = field(default_factory=dict)
    """By stream and text of the predicate."""
    samples: Mapping[tuple[str, str | None], Sample] = field(default_factory=dict)
    """By stream and the key that the sample is on."""
    frequent: Mapping[tuple[str, str], FrequentKeys] = field(default_factory=dict)
    """By stream and column."""

    def __post_init__(self) -> None:
        for counts in self.histograms.values():
            if len(counts) != BUCKETS:  # written by a version with another number of buckets
                raise ValueError(f"a histogram of {len(counts)} buckets")

    def only(self, streams: Iterable[str]) -> Collected:
        """The part that is of these streams."""
        names = set(streams)
        return Collected(
            {name: counts for name, counts in self.streams.items() if name in names},
            {key: counts for key, counts in self.histograms.items() if key[0] in names},
            {key: counts for key, counts in self.passes.items() if key[0] in names},
            {key: sample for key, sample in self.samples.items() if key[0] in names},
            {key: keys for key, keys in self.frequent.items() if key[0] in names},
        )


COLLECTED: Codec[Collected] = Codec(Collected)


def merge(parts: Iterable[Collected]) -> Collected:
    """The sum of what was collected, oldest first: the newest part decides which sample layout of a stream survives."""
    streams: dict[str, StreamCounts] = {}
    histograms: dict[tuple[str, str], Histogram] = {}
    passes: dict[tuple[str, str], PredicateCounts] = {}
    samples: dict[tuple[str, str | None], list[Sample]] = {}
    layouts: dict[str, SampleLayout] = {}
    frequent: dict[tuple[str, str], list[FrequentKeys]] = {}
    for part in parts:
        for name, counts in part.streams.items():
            streams[name] = streams.get(name, StreamCounts()).plus(counts)
        for key, histogram in part.histograms.items():
            histograms[key] = histograms[key] + histogram if key in histograms else histogram
        for key, passed in part.passes.items():
            passes[key] = passes.get(key, PredicateCounts()).plus(passed)
        for key, keys in part.frequent.items():
            frequent.setdefault(key, []).append(keys)
        for (name, on), sample in part.samples.items():
            samples.setdefault((name, on), []).append(sample)
            layouts[name] = sample.layout
    merged = {
        (name, on): merge_samples(of_key, MAX_SAMPLE_ROWS, MIN_SAMPLE_KEYS)
        for (name, on), of_key in samples.items()
        if of_key[-1].layout == layouts[name]
    }
    return Collected(streams, histograms, passes, merged, {key: merge_frequent(of_key) for key, of_key in frequent.items()})
