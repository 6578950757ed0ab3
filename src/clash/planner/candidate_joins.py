"""Which sub-joins of a query are looked at: all of them, or, for large queries, the few that promise most.

A query of n relations has up to 2ⁿ connected sub-joins and 3ⁿ steps. Where that is too many, three kinds remain: what
several queries have in common, what is small, and what the cheapest probe orders from each origin pass through, found by a beam
search in which a whole common sub-join may be added in one step. No plan outside them is seen, so the planner's bound
is then only what every plan pays.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

from clash.model.expressions import relations
from clash.model.query import Query, SubJoin
from clash.planner.lattice import Shape
from clash.planner.cardinalities import Sizes

MOST_STEPS = 36_000  # over all queries; what a graph can hold and a heuristic search in a few seconds
MOST_STEPS_ALONE = 8_000  # of one query
COMMON = 6  # common sub-joins that a query looks at, per size
LARGEST_COMMON = 5


def candidates(queries: Sequence[Query], sizes: Sizes, weight: int, mirs: bool) -> list[list[int] | None]:
    """Per query the bit masks (over its sorted relations) of the sub-joins to look at, None for all of them.

    `weight`: how many arcs a step becomes, about; the budgets are for a weight of 1.
    """
    shapes = [Shape(query) for query in queries]
    steps = [_steps(shape, MOST_STEPS_ALONE // weight) for shape in shapes]
    room = MOST_STEPS // weight
    whole = set()
    for i in sorted(range(len(queries)), key=lambda i: (steps[i] or 0, i)):
        cost = steps[i]
        if cost is not None and cost <= room:
            room -= cost
            whole.add(i)
    large = [i for i in range(len(queries)) if i not in whole]
    if not large:
        return [None] * len(queries)
    common = _common(queries, shapes) if mirs else [Counter[int]() for _ in queries]
    relations_left = sum(len(shapes[i].relations) ** 2 for i in large)
    width = max(1, min(4, room // max(1, relations_left)))
    chosen: list[list[int] | None] = [None] * len(queries)
    for i in large:
        chosen[i] = _promising(queries[i], shapes[i], sizes, common[i], width, mirs)
    return chosen


def _steps(shape: Shape, most: int) -> int | None:
    """How many steps all sub-joins of the query have between them; None if more than `most`."""
    masks = shape.connected(most // 4)
    if len(masks) > most // 4:
        return None
    found, total = set(masks), 0
    for mask in masks:
        low, size = mask & -mask, mask.bit_count()
        if size > 14:
            total += size * sum(1 for part in masks if part & low and part & ~mask == 0 and mask ^ part in found)
        else:
            part = (mask - 1) & mask
            while part:
                if part & low and part in found and mask ^ part in found:
                    total += size
                part = (part - 1) & mask
        if total > most:
            return None
    return total


def _common(queries: Sequence[Query], shapes: Sequence[Shape]) -> list[Counter[int]]:
    """Per query the sub-joins that other queries have too, with how many do: grown from pairs, the most shared first."""
    result: list[Counter[int]] = [Counter() for _ in queries]
    fronts = [[1 << i for i in range(len(shape.relations))] for shape in shapes]
    for _ in range(2, LARGEST_COMMON + 1):
        owners: dict[SubJoin, list[tuple[int, int]]] = {}
        for i, (query, shape) in enumerate(zip(queries, shapes, strict=True)):
            for mask in shape.grown(fronts[i], shape.full):
                owners.setdefault(query.join.sub(shape.members(mask)), []).append((i, mask))
        found: list[Counter[int]] = [Counter() for _ in queries]
        for places in owners.values():
            if len(places) > 1:
                for i, mask in places:
                    found[i][mask] = len(places)
        fronts = [[mask for mask, _ in sorted(count.items(), key=lambda item: (-item[1], item[0]))[:COMMON]] for count in found]
        for i, front in enumerate(fronts):
            result[i].update({mask: found[i][mask] for mask in front})
    return result


class _Estimate:
    """Rows of a sub-join by its mask, added up relation by relation: quick, and close enough to rank by."""

    def __init__(self, query: Query, shape: Shape, sizes: Sizes) -> None:
        self.single = [sizes.rows(query.join.sub([relation])) for relation in shape.relations]
        number = {relation: i for i, relation in enumerate(shape.relations)}
        self.classes: list[list[list[tuple[int, float]]]] = [[] for _ in shape.relations]  # per relation and class: (partner, selectivity)
        for _, members in shape.classes:
            for a in members:
                partners = [
                    (1 << number[b.relation], sizes.equality(f"{a.relation.stream}.{a.column}", f"{b.relation.stream}.{b.column}"))
                    for b in members
                    if b.relation != a.relation
                ]
                self.classes[number[a.relation]].append(partners)
        self.residuals = [(sum(1 << number[r] for r in relations(e)), sizes.selectivity(e)) for e in query.join.residuals]
        self._rows: dict[int, float] = {1 << i: rows for i, rows in enumerate(self.single)}

    def rows(self, mask: int) -> float:
        found = self._rows.get(mask)
        if found is None:
            low = mask & -mask
            found = self._rows[mask] = self.add(mask ^ low, low)
        return found

    def add(self, mask: int, bit: int) -> float:
        """Rows of `mask` with one more relation."""
        both = mask | bit
        found = self._rows.get(both)
        if found is None:
            at = bit.bit_length() - 1
            found = self.rows(mask) * self.single[at]
            for partners in self.classes[at]:
                found *= max((share for partner, share in partners if partner & mask), default=1.0)
            for needs, share in self.residuals:
                if needs & both == needs and needs & bit:
                    found *= share
            self._rows[both] = found
        return found


def _promising(query: Query, shape: Shape, sizes: Sizes, common: Counter[int], width: int, mirs: bool) -> list[int]:
    """The masks that the best orders from every origin pass through, with what it takes to keep the common ones."""
    estimate = _Estimate(query, shape, sizes)
    masks = {1 << i for i in range(len(shape.relations))} | {shape.full}
    macros: dict[int, float] = {}
    if mirs:
        for mask in common:
            if mask != shape.full:
                macros[mask] = _feed(mask, estimate) / common[mask]
        pairs = {1 << i | 1 << j for i in range(len(shape.relations)) for j in range(i) if shape.adjacent[i] >> j & 1}
        for mask in heapq.nsmallest(max(2, len(shape.relations) // 2), pairs, key=lambda m: (estimate.rows(m), m)):
            macros.setdefault(mask, _feed(mask, estimate))
    for mask in macros:
        masks |= set(shape.connected(within=mask))
    starts = [1 << i for i in range(len(shape.relations))]
    for start in starts:
        masks |= _beam(shape, estimate, macros, start, width)
    for mask in sorted(macros):
        masks |= _beam(shape, estimate, macros, mask, 1)
    return sorted(masks)


def _feed(mask: int, estimate: _Estimate) -> float:
    """What keeping a sub-join up to date costs, about: every tuple's first step, and each row stored."""
    return sum(rows for i, rows in enumerate(estimate.single) if mask >> i & 1) + estimate.rows(mask)


