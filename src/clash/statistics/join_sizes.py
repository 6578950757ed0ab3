"""The size of a sub-join from histograms and samples.

Each size is estimated in three ways with their standard errors; the one with the smallest error counts.

- *by center*: a random sample of one relation's tuples, each key of which is looked up in the histograms of its neighbours. Good where
  keys are few or skewed. Sees the correlation of the keys of one tuple.
- *by class*: tuples of all relations of one equality class whose key hash is below a threshold, joined exactly, then looked up in the
  histograms of the neighbours. Good where keys are many: a histogram's buckets have many keys each, but a sampled key has all its tuples.
- *by chain*: |A ∪ B| = |A| · |B| / |A ∩ B| for two overlapping smaller joins.

A look-up is as noisy as its bucket is full; the noisier the mean of all look-ups is, the more of the plain average of the pair is mixed in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clash.model.relation import Relation
from clash.statistics.join_shape import JoinShape, passing_share
from clash.statistics.kernels import BUCKETS, MAX_THRESHOLD, Hashes, buckets
from clash.statistics.key_pairs import equal_pairs, pair_size, squared_counts
from clash.statistics.sample_join import Combinations, join_samples
from clash.statistics.stream_view import Floats, StreamView

INDEPENDENCE_ERROR = 0.5  # relative error of treating two parts of a join as independent without evidence
MAX_DEVIATION = 1e300  # of an estimate that only counts where there is no other
MAX_ERROR = 1e100  # relative: its square is a float still
HEAVY_BUCKET = 4.0  # times the average: such a bucket has a frequent key
SURE_ERROR = 0.05  # relative error of histograms below which samples are not joined


@dataclass(frozen=True)
class Estimate:
    """Rows and their standard error."""

    rows: float
    deviation: float


class _FanOut(NamedTuple):
    """What rows find in their neighbours."""

    per_row: Floats
    """The product of the partners that a row finds in each neighbour."""
    mean: float
    """The same on average, without correlation."""
    error: float
    """Relative."""


class JoinSizes:
    """Sizes of the sub-joins of one query, each estimated once. `shape` is the whole query's."""

    def __init__(self, shape: JoinShape, views: Mapping[Relation, StreamView]) -> None:
        self.shape, self.views = shape, views
        self._sizes: dict[frozenset[Relation], Estimate | None] = {}
        self._filtered: dict[tuple[Relation, Relation, str], tuple[float, float]] = {}
        self._shares = {r: passing_share(views[r], shape.predicates.get(r, ())) for r in shape.relations}

    def size(self, subset: frozenset[Relation]) -> Estimate | None:
        """The size of the join of some relations; None where it is not connected or its keys were not collected."""
        if subset not in self._sizes:
            self._sizes[subset] = self._estimate(subset)
        return self._sizes[subset]

    def _estimate(self, subset: frozenset[Relation]) -> Estimate | None:
        if len(subset) == 1:
            (relation,) = subset
            return Estimate(self.views[relation].rows * self._shares[relation], 0.0)
        shape = self.shape.sub(subset)
        if not shape.connected(subset):
            return None
        candidates = [self._by_center(shape, center) for center in shape.relations]
        candidates += [self._by_class(shape, at) for at in range(len(shape.classes))]
        candidates += [self._by_chain(shape, subset)]
        return _surest(candidates)

    # ---- by center -----------------------------------------------------------------------------------------------

    def _by_center(self, shape: JoinShape, center: Relation) -> Estimate | None:
        others = [r for r in shape.relations if r != center]
        weighted = self.views[center].samples.get(None)
        if weighted is None or not all(shape.joining_classes(frozenset([center]), r) for r in others):
            return None
        passing = weighted.passing(shape.predicates.get(center, ()))
        center_keys = {c: keys[center] for c, keys in enumerate(shape.classes) if center in keys}
        if not len(weighted.weights) or not set(center_keys.values()) <= set(passing.sample.layout.keys):
            return None
        hashes = {c: passing.sample.key_hashes(key) for c, key in center_keys.items()}
        rows = Combinations(hashes, passing.weights, np.arange(passing.sample.rows, dtype=np.int64), {})
        fan_out = self._look_up(shape, frozenset([center]), others, rows)
        if fan_out is None:
            return None
        parts = passing.weights * fan_out.per_row
        passing_rows = self.views[center].rows * self._shares[center]
        mean_weight = float(weighted.weights.sum()) / len(weighted.weights)
        noise = float((parts * parts).sum()) - float(parts.sum()) ** 2 / max(1, len(weighted.weights))
        variance = max(0.0, noise) + (fan_out.error * (passing_rows * fan_out.mean)) ** 2 + (mean_weight * fan_out.mean) ** 2
        scale = 1.0
        weight = float(passing.weights.sum())
        if weight > 0 and shape.predicates.get(center):
            scale = passing_rows / weight  # the share that passes is known better than by the sample
        return Estimate(max(0.0, float(parts.sum())) * scale, math.sqrt(variance))

    # ---- by class ------------------------------------------------------------------------------------------------

    def _by_class(self, shape: JoinShape, at: int) -> Estimate | None:
        keys = shape.classes[at]
        members = sorted(keys)
        others = [r for r in shape.relations if r not in keys]
        if not all(shape.joining_classes(frozenset(members), r) for r in others):
            return None
        by_histograms = self._by_histograms(shape, at)
        if by_histograms is None:
            return None
        plain_pair = len(members) == 2 and not others and not any(shape.predicates.get(r) for r in members)
        one_equality = sum(1 for c in shape.classes if set(members) <= c.keys()) == 1
        if plain_pair and one_equality and by_histograms.deviation <= SURE_ERROR * by_histograms.rows:
            return by_histograms
        joined = join_samples(shape, at, self.views)
        if joined is None:
            return by_histograms if plain_pair and len(shape.classes) == 1 else None
        rows = joined.combinations
        share = joined.threshold / MAX_THRESHOLD
        by_sample = Estimate(float(rows.weights.sum()) / share, self._class_deviation(rows, share, keys, joined.unit_weight))
        base = min((by_histograms, by_sample), key=lambda estimate: estimate.deviation)
        if plain_pair and len(shape.classes) == 1:
            return base
        passing = rows.take(joined.passes)
        fan_out = self._look_up(shape, frozenset(members), others, passing)
        if fan_out is None:
            return None
        if by_sample.rows <= 0:
            expected = base.rows * math.prod(self._shares[r] for r in members)
            return Estimate(0.0, max(expected * fan_out.mean, joined.unit_weight * fan_out.mean / share))
        parts = np.zeros(len(rows.weights))
        parts[joined.passes] = passing.weights * fan_out.per_row
        scale = base.rows / by_sample.rows
        size = max(0.0, float(parts.sum()) / share * scale)
        # the class without filters is known as `base`; what is sampled is the ratio to it
        residues = parts - rows.weights * (float(parts.sum()) / float(rows.weights.sum()))
        variance = _sampling_variance(rows, residues, share) * scale**2 + (joined.unit_weight * fan_out.mean / share) ** 2
        variance += (size * base.deviation / max(base.rows, 1e-9)) ** 2
        variance += (fan_out.error * fan_out.mean * float(passing.weights.sum()) / share * scale) ** 2
        return Estimate(size, math.sqrt(variance))

    def _by_histograms(self, shape: JoinShape, at: int) -> Estimate | None:
        """The class by itself, without filters: two relations as a pair, three by the three-way product of their buckets less chance."""
        keys = shape.classes[at]
        members = sorted(keys)
        sizes = {(a, b): pair_size(self.views[a], keys[a], self.views[b], keys[b]) for a, b in combinations(members, 2)}
        if any(size is None for size in sizes.values()):
            return None
        counts = [self.views[r].histograms[keys[r]] for r in members]
        if len(members) == 2:
            size = sizes[members[0], members[1]]
            assert size is not None
            return Estimate(size.rows, math.sqrt(squared_counts(counts[0]) * squared_counts(counts[1]) / BUCKETS))
        if len(members) > 3:
            return None
        n = [float(c.sum()) for c in counts]
        pairs = [equal_pairs(counts[i], counts[j]).rows for i, j in ((0, 1), (0, 2), (1, 2))]
        raw = float((counts[0] * counts[1] * counts[2]).sum())
        chance = (pairs[0] * n[2] + pairs[1] * n[1] + pairs[2] * n[0]) / BUCKETS + n[0] * n[1] * n[2] / BUCKETS**2
        rows = max(0.0, raw - chance)
        squares = [squared_counts(c) for c in counts]
        noise = (
            sum((n[k] / BUCKETS) ** 2 * squares[i] * squares[j] / BUCKETS for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 2, 0)))
            + squares[0] * squares[1] * squares[2] / BUCKETS**2
        )
        return Estimate(rows, math.sqrt(noise) + 0.02 * rows)

    def _class_deviation(self, rows: Combinations, share: float, keys: Mapping[Relation, str], unit_weight: float) -> float:
        """Of the sum over sampled keys: between keys, within them, and by frequent keys that may not be in the sample."""
        variance = _sampling_variance(rows, rows.weights, share) + (unit_weight / share) ** 2
        if share < 1 and float(rows.weights.sum()) > 0:
            product = np.ones(BUCKETS)
            for relation, key in keys.items():
                product = product * self.views[relation].histograms[key]
            heavy = product[product > HEAVY_BUCKET * product.mean()] - product.mean()
            variance += (1 - share) / share * float((heavy * heavy).sum())
        return math.sqrt(variance)

    # ---- neighbours ----------------------------------------------------------------------------------------------

    def _look_up(self, shape: JoinShape, bound: frozenset[Relation], others: list[Relation], rows: Combinations) -> _FanOut | None:
        """What rows of the bound relations find in each of the others; None where a key was not collected."""
        per_row, mean_fan_out, squared_error = np.ones(len(rows.weights)), 1.0, 0.0
        used: dict[int, list[Floats]] = {}
        for relation in others:
            best: tuple[float, Floats, float, int] | None = None
            match_shares = []
            for c in shape.joining_classes(bound, relation):
                key = shape.classes[c][relation]
                partner = min(bound & shape.classes[c].keys())
                size = pair_size(self.views[partner], shape.classes[c][partner], self.views[relation], key)
                if size is None or c not in rows.keys:
                    return None
                mean = size.rows / max(1e-9, self.views[partner].rows)
                match_shares.append((c, mean / max(1e-9, self.views[relation].rows)))
                matches, error = _bucket_matches(self.views[relation].histograms[key], rows.keys[c], mean)
                if best is None or error < best[0]:
                    best = error, matches, mean, c
            if best is None:
                return None
            error, matches, mean, at = best
            further = math.prod(share for c, share in match_shares if c != at)
            # of several keys only one is looked up: the others may be fully correlated with it, or match as rarely as by chance
            squared_error += error * error + (1 / max(further, 1e-9) - 1) ** 2
            share, error = self._filtered_share(shape, at, min(bound & shape.classes[at].keys()), relation)
            squared_error += error * error
            further *= share
            per_row = per_row * matches * further
            mean_fan_out *= mean * further
            used.setdefault(at, []).append(self.views[relation].histograms[shape.classes[at][relation]])
        for histograms in used.values():  # look-ups in one class share their collisions, and so their errors
            for left, right in combinations(histograms, 2):
                squared_error += (equal_pairs(left, right).rows / max(1e-9, float(left @ right))) ** 2 if left.sum() > BUCKETS else 0.0
        return _FanOut(per_row, mean_fan_out, math.sqrt(squared_error))

    def _filtered_share(self, shape: JoinShape, at: int, partner: Relation, relation: Relation) -> tuple[float, float]:
        """The share of the partners found in the relation that pass its filters, which may correlate with the key; its relative error."""
        predicates = shape.predicates.get(relation)
        if not predicates:
            return 1.0, 0.0
        keys = {r: shape.classes[at][r] for r in sorted((partner, relation))}
        cache_key = partner, relation, keys[relation]
        if cache_key not in self._filtered:
            pair = JoinShape(tuple(keys), (keys,), {relation: predicates})
            filtered, whole = _surest([self._by_class(pair, 0), self._by_center(pair, relation)]), self._by_histograms(pair, 0)
            share = self._shares[relation], INDEPENDENCE_ERROR
            if filtered is not None and whole is not None and 0 < filtered.rows <= whole.rows:
                error = filtered.deviation / filtered.rows
                share = (filtered.rows / whole.rows, error) if error < INDEPENDENCE_ERROR else share
            self._filtered[cache_key] = share
        return self._filtered[cache_key]

    # ---- by chain ------------------------------------------------------------------------------------------------

    def _by_chain(self, shape: JoinShape, subset: frozenset[Relation]) -> Estimate | None:
        if len(subset) == 2:
            return self._independent(shape)
        candidates = []
        for x, y in combinations(shape.relations, 2):
            middle = subset - {x, y}
            if any(x in keys and y in keys for keys in shape.classes) or not (
                shape.connected(subset - {x}) and shape.connected(subset - {y}) and shape.connected(middle)
            ):
                continue
            a, b, both = self.size(subset - {x}), self.size(subset - {y}), self.size(middle)
            if a is None or b is None or both is None:
                continue
            rows = a.rows * b.rows / both.rows if both.rows > 0 else 0.0
            errors = [min(MAX_ERROR, e.deviation / max(e.rows, 1e-9)) for e in (a, b, both)]
            error = math.sqrt(sum(e**2 for e in errors) + INDEPENDENCE_ERROR**2)
            candidates.append(Estimate(rows, min(rows * error, MAX_DEVIATION)))
        return _surest(candidates) or self._independent(shape)

    def _independent(self, shape: JoinShape) -> Estimate | None:
        """The product of rates and of the shares that match, class by class."""
        rows = math.prod(self.views[r].rows * self._shares[r] for r in shape.relations)
        for keys in shape.classes:
            first, *others = sorted(keys)
            for other in others:
                size = pair_size(self.views[first], keys[first], self.views[other], keys[other])
                if size is None:
                    return None
                rows *= size.rows / max(1e-9, self.views[first].rows * self.views[other].rows)
        return Estimate(rows, MAX_DEVIATION)


