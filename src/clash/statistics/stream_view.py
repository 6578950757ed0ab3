"""One stream over several epochs: tuples, key counts, and samples whose rows have weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clash.statistics.collected import Collected
from clash.statistics.frequent_keys import FrequentKeys, merge_frequent
from clash.statistics.kernels import BUCKETS, below
from clash.statistics.sample import Sample

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightedSample:
    """A sample over several epochs, each with its own share; a row stands for `weights` tuples."""

    sample: Sample
    weights: Floats

    def lowered(self, threshold: int) -> WeightedSample:
        """The rows that remain under a lower threshold."""
        if self.sample.on is None or threshold >= self.sample.threshold:
            return self
        remaining = below(self.sample.own_hashes(), threshold)
        return WeightedSample(replace(self.sample.take(remaining), threshold=threshold), self.weights[remaining])

    def passing(self, predicates: Sequence[str]) -> WeightedSample:
        """The rows for which those of the predicates hold that are sampled."""
        mask = np.uint16(self.sample.layout.mask(predicates))
        if not mask:
            return self
        passing = (self.sample.bits & mask) == mask
        return WeightedSample(self.sample.take(passing), self.weights[passing])


@dataclass(frozen=True, eq=False)
class StreamView:
    """The tuples of a stream that count."""

    stream: str
    rows: float
    excess: float
    """What counting tuples several-fold adds to the join of the stream with itself."""
    histograms: dict[str, Floats]
    """By key."""
    passes: dict[str, tuple[float, float]]
    """By predicate: tuples that pass, tuples that it was evaluated on."""
    samples: dict[str | None, WeightedSample]
    """By the key that the sample is on."""
    frequent: dict[str, FrequentKeys]
    """By column."""

    def scaled(self, rows: float) -> StreamView:
        """The same tuples, as if there were so many of them."""
        factor = rows / self.rows if self.rows else 0.0
        return replace(
            self,
            rows=rows,
            excess=self.excess * factor * factor,
            histograms={key: counts * factor for key, counts in self.histograms.items()},
            samples={on: WeightedSample(weighted.sample, weighted.weights * factor) for on, weighted in self.samples.items()},
        )

    def passing_share(self, predicate: str) -> float | None:
        """The share of tuples that pass, None if unknown; never exactly 0 or 1, because it is an estimate."""
        passed, evaluated = self.passes.get(predicate, (0.0, 0.0))
        return (passed + 0.1) / (evaluated + 0.2) if evaluated else None


def build_view(stream: str, parts: Sequence[tuple[Collected, float]]) -> StreamView:
    """The tuples of the stream in the parts, each with the share of its tuples that counts."""
    counted = [(part, share) for part, share in parts if share > 0 and stream in part.streams]
    rows = sum(part.streams[stream].rows * share for part, share in counted)
    excess = sum(part.streams[stream].excess * share for part, share in counted)
    histograms: dict[str, Floats] = {}
    passes: dict[str, tuple[float, float]] = {}
    samples: dict[str | None, list[tuple[Sample, float]]] = {}
    for part, share in counted:
        for (name, key), counts in part.histograms.items():
            if name == stream:
                histograms[key] = histograms.get(key, np.zeros(BUCKETS)) + counts * share
        for (name, text), (passed, evaluated) in part.passes.items():
            if name == stream:
                before = passes.get(text, (0.0, 0.0))
                passes[text] = before[0] + passed * share, before[1] + evaluated * share
        for (name, on), sample in part.samples.items():
            if name == stream:
                samples.setdefault(on, []).append((sample, share))
    frequent: dict[str, list[FrequentKeys]] = {}
    for part, share in counted:
        for (name, column), keys in part.frequent.items():
            if name == stream:
                frequent.setdefault(column, []).append(keys.scaled(share))
    merged = {column: merge_frequent(of_column) for column, of_column in frequent.items()}
    return StreamView(stream, rows, excess, histograms, passes, {on: _weighted(of_key, rows) for on, of_key in samples.items()}, merged)


def _weighted(samples: list[tuple[Sample, float]], rows: float) -> WeightedSample:
    """The samples as one, scaled to `rows` tuples. Samples of another layout than the newest one's are left out; the others stand for
    their tuples too."""
    newest = samples[-1][0]
    alike = [(sample, share) for sample, share in samples if sample.layout == newest.layout]
    threshold = min(sample.threshold for sample, _ in alike)
    lowered = [(sample.lowered(threshold), share) for sample, share in alike]
    seen = sum(sample.seen * share for sample, share in alike)
    weights = [np.full(sample.rows, share / sample.share * (rows / seen if seen else 0.0)) for sample, share in lowered]
    merged = replace(
        newest,
        threshold=threshold,
        hashes=np.concatenate([sample.hashes for sample, _ in lowered]),
        bits=np.concatenate([sample.bits for sample, _ in lowered]),
    )
    return WeightedSample(merged, np.concatenate(weights))
