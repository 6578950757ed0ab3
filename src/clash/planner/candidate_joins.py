"""Selects the sub-joins of each query that are considered: all of them, or, for large queries, the most promising ones.

A query of n relations has up to 2ⁿ connected sub-joins and 3ⁿ steps. Where that is too many, three kinds remain: sub-joins that several
queries have in common, small ones, and those on the cheapest probe orders from each origin. The last are found by a beam search in which a
whole common sub-join may be added in one step. Plans with other sub-joins are not considered, so the planner's bound is then only what
every plan pays.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from clash.model.expressions import relations
from clash.model.query import Query, SubJoin
from clash.model.statistics import column_text
from clash.planner.cardinalities import Sizes
from clash.planner.deadline import NEVER, Deadline
from clash.planner.lattice import JoinGraph

MAX_STEPS = 36_000  # over all queries: what a graph can hold and the heuristic can search in a few seconds
MAX_STEPS_PER_QUERY = 8_000
MAX_STEPS_OF_LARGE = 100_000  # over all queries of which not all sub-joins are considered: what memory has room for
STEPS_PER_SECOND = 15_000  # roughly: building the graph, and setting the heuristic up for it


class Effort(NamedTuple):
    """How many sub-joins of a large query are considered for MIRs."""

    per_size: int
    """Common sub-joins, per query and number of relations."""
    relations: int
    """Of a common sub-join, at most."""
    steps: float
    """Roughly how many steps there are then, per query and square of its number of relations."""


EFFORTS = (Effort(6, 5, 8.0), Effort(4, 4, 5.0), Effort(2, 3, 3.0), Effort(0, 0, 1.8))


def candidates(
    queries: Sequence[Query], sizes: Sizes, weight: int, mirs: bool, seconds: float = math.inf, deadline: Deadline = NEVER
) -> list[list[int] | None] | None:
    """Per query the bit masks (over its sorted relations) of the sub-joins to consider, None for all of them. None at the deadline.

    `weight`: roughly how many arcs a step becomes; the limits above are for a weight of 1. `seconds`: what the graph over the sub-joins may
    take to build, by which their number is chosen.
    """
    graphs = [JoinGraph(query) for query in queries]
    budget = int(min(MAX_STEPS, seconds * STEPS_PER_SECOND)) // weight
    most = min(MAX_STEPS_PER_QUERY // weight, budget)
    steps: list[int | None] = []
    for graph in graphs:
        if deadline.passed:
            return None
        steps.append(_count_steps(graph, most))
    complete = set()
    for i in sorted(range(len(queries)), key=lambda i: (steps[i] or 0, i)):
        count = steps[i]
        if count is not None and count <= budget:
            budget -= count
            complete.add(i)
    large = [i for i in range(len(queries)) if i not in complete]
    if not large:
        return [None] * len(queries)
    squares = sum(len(graphs[i].relations) ** 2 for i in large)
    affordable = min(MAX_STEPS_OF_LARGE, seconds * STEPS_PER_SECOND)
    effort = next((effort for effort in EFFORTS if effort.steps * squares * weight <= affordable), EFFORTS[-1])
    common = _common(queries, graphs, effort, deadline) if mirs else [Counter[int]() for _ in queries]
    width = max(1, min(4, budget // max(1, squares)))
    chosen: list[list[int] | None] = [None] * len(queries)
    for i in large:
        if deadline.passed:
            return None
        chosen[i] = _promising(queries[i], graphs[i], sizes, common[i], width, mirs)
    return chosen


def enumerable(queries: Sequence[Query], most: int) -> list[Query]:
    """Queries, those with the fewest steps first, between all of whose sub-joins there are at most so many steps in all."""
    chosen = []
    by_steps = sorted(
        ((_count_steps(JoinGraph(query), most), i) for i, query in enumerate(queries)), key=lambda item: (item[0] or most + 1, item[1])
    )
    for steps, i in by_steps:
        if steps is None or steps > most:
            break
        most -= steps
        chosen.append(queries[i])
    return chosen


def _count_steps(graph: JoinGraph, limit: int) -> int | None:
    """The number of steps between all sub-joins of the query; None if there are more than `limit`."""
    masks = graph.connected(limit // 4)
    if len(masks) > limit // 4:
        return None
    connected, total = set(masks), 0
    for mask in masks:
        low, size = mask & -mask, mask.bit_count()
        if size > 14:
            total += size * sum(1 for part in masks if part & low and part & ~mask == 0 and mask ^ part in connected)
        else:
            part = (mask - 1) & mask
            while part:
                if part & low and part in connected and mask ^ part in connected:
                    total += size
                part = (part - 1) & mask
        if total > limit:
            return None
    return total


def _common(queries: Sequence[Query], graphs: Sequence[JoinGraph], effort: Effort, deadline: Deadline) -> list[Counter[int]]:
    """Per query the sub-joins that other queries have too, with the number of queries.

    They are grown relation by relation; of each size, only the most shared ones are kept and grown further.
    """
    result: list[Counter[int]] = [Counter() for _ in queries]
    fronts = [[1 << i for i in range(len(graph.relations))] for graph in graphs]
    for _ in range(2, effort.relations + 1):
        if deadline.passed:
            break
        occurrences: dict[SubJoin, list[tuple[int, int]]] = {}  # sub-join → (query, mask) of each occurrence
        for i, (query, graph) in enumerate(zip(queries, graphs, strict=True)):
            for mask in graph.grown(fronts[i], graph.full):
                occurrences.setdefault(query.join.sub(graph.members(mask)), []).append((i, mask))
        counts: list[Counter[int]] = [Counter() for _ in queries]
        for owners in occurrences.values():
            if len(owners) > 1:
                for i, mask in owners:
                    counts[i][mask] = len(owners)
        fronts = [[mask for mask, _ in sorted(count.items(), key=lambda item: (-item[1], item[0]))[: effort.per_size]] for count in counts]
        for i, front in enumerate(fronts):
            result[i].update({mask: counts[i][mask] for mask in front})
    return result


class _QuickSizes:
    """Estimates rows of sub-joins by mask, one relation at a time: faster than `Sizes`, and accurate enough to rank sub-joins."""

    def __init__(self, query: Query, graph: JoinGraph, sizes: Sizes) -> None:
        self.single = [sizes.rows(query.join.sub([relation])) for relation in graph.relations]
        index = {relation: i for i, relation in enumerate(graph.relations)}
        self.classes: list[list[list[tuple[int, float]]]] = [[] for _ in graph.relations]  # per relation and class: (partner, selectivity)
        for _, members in graph.classes:
            names = {a: column_text(a.relation.stream, a.column) for a in members}
            for a in members:
                partners = [(1 << index[b.relation], sizes.equality(names[a], names[b])) for b in members if b.relation != a.relation]
                self.classes[index[a.relation]].append(partners)
        self.residuals = [(sum(1 << index[r] for r in relations(e)), sizes.selectivity(e)) for e in query.join.residuals]
        self._rows: dict[int, float] = {1 << i: rows for i, rows in enumerate(self.single)}

    def rows(self, mask: int) -> float:
        rows = self._rows.get(mask)
        if rows is None:
            low = mask & -mask
            rows = self._rows[mask] = self.add(mask ^ low, low)
        return rows

    def add(self, mask: int, bit: int) -> float:
        """Rows of `mask` with one more relation."""
        both = mask | bit
        rows = self._rows.get(both)
        if rows is None:
            at = bit.bit_length() - 1
            rows = self.rows(mask) * self.single[at]
            for partners in self.classes[at]:
                rows *= max((selectivity for partner, selectivity in partners if partner & mask), default=1.0)
            for needs, selectivity in self.residuals:
                if needs & both == needs and needs & bit:
                    rows *= selectivity
            self._rows[both] = rows
        return rows


def _promising(query: Query, graph: JoinGraph, sizes: Sizes, common: Counter[int], width: int, mirs: bool) -> list[int]:
    """The masks on the cheapest orders from every origin, and all masks inside the MIRs that these orders may probe."""
    estimate = _QuickSizes(query, graph, sizes)
    masks = {1 << i for i in range(len(graph.relations))} | {graph.full}
    mir_costs: dict[int, float] = {}  # MIRs that a beam may add in one step → this query's share of what feeding them costs
    if mirs:
        for mask in common:
            if mask != graph.full and not mask & graph.tables:
                mir_costs[mask] = _feed_cost(mask, estimate) / common[mask]
        pairs = {1 << i | 1 << j for i in range(len(graph.relations)) for j in range(i) if graph.adjacent[i] >> j & 1}
        pairs = {mask for mask in pairs if not mask & graph.tables}
        for mask in heapq.nsmallest(max(2, len(graph.relations) // 2), pairs, key=lambda m: (estimate.rows(m), m)):
            mir_costs.setdefault(mask, _feed_cost(mask, estimate))
    for mask in mir_costs:
        masks |= set(graph.connected(within=mask))
    for i in range(len(graph.relations)):
        if not graph.tables >> i & 1:
            masks |= _beam(graph, estimate, mir_costs, 1 << i, width)
    for mask in sorted(mir_costs):
        masks |= _beam(graph, estimate, mir_costs, mask, 1)
    return sorted(masks)


def _feed_cost(mask: int, estimate: _QuickSizes) -> float:
    """Roughly what keeping a sub-join up to date costs: the first step of every tuple, and each stored row."""
    return sum(rows for i, rows in enumerate(estimate.single) if mask >> i & 1) + estimate.rows(mask)


def _beam(graph: JoinGraph, estimate: _QuickSizes, mir_costs: dict[int, float], start: int, width: int) -> set[int]:
    """The masks on the `width` cheapest paths from `start` to the whole query."""
    layers: dict[int, dict[int, tuple[float, int]]] = {start.bit_count(): {start: (0.0, 0)}}  # size → mask → (cost, mask before)
    whole = graph.full.bit_count()
    for size in range(start.bit_count(), whole):
        layer = layers.get(size, {})
        # Ranked by the cost so far plus what the next step sends: a cheap path into a large intermediate result is not cheap.
        best = heapq.nsmallest(width, layer.items(), key=lambda item: (item[1][0] + estimate.rows(item[0]) / size, item[0]))
        layers[size] = dict(best)
        for mask, (cost, _) in best:
            sent = cost + estimate.rows(mask) / size
            near = graph.neighbours(mask)
            rest = near
            while rest:
                low = rest & -rest
                rest ^= low
                estimate.add(mask, low)
                _offer(layers, mask | low, sent, mask)
            for mir, mir_cost in mir_costs.items():
                if not mir & mask and mir & near:
                    _offer(layers, mask | mir, sent + mir_cost, mask)
    on_paths: set[int] = set()
    for size in range(whole, start.bit_count(), -1):
        for mask, (_, before) in layers.get(size, {}).items():
            if size == whole or mask in on_paths:
                on_paths |= {mask, before}
    return on_paths | {start}


def _offer(layers: dict[int, dict[int, tuple[float, int]]], mask: int, cost: float, before: int) -> None:
    """Record a path to the mask if it is the cheapest so far."""
    layer = layers.setdefault(mask.bit_count(), {})
    if mask not in layer or cost < layer[mask][0]:
        layer[mask] = (cost, before)