def _beam(shape: Shape, estimate: _Estimate, macros: dict[int, float], start: int, width: int) -> set[int]:
    """The masks on the `width` cheapest ways from `start` to the whole query."""
    layers: dict[int, dict[int, tuple[float, int]]] = {start.bit_count(): {start: (0.0, 0)}}  # size → mask → (cost, mask before)
    whole = shape.full.bit_count()
    for size in range(start.bit_count(), whole):
        layer = layers.get(size, {})
        # by cost so far and what the next step would send: a cheap way into a large intermediate result is no bargain
        kept = heapq.nsmallest(width, layer.items(), key=lambda item: (item[1][0] + estimate.rows(item[0]) / size, item[0]))
        layers[size] = dict(kept)
        for mask, (cost, _) in kept:
            sent = cost + estimate.rows(mask) / size
            near = shape.neighbours(mask)
            rest = near
            while rest:
                low = rest & -rest
                rest ^= low
                estimate.add(mask, low)
                _offer(layers, mask | low, sent, mask)
            for macro, feed in macros.items():
                if not macro & mask and macro & near:
                    _offer(layers, mask | macro, sent + feed, mask)
    on_the_way: set[int] = set()
    for size in range(whole, start.bit_count(), -1):
        for mask, (_, before) in layers.get(size, {}).items():
            if size == whole or mask in on_the_way:
                on_the_way |= {mask, before}
    return on_the_way | {start}


def _offer(layers: dict[int, dict[int, tuple[float, int]]], mask: int, cost: float, before: int) -> None:
    """Keep the cheaper way to a mask."""
    layer = layers.setdefault(mask.bit_count(), {})
    if mask not in layer or cost < layer[mask][0]:
        layer[mask] = (cost, before)
