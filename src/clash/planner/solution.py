"""A solution: one arc into every node that is needed, and the layouts of every store that is used.

Its cost is the sum over its arcs, the copies of its stores and its rounds. Every solver ends with `finish`, which keeps what the goals need
and nothing else, so that a cost never includes a step that no query uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.planner.graph import Graph


@dataclass(frozen=True)
class Solution:
    """A plan in terms of a graph."""

    into: Mapping[int, int]
    """Node → the arc into it."""
    layouts: Mapping[int, tuple[int, ...]]
    """Store → indices of its layouts."""
    cost: float
    rounds: int


def finish(graph: Graph, goals: Iterable[int], into: Mapping[int, int], allowed_layouts: Mapping[int, Iterable[int]]) -> Solution:
    """Trims the arcs to what the goals need, chooses the layouts and adds up the cost.

    A store that is in `allowed_layouts` gets layouts of these only.
    """
    goals = list(goals)
    trimmed = trim(graph, goals, into)
    layouts = choose_layouts(graph, trimmed.values(), allowed_layouts, _singles(graph, goals))
    rounds = count_rounds(graph, trimmed) if graph.model.round_cost else 1
    cost = sum(graph.arcs[a].cost for a in trimmed.values())
    cost += sum(graph.stores[s].costs[i] for s, chosen in layouts.items() for i in chosen)
    return Solution(trimmed, layouts, cost + graph.model.round_cost * rounds, rounds)


def trim(graph: Graph, goals: Iterable[int], into: Mapping[int, int]) -> dict[int, int]:
    """The arcs that the goals need, including those that feed MIRs."""
    trimmed: dict[int, int] = {}
    mirs: set[int] = set()
    todo = list(goals)
    while todo:
        node = todo.pop()
        if node in trimmed or graph.is_root(node):
            continue
        at = trimmed[node] = into[node]
        arc = graph.arcs[at]
        todo.append(arc.tail)
        if arc.mir >= 0 and arc.mir not in mirs:
            mirs.add(arc.mir)
            todo += graph.feeders(arc.mir)
    return trimmed


def choose_layouts(
    graph: Graph, arcs: Iterable[int], allowed_layouts: Mapping[int, Iterable[int]], singles: set[int]
) -> dict[int, tuple[int, ...]]:
    """Store → the layouts that the arcs need, as few and as cheap as possible.

    `singles` are the one-relation subs of the queries: the base stores that serve them are kept even if nothing probes them.
    """
    demands: dict[int, dict[tuple[int, ...], float]] = {}  # store → alternative layouts that arcs need → the cost of these arcs
    for at in arcs:
        arc = graph.arcs[at]
        if arc.store >= 0:
            demand = demands.setdefault(arc.store, {})
            demand[arc.layouts] = demand.get(arc.layouts, 0.0) + arc.cost
    for store in graph.stores:  # a base store is kept even if nothing probes it: a later query may
        if store.stream is not None and singles & set(store.singles):
            demands.setdefault(store.id, {})
    layouts: dict[int, tuple[int, ...]] = {}
    for store_id, demand in sorted(demands.items()):
        costs = graph.stores[store_id].costs
        pool = sorted(set(allowed_layouts.get(store_id, ()))) or range(len(costs))
        chosen: list[int] = []
        unmet = [d for d in demand if d and not (len(pool) == 1 and pool[0] in d)]
        while unmet:  # greedy set cover: the layout that meets most demands first
            best = max(pool, key=lambda i: (sum(1 for d in unmet if i in d), sum(demand[d] for d in unmet if i in d), -costs[i], -i))
            if not any(best in d for d in unmet):
                raise AssertionError(f"store {store_id} lacks a layout that a step needs")
            chosen.append(best)
            unmet = [d for d in unmet if best not in d]
        if not chosen:
            chosen = [min(pool, key=lambda i: (costs[i], i))]
        layouts[store_id] = tuple(sorted(chosen))
    return layouts


def _singles(graph: Graph, goals: list[int]) -> set[int]:
    """The one-relation subs of the queries that the goals belong to."""
    subs = {graph.nodes[goal].sub for goal in goals}
    return {p for t in graph.lattice.targets if t.sub in subs for p in t.parts if graph.lattice.subs[p].size == 1}


def arrival_rounds(graph: Graph, into: Mapping[int, int]) -> dict[int, int]:
    """Node → the round in which its rows are there. A step waits for its tuples and for its store to be filled, whichever is later."""
    rounds: dict[int, int] = {}

    def arrive(node: int) -> int:
        if node not in rounds:
            if graph.is_root(node):
                rounds[node] = 1
            else:
                arc = graph.arcs[into[node]]
                rounds[node] = arrive(arc.tail) + arc.hop
                if arc.mir >= 0:
                    rounds[node] = max(rounds[node], *(arrive(feeder) for feeder in graph.feeders(arc.mir)))
        return rounds[node]

    for node in into:
        arrive(node)
    return rounds


def count_rounds(graph: Graph, into: Mapping[int, int]) -> int:
    """The number of rounds until the last node is reached."""
    return max(arrival_rounds(graph, into).values(), default=1)
