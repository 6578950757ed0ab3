"""The exact join of the samples of one equality class: every combination of sampled tuples with equal keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.model.relation import Relation
from clash.statistics.join_shape import JoinShape
from clash.statistics.kernels import Hashes
from clash.statistics.stream_view import Floats, StreamView, WeightedSample

MAX_COMBINATIONS = 40_000  # beyond, a random part of them stands for all

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Combinations:
    """Joined sampled tuples, a row per combination."""

    keys: Mapping[int, Hashes]
    """Per class that some part has: the hash of the key."""
    weights: Floats
    """The number of combinations that a row stands for."""
    own: NDArray[Any]
    """The key that rows were joined on: rows with the same one are not independent of each other."""
    rows: Mapping[Relation, NDArray[np.int64]]
    """Per relation the row of its sample."""
    thinned: bool = False
    """Whether only a share of the tuples of a sampled key is in a sample."""

    def take(self, chosen: Bools) -> Combinations:
        return replace(
            self,
            keys={c: hashes[chosen] for c, hashes in self.keys.items()},
            weights=self.weights[chosen],
            own=self.own[chosen],
            rows={r: rows[chosen] for r, rows in self.rows.items()},
        )


@dataclass(frozen=True, eq=False)
class SampleJoin:
    """The samples of one class, joined."""

    combinations: Combinations
    """All combinations, by this class alone."""
    passes: Bools
    """Which of them meet the filters and the other classes too."""
    threshold: int
    unit_weight: float
    """What one combination counts on average."""


def join_samples(shape: JoinShape, at: int, views: Mapping[Relation, StreamView]) -> SampleJoin | None:
    """The join of the samples on class `at`; None where a relation has no sample on it, or one without a key that the shape has."""
    class_keys = shape.classes[at]
    samples: dict[Relation, WeightedSample] = {}
    for relation in sorted(class_keys):
        weighted = views[relation].samples.get(class_keys[relation])
        required = {keys[relation] for keys in shape.classes if relation in keys}
        if weighted is None or not required <= set(weighted.sample.layout.keys):
            return None
        samples[relation] = weighted
    threshold = min(weighted.sample.threshold for weighted in samples.values())
    samples = {relation: weighted.lowered(threshold) for relation, weighted in samples.items()}
    joined = _join_on_own_keys(samples)
    columns: dict[int, Hashes] = {}
    passes = np.ones(len(joined.weights), np.bool_)
    for c, keys in enumerate(shape.classes):
        for relation in sorted(keys):
            if relation in samples:
                hashes = samples[relation].sample.key_hashes(keys[relation])[joined.rows[relation]]
                if c in columns:
                    passes &= (hashes == columns[c]) & (hashes != 0)
                else:
                    columns[c] = hashes
    for relation, weighted in samples.items():
        mask = np.uint16(weighted.sample.layout.mask(shape.predicates.get(relation, ())))
        if mask:
            passes &= (weighted.sample.bits[joined.rows[relation]] & mask) == mask
    unit_weight = float(np.prod([weighted.weights.mean() if len(weighted.weights) else 1.0 for weighted in samples.values()]))
    return SampleJoin(replace(joined, keys=columns), passes, threshold, unit_weight)


def _join_on_own_keys(samples: Mapping[Relation, WeightedSample]) -> Combinations:
    """Joins one sample after the other by sorting it on its key and searching the keys so far."""
    first, *others = samples
    start = samples[first]
    rows: dict[Relation, NDArray[np.int64]] = {first: np.arange(start.sample.rows)}
    own, weights = start.sample.own_hashes(), start.weights
    thinned = _is_thinned(start)
    for relation in others:
        right_side = samples[relation]
        thinned |= _is_thinned(right_side)
        order = np.argsort(right_side.sample.own_hashes(), kind="stable")
        sorted_keys = right_side.sample.own_hashes()[order]
        begins, ends = np.searchsorted(sorted_keys, own, "left"), np.searchsorted(sorted_keys, own, "right")
        total = int((ends - begins).sum())
        if total > MAX_COMBINATIONS:
            chosen = np.random.default_rng(total).random(len(own)) < MAX_COMBINATIONS / total
            rows = {r: at[chosen] for r, at in rows.items()}
            own, begins, ends, weights = own[chosen], begins[chosen], ends[chosen], weights[chosen] * (total / MAX_COMBINATIONS)
        counts = ends - begins
        left = np.repeat(np.arange(len(own)), counts)
        right = order[np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))]
        right_weights = right_side.weights[right].copy()
        for other in rows:
            if other.stream == relation.stream and samples[other].sample.on == right_side.sample.on:
                right_weights[rows[other][left] == right] = 1.0  # a tuple that meets itself was sampled once, not twice
        own, weights = own[left], weights[left] * right_weights
        rows = {r: at[left] for r, at in rows.items()} | {relation: right}
    return Combinations({}, weights, own, rows, thinned)


def _is_thinned(weighted: WeightedSample) -> bool:
    return bool(len(weighted.weights)) and float(weighted.weights.max()) > 1.001
