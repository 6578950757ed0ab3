"""Samples of one class, joined: every combination of sampled tuples with equal keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.model.relation import Relation
from clash.statistics.kernels import Hashes
from clash.statistics.join_shape import Shape
from clash.statistics.stream_view import Floats, View, Weighted

MOST = 40_000  # combinations; beyond, a random part of them stands for all

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Met:
    """`keys`: of each class that some part has, the hash; `own`: the key by which combinations depend on each other."""

    keys: Mapping[int, Hashes]
    weights: Floats
    own: NDArray[Any]
    rows: Mapping[Relation, NDArray[np.int64]]
    thinned: bool = False

    def take(self, kept: Bools) -> Met:
        return replace(
            self,
            keys={c: hashes[kept] for c, hashes in self.keys.items()},
            weights=self.weights[kept],
            own=self.own[kept],
            rows={r: rows[kept] for r, rows in self.rows.items()},
        )


@dataclass(frozen=True, eq=False)
class Meeting:
    """All combinations on the class alone; `passes`: those that meet filters and other classes too. `least`: what one of them counts."""

    met: Met
    passes: Bools
    threshold: int
    least: float


def meet(shape: Shape, at: int, views: Mapping[Relation, View]) -> Meeting | None:
    keys = shape.classes[at]
    tables: dict[Relation, Weighted] = {}
    for relation in sorted(keys):
        found = views[relation].samples.get(keys[relation])
        needed = {k[relation] for k in shape.classes if relation in k}
        if found is None or not needed <= set(found.sample.keys):
            return None
        tables[relation] = found
    threshold = min(table.sample.threshold for table in tables.values())
    tables = {relation: table.lowered(threshold) for relation, table in tables.items()}
    joined = _join(tables)
    columns: dict[int, Hashes] = {}
    passes = np.ones(len(joined.weights), np.bool_)
    for c, of in enumerate(shape.classes):
        inside = [relation for relation in sorted(of) if relation in tables]
        for relation in inside:
            sample = tables[relation].sample
            hashes = sample.hashes[joined.rows[relation], sample.keys.index(of[relation])]
            if c in columns:
                passes &= (hashes == columns[c]) & (hashes != 0)
            else:
                columns[c] = hashes
    for relation, table in tables.items():
        mask = 0
        for text in shape.predicates.get(relation, ()):
            mask |= 1 << table.sample.predicates.index(text) if text in table.sample.predicates else 0
        if mask:
            passes &= (table.sample.bits[joined.rows[relation]] & np.uint16(mask)) == np.uint16(mask)
    least = float(np.prod([table.weights.mean() if len(table.weights) else 1.0 for table in tables.values()]))
    return Meeting(replace(joined, keys=columns), passes, threshold, least)


def _join(tables: Mapping[Relation, Weighted]) -> Met:
    first, *others = tables
    start = tables[first]
    rows: dict[Relation, NDArray[np.int64]] = {first: np.arange(start.sample.rows)}
    own, weights = start.sample.own(), start.weights
    thinned = bool(len(weights)) and float(weights.max()) > 1.001
    for relation in others:
        table = tables[relation]
        thinned |= bool(len(table.weights)) and float(table.weights.max()) > 1.001
        order = np.argsort(table.sample.own(), kind="stable")
        sorted_ = table.sample.own()[order]
        begins, ends = np.searchsorted(sorted_, own, "left"), np.searchsorted(sorted_, own, "right")
        total = int((ends - begins).sum())
        if total > MOST:
            kept = np.random.default_rng(total).random(len(own)) < MOST / total
            rows = {r: at[kept] for r, at in rows.items()}
            own, begins, ends, weights = own[kept], begins[kept], ends[kept], weights[kept] * (total / MOST)
        counts = ends - begins
        left = np.repeat(np.arange(len(own)), counts)
        right = order[np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))]
        twins = [r for r in rows if r.stream == relation.stream and tables[r].sample.on == table.sample.on]
        more = table.weights[right].copy()
        for twin in twins:  # a tuple that meets itself was sampled once, not twice
            more[rows[twin][left] == right] = 1.0
        own, weights = own[left], weights[left] * more
        rows = {r: at[left] for r, at in rows.items()} | {relation: right}
    return Met({}, weights, own, rows, thinned)