def _surest(candidates: Iterable[Estimate | None]) -> Estimate | None:
    """The one with the smallest standard error."""
    return min((estimate for estimate in candidates if estimate is not None), key=lambda estimate: estimate.deviation, default=None)


def _sampling_variance(rows: Combinations, parts: Floats, share: float) -> float:
    """The variance of a sum of `parts` over sampled keys, and over a share of their tuples."""
    if not len(parts):
        return 0.0
    _, key_numbers = np.unique(rows.own, return_inverse=True)
    by_key = np.bincount(key_numbers, parts)
    within = float((parts * parts).sum()) if rows.thinned else 0.0
    return ((1 - share) * float((by_key * by_key).sum()) + within) / share**2


def _bucket_matches(counts: Floats, hashes: Hashes, mean: float) -> tuple[Floats, float]:
    """The matches of each key by its bucket, drawn towards the `mean` as far as buckets are noisy; and the relative error."""
    total = float(counts.sum())
    matches: NDArray[np.float64] = (BUCKETS * counts[buckets(hashes)] - total) / (BUCKETS - 1)
    variance = squared_counts(counts) / BUCKETS / max(1, len(np.unique(hashes)))
    trust = mean * mean / (mean * mean + variance) if mean > 0 else 0.0
    return np.where(hashes == 0, 0.0, trust * matches + (1 - trust) * mean), math.sqrt(1 - trust)
