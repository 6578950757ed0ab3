"""A stream over some epochs: tuples, key counts, and samples whose rows have weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clash.statistics.collected import Gathered
from clash.statistics.kernels import BUCKETS
from clash.statistics.sample import Sample

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Weighted:
    """A sample over several epochs, each with its own share."""

    sample: Sample
    weights: Floats

    def lowered(self, threshold: int) -> Weighted:
        if self.sample.on is None or threshold >= self.sample.threshold:
            return self
        from clash.statistics.kernels import below

        kept = below(self.sample.own(), threshold)
        return Weighted(replace(self.sample.take(kept), threshold=threshold), self.weights[kept])

    def passing(self, predicates: Sequence[str]) -> Weighted:
        """The rows for which the predicates hold, as far as it is known."""
        mask = 0
        for text in predicates:
            if text in self.sample.predicates:
                mask |= 1 << self.sample.predicates.index(text)
        if not mask:
            return self
        kept = (self.sample.bits & np.uint16(mask)) == np.uint16(mask)
        return Weighted(self.sample.take(kept), self.weights[kept])


@dataclass(frozen=True, eq=False)
class View:
    """`excess` is what counting tuples several-fold adds to the join of the stream with itself."""

    stream: str
    rows: float
    excess: float
    histograms: dict[str, Floats]
    passes: dict[str, tuple[float, float]]
    samples: dict[str | None, Weighted]

    def scaled(self, rows: float) -> View:
        """The same tuples, as if there were so many of them."""
        factor = rows / self.rows if self.rows else 0.0
        return replace(
            self,
            rows=rows,
            excess=self.excess * factor * factor,
            histograms={key: counts * factor for key, counts in self.histograms.items()},
            samples={on: Weighted(w.sample, w.weights * factor) for on, w in self.samples.items()},
        )

    def share(self, predicate: str) -> float | None:
        """The share of tuples that pass; a little above nothing and below all of them, for it is never sure."""
        passed, looked = self.passes.get(predicate, (0.0, 0.0))
        return (passed + 0.1) / (looked + 0.2) if looked else None


def view(stream: str, parts: Sequence[tuple[Gathered, float]]) -> View:
    """The tuples of the stream in the parts, each with the share of it that counts."""
    live = [(part, covered) for part, covered in parts if covered > 0 and stream in part.streams]
    rows = sum(part.streams[stream].rows * covered for part, covered in live)
    excess = sum(part.streams[stream].excess * covered for part, covered in live)
    histograms: dict[str, Floats] = {}
    passes: dict[str, tuple[float, float]] = {}
    for part, covered in live:
        for (of, key), counts in part.histograms.items():
            if of == stream:
                histograms[key] = histograms.get(key, np.zeros(BUCKETS)) + counts * covered
        for (of, text), (passed, looked) in part.passes.items():
            if of == stream:
                before = passes.get(text, (0.0, 0.0))
                passes[text] = before[0] + passed * covered, before[1] + looked * covered
    samples: dict[str | None, list[tuple[Sample, float]]] = {}
    for part, covered in live:
        for (of, on), sample in part.samples.items():
            if of == stream:
                samples.setdefault(on, []).append((sample, covered))
    return View(stream, rows, excess, histograms, passes, {on: _weighted(all_, rows) for on, all_ in samples.items()})


def _weighted(samples: list[tuple[Sample, float]], rows: float) -> Weighted:
    """The newest says which keys and predicates count; what was drawn under others is left out, and the rest stands for it."""
    like = samples[-1][0]
    same = [(s, covered) for s, covered in samples if (s.keys, s.predicates) == (like.keys, like.predicates)]
    threshold = min(s.threshold for s, _ in same)
    lowered = [(s.lowered(threshold), covered) for s, covered in same]
    seen = sum(s.seen * covered for s, covered in same)
    weights = [np.full(s.rows, covered / s.share * (rows / seen if seen else 0.0)) for s, covered in lowered]
    whole = replace(
        like, threshold=threshold, hashes=np.concatenate([s.hashes for s, _ in lowered]), bits=np.concatenate([s.bits for s, _ in lowered])
    )
    return Weighted(whole, np.concatenate(weights))
