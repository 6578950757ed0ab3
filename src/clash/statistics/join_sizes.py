"""The size of a sub-join from histograms and samples.

Three ways, each with its standard error; the surest one counts.

- *center*: a random sample of one relation's tuples, each key of which is looked up in the histograms of its neighbours. Good where keys
  are few or skewed. Correlation of the keys of one tuple is seen.
- *class*: tuples of all relations of one class whose key hash is below a threshold, joined exactly, then looked up in the neighbours'
  histograms. Good where keys are many: a histogram's buckets hold many of them, but a sampled key has all its tuples.
- *chain*: |A ∪ B| = |A| · |B| / |A ∩ B| for two overlapping smaller joins.

A look-up is as noisy as its bucket is full; the noisier the mean of all look-ups is, the more of the plain average of the pair is mixed in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from clash.model.relation import Relation
from clash.statistics.kernels import ALL, BUCKETS, Hashes, buckets
from clash.statistics.sample_join import Met, meet
from clash.statistics.key_pairs import joined_keys, pair, squares
from clash.statistics.join_shape import Shape, passing
from clash.statistics.stream_view import Floats, View

APART = 0.5  # relative error of taking two parts of a join as independent, where nothing tells
GUESSED = 1e300  # the error of an estimate that only counts where there is no other
HEAVY = 4.0  # a bucket with so many times the average is one of a frequent key

Views = Mapping[Relation, View]


@dataclass(frozen=True)
class Estimate:
    """Rows and their standard error."""

    rows: float
    deviation: float


class Joins:
    """`shape` is the whole query's; all sub-joins are cut from it, and each is estimated once."""

    def __init__(self, shape: Shape, views: Views) -> None:
        self.shape, self.views = shape, views
        self._held: dict[frozenset[Relation], Estimate | None] = {}
        self._passed: dict[tuple[Relation, Relation, str], tuple[float, float]] = {}
        self._shares = {r: passing(views[r], shape.predicates.get(r, ())) for r in shape.relations}

    def size(self, some: frozenset[Relation]) -> Estimate | None:
        if some not in self._held:
            self._held[some] = self._size(some)
        return self._held[some]

    def _size(self, some: frozenset[Relation]) -> Estimate | None:
        if len(some) == 1:
            (one,) = some
            return Estimate(self.views[one].rows * self._shares[one], 0.0)
        shape = self.shape.sub(some)
        if not shape.connected(some):
            return None
        ways = [self._center(shape, center) for center in shape.relations]
        ways += [self._of_class(shape, at) for at in range(len(shape.classes))]
        ways += [self._chain(shape, some)]
        found = [way for way in ways if way is not None]
        return min(found, key=lambda way: way.deviation) if found else None

    # ---- one relation's tuples -----------------------------------------------------------------------------------

    def _center(self, shape: Shape, center: Relation) -> Estimate | None:
        others = [r for r in shape.relations if r != center]
        sample = self.views[center].samples.get(None)
        if sample is None or not all(shape.near(frozenset([center]), r) for r in others):
            return None
        rows = sample.passing(shape.predicates.get(center, ()))
        if not len(sample.weights) or not set(self._keys(shape, center)) <= set(rows.sample.keys):
            return None
        keys = {c: rows.sample.hashes[:, rows.sample.keys.index(keys[center])] for c, keys in enumerate(shape.classes) if center in keys}
        met = Met(keys, rows.weights, np.arange(rows.sample.rows, dtype=np.int64), {})
        weight = float(sample.weights.sum()) / len(sample.weights)
        found = self._look_up(shape, frozenset([center]), others, met)
        if found is None:
            return None
        fan_out, prior, errors = found
        parts = rows.weights * fan_out
        total = self.views[center].rows * self._shares[center] * prior
        noise = float((parts * parts).sum()) - float(parts.sum()) ** 2 / max(1, len(sample.weights))
        variance = max(0.0, noise) + (errors * total) ** 2 + (weight * prior) ** 2
        # the share that passes is known better than by the sample
        scale = 1.0
        if len(parts) and shape.predicates.get(center):
            scale = self.views[center].rows * self._shares[center] / float(rows.weights.sum())
        return Estimate(max(0.0, float(parts.sum())) * scale, math.sqrt(variance))

    # ---- one class -----------------------------------------------------------------------------------------------

    def _of_class(self, shape: Shape, at: int) -> Estimate | None:
        keys = shape.classes[at]
        inside = sorted(keys)
        others = [r for r in shape.relations if r not in keys]
        if not all(shape.near(frozenset(inside), r) for r in others):
            return None
        plain = self._plain(shape, at)
        if plain is None:
            return None
        decided = len(inside) == 2 and not others and not any(shape.predicates.get(r) for r in inside)
        if decided and sum(1 for c in shape.classes if set(inside) <= c.keys()) == 1 and plain.deviation <= 0.05 * plain.rows:
            return plain
        met = meet(shape, at, self.views)
        if met is None:
            return plain if decided and len(shape.classes) == 1 else None
        share = met.threshold / ALL
        everything = float(met.met.weights.sum()) / share
        sampled = Estimate(everything, self._deviation(met.met, met.met.weights, share, keys, met.least))
        base = min((plain, sampled), key=lambda way: way.deviation)
        if decided and len(shape.classes) == 1:
            return base
        kept = met.met.take(met.passes)
        expected = base.rows * math.prod(self._shares[r] for r in inside)
        found = self._look_up(shape, frozenset(inside), others, kept)
        if found is None:
            return None
        fan_out, prior, errors = found
        parts = np.zeros(len(met.met.weights))
        parts[met.passes] = kept.weights * fan_out
        if everything <= 0:
            return Estimate(0.0, max(expected * prior, met.least * prior / share))
        scale = base.rows / everything
        rows = max(0.0, float(parts.sum()) / share * scale)
        # the whole is known as `base`; what is sampled is the ratio to it
        rest = parts - met.met.weights * (float(parts.sum()) / float(met.met.weights.sum()))
        variance = self._spread(met.met, rest, share) * scale**2 + (met.least * prior / share) ** 2
        variance += (rows * base.deviation / max(base.rows, 1e-9)) ** 2
        variance += (errors * prior * float(kept.weights.sum()) / share * scale) ** 2
        return Estimate(rows, math.sqrt(variance))

    def _plain(self, shape: Shape, at: int) -> Estimate | None:
        """The class alone, without filters, by histograms: pairs as such, three and more by pairs that hang together."""
        keys = shape.classes[at]
        inside = sorted(keys)
        sizes = {(a, b): pair(self.views[a], keys[a], self.views[b], keys[b]) for a, b in combinations(inside, 2)}
        if any(size is None for size in sizes.values()):
            return None
        if len(inside) == 2:
            size = sizes[inside[0], inside[1]]
            assert size is not None
            counts = [self.views[r].histograms[keys[r]] for r in inside]
            return Estimate(size.rows, math.sqrt(squares(counts[0]) * squares(counts[1]) / BUCKETS))
        counts = [self.views[r].histograms[keys[r]] for r in inside]
        if len(inside) > 3:
            return None
        n = [float(c.sum()) for c in counts]
        pairs = [joined_keys(counts[i], counts[j]).rows for i, j in ((0, 1), (0, 2), (1, 2))]
        raw = float((counts[0] * counts[1] * counts[2]).sum())
        chance = (pairs[0] * n[2] + pairs[1] * n[1] + pairs[2] * n[0]) / BUCKETS + n[0] * n[1] * n[2] / BUCKETS**2
        rows = max(0.0, raw - chance)
        second = [squares(c) for c in counts]
        noise = (
            sum((n[k] / BUCKETS) ** 2 * second[i] * second[j] / BUCKETS for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 2, 0)))
            + second[0] * second[1] * second[2] / BUCKETS**2
        )
        return Estimate(rows, math.sqrt(noise) + 0.02 * rows)

    def _deviation(self, met: Met, parts: Floats, share: float, keys: Mapping[Relation, str], least: float) -> float:
        """Of a sum over sampled keys: between keys, within them, and by frequent keys that may not be in the sample."""
        variance = self._spread(met, parts, share) + (least / share) ** 2
        if share < 1:
            product = np.ones(BUCKETS)
            for relation, key in keys.items():
                product = product * self.views[relation].histograms[key]
            heavy = product[product > HEAVY * product.mean()] - product.mean()
            fan_out = float(parts.sum()) / max(1e-9, float(met.weights.sum())) if len(parts) else 0.0
            variance += (1 - share) / share * float((heavy * heavy).sum()) * fan_out**2
        return math.sqrt(variance)

    def _spread(self, met: Met, parts: Floats, share: float) -> float:
        """The variance of a sum over sampled keys, and over a share of their tuples."""
        if not len(parts):
            return 0.0
        _, owner = np.unique(met.own, return_inverse=True)
        by_key = np.bincount(owner, parts)
        within = float((parts * parts).sum()) if met.thinned else 0.0
        return ((1 - share) * float((by_key * by_key).sum()) + within) / share**2

    # ---- neighbours ----------------------------------------------------------------------------------------------

    def _look_up(self, shape: Shape, bound: frozenset[Relation], others: list[Relation], met: Met) -> tuple[Floats, float, float] | None:
        """Per row the product of what it finds in the others, the same on average without correlation, and the relative error."""
        fan_out, prior, errors = np.ones(len(met.weights)), 1.0, 0.0
        looked: dict[int, list[Floats]] = {}
        for relation in others:
            best: tuple[float, Floats, float, int] | None = None
            shares = []
            for c in shape.near(bound, relation):
                key = shape.classes[c][relation]
                partner = min(bound & shape.classes[c].keys())
                size = pair(self.views[partner], shape.classes[c][partner], self.views[relation], key)
                if size is None or c not in met.keys:
                    return None
                mean = size.rows / max(1e-9, self.views[partner].rows)
                shares.append((c, mean / max(1e-9, self.views[relation].rows)))
                found, error = self._found(self.views[relation].histograms[key], met.keys[c], mean)
                if best is None or error < best[0]:
                    best = error, found, mean, c
            if best is None:
                return None
            error, found, mean, at = best
            further = math.prod(share for c, share in shares if c != at)
            # of several keys at once only one is looked up: the others may go along with it, or be as rare as by chance
            errors += error * error + (1 / max(further, 1e-9) - 1) ** 2
            share, apart = self._filtered(shape, at, min(bound & shape.classes[at].keys()), relation)
            errors += apart * apart
            further *= share
            fan_out = fan_out * found * further
            prior *= mean * further
            looked.setdefault(at, []).append(self.views[relation].histograms[shape.classes[at][relation]])
        for counts in looked.values():  # look-ups in one class share their collisions, and so their errors
            for one, other in combinations(counts, 2):
                errors += (joined_keys(one, other).rows / max(1e-9, float(one @ other))) ** 2 if one.sum() > BUCKETS else 0.0
        return fan_out, prior, math.sqrt(errors)

    def _filtered(self, shape: Shape, at: int, partner: Relation, relation: Relation) -> tuple[float, float]:
        """The share of what is found in the relation that passes its filters, which may go along with the key; and its relative error."""
        predicates = shape.predicates.get(relation)
        if not predicates:
            return 1.0, 0.0
        keys = {r: shape.classes[at][r] for r in sorted((partner, relation))}
        held = self._passed.get((partner, relation, keys[relation]))
        if held is None:
            alone = Shape(tuple(keys), (keys,), {relation: predicates})
            ways = [way for way in (self._of_class(alone, 0), self._center(alone, relation)) if way is not None]
            some, all_ = min(ways, key=lambda way: way.deviation, default=None), self._plain(alone, 0)
            held = self._shares[relation], APART
            if some is not None and all_ is not None and 0 < some.rows <= all_.rows and some.deviation < APART * some.rows:
                held = some.rows / all_.rows, some.deviation / some.rows
            self._passed[partner, relation, keys[relation]] = held
        return held

    def _found(self, counts: Floats, hashes: Hashes, mean: float) -> tuple[Floats, float]:
        total = float(counts.sum())
        found: NDArray[np.float64] = (BUCKETS * counts[buckets(hashes)] - total) / (BUCKETS - 1)
        error2 = squares(counts) / BUCKETS / max(1, len(np.unique(hashes)))
        trust = mean * mean / (mean * mean + error2) if mean > 0 else 0.0
        return np.where(hashes == 0, 0.0, trust * found + (1 - trust) * mean), math.sqrt(1 - trust)

    # ---- smaller joins -------------------------------------------------------------------------------------------

    def _chain(self, shape: Shape, some: frozenset[Relation]) -> Estimate | None:
        best: Estimate | None = None
        if len(some) == 2:
            return self._independent(shape)
        for x, y in combinations(shape.relations, 2):
            middle = some - {x, y}
            if any(x in keys and y in keys for keys in shape.classes) or not (
                shape.connected(some - {x}) and shape.connected(some - {y}) and shape.connected(middle)
            ):
                continue
            a, b, both = self.size(some - {x}), self.size(some - {y}), self.size(middle)
            if a is None or b is None or both is None:
                continue
            rows = a.rows * b.rows / both.rows if both.rows > 0 else 0.0
            error = math.sqrt(sum((e.deviation / max(e.rows, 1e-9)) ** 2 for e in (a, b, both)) + APART**2)
            way = Estimate(rows, min(rows * error, 1e300))
            best = way if best is None or way.deviation < best.deviation else best
        return best or self._independent(shape)

    def _independent(self, shape: Shape) -> Estimate | None:
        """The product of rates and of the share that matches, class by class."""
        rows = math.prod(self.views[r].rows * self._shares[r] for r in shape.relations)
        for keys in shape.classes:
            first, *others = sorted(keys)
            for other in others:
                size = pair(self.views[first], keys[first], self.views[other], keys[other])
                if size is None:
                    return None
                rows *= size.rows / max(1e-9, self.views[first].rows * self.views[other].rows)
        return Estimate(rows, GUESSED)

    def _keys(self, shape: Shape, relation: Relation) -> list[str]:
        return [keys[relation] for keys in shape.classes if relation in keys]
