"""A solution: one arc into every node that is needed, and the layouts of every store that is used.

Its cost is the sum of its arcs, of the copies of its stores and of its rounds. `trim` is what every solver ends with: it
keeps what the goals need and nothing else, so that a cost is never that of a step nobody asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.planner.graph import Graph


@dataclass(frozen=True)
class Solution:
    """`into`: node → arc. `layouts`: store → indices of its layouts. `cost` is what `evaluate` says."""

    into: Mapping[int, int]
    layouts: Mapping[int, tuple[int, ...]]
    cost: float
    rounds: int


def finish(graph: Graph, goals: Iterable[int], into: Mapping[int, int], wanted: Mapping[int, Iterable[int]]) -> Solution:
    """Trim the arcs to what the goals need, settle the layouts (a store's `wanted` ones, where it has any) and add up."""
    goals = list(goals)
    kept = trim(graph, goals, into)
    layouts = settle(graph, kept.values(), wanted, _singles(graph, goals))
    rounds = count_rounds(graph, kept) if graph.model.round_cost else 1
    cost = sum(graph.arcs[a].cost for a in kept.values())
    cost += sum(graph.stores[s].costs[i] for s, chosen in layouts.items() for i in chosen)
    return Solution(kept, layouts, cost + graph.model.round_cost * rounds, rounds)


def trim(graph: Graph, goals: Iterable[int], into: Mapping[int, int]) -> dict[int, int]:
    """The arcs that the goals need, MIRs' feeders included."""
    kept: dict[int, int] = {}
    mirs: set[int] = set()
    todo = list(goals)
    while todo:
        node = todo.pop()
        if node in kept or graph.is_root(node):
            continue
        at = kept[node] = into[node]
        arc = graph.arcs[at]
        todo.append(arc.tail)
        if arc.probes >= 0 and arc.probes not in mirs and graph.lattice.subs[arc.probes].size > 1:
            mirs.add(arc.probes)
            todo += graph.feeders(arc.probes)
    return kept


def settle(graph: Graph, arcs: Iterable[int], wanted: Mapping[int, Iterable[int]], singles: set[int]) -> dict[int, tuple[int, ...]]:
    """The layouts that the arcs need: of the wanted ones, or, where none is named, as few and as cheap as will do."""
    demands: dict[int, dict[tuple[int, ...], float]] = {}
    for at in arcs:
        arc = graph.arcs[at]
        if arc.store >= 0:
            demand = demands.setdefault(arc.store, {})
            demand[arc.layouts] = demand.get(arc.layouts, 0.0) + arc.cost
    for store in graph.stores:  # a base store is kept even if nothing probes it: a query may yet
        if store.stream is not None and singles & set(store.singles):
            demands.setdefault(store.id, {})
    layouts: dict[int, tuple[int, ...]] = {}
    for at, demand in sorted(demands.items()):
        costs = graph.stores[at].costs
        pool = sorted(set(wanted.get(at, ()))) or range(len(costs))
        chosen: list[int] = []
        open_ = [d for d in demand if d and not (len(pool) == 1 and pool[0] in d)]
        while open_:  # greedy cover, the layout that serves most first
            best = max(pool, key=lambda i: (sum(1 for d in open_ if i in d), sum(demand[d] for d in open_ if i in d), -costs[i], -i))
            if not any(best in d for d in open_):
                raise AssertionError(f"store {at} lacks a layout that a step needs")
            chosen.append(best)
            open_ = [d for d in open_ if best not in d]
        if not chosen:
            chosen = [min(pool, key=lambda i: (costs[i], i))]
        layouts[at] = tuple(sorted(chosen))
    return layouts


def _singles(graph: Graph, goals: list[int]) -> set[int]:
    """The one-relation subs of the queries behind the goals."""
    subs = {graph.nodes[goal].sub for goal in goals}
    return {p for t in graph.lattice.targets if t.sub in subs for p in t.parts if graph.lattice.subs[p].size == 1}


def arrivals(graph: Graph, into: Mapping[int, int]) -> dict[int, int]:
    """The round of every node. A step waits for its tuples and for its store to be filled, whichever is later."""
    at: dict[int, int] = {}

    def arrive(node: int) -> int:
        if node not in at:
            if graph.is_root(node):
                at[node] = 1
            else:
                arc = graph.arcs[into[node]]
                at[node] = arrive(arc.tail) + arc.hop
                if arc.probes >= 0 and graph.lattice.subs[arc.probes].size > 1:
                    at[node] = max(at[node], *(arrive(feeder) for feeder in graph.feeders(arc.probes)))
        return at[node]

    for node in into:
        arrive(node)
    return at


def count_rounds(graph: Graph, into: Mapping[int, int]) -> int:
    """Rounds of the longest tree."""
    return max(arrivals(graph, into).values(), default=1)
