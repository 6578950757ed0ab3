"""Walk known probe orders over a graph: how `shared` merges plans of single queries, and how a running plan is a start.

The orders are kept, the layouts may be others than they were planned for: a step then broadcasts, or crosses the network, and the
graph says what that costs. What does not exist in the graph any more is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.model.layout import Layout
from clash.model.query import SubJoin
from clash.planner.graph import DONE, FED, NOWHERE, Graph, Node
from clash.planner.orders import ProbeOrder, StoreKey
from clash.planner.solution import arrivals

Wanted = Mapping[int, tuple[int, ...]]  # store → the layouts it may be probed under


@dataclass(frozen=True)
class Known:
    """A plan to walk: its orders, the joins of its queries, the layouts of its stores. Under many layouts each step keeps its own."""

    orders: tuple[ProbeOrder, ...]
    joins: Mapping[str, SubJoin]
    layouts: Wanted


def replay(graph: Graph, plans: Iterable[Known]) -> dict[int, int]:
    """The arcs of all plans together. Where two plans reach a node in different ways the one that is there first wins: no step
    comes later than it did in its own plan."""
    merged: dict[int, int] = {}
    soonest: dict[int, int] = {}
    for plan in plans:
        own: dict[int, int] = {}
        for order in plan.orders:
            ends = [plan.joins[name] for name in order.queries if name in plan.joins]
            if order.feeds is not None and order.feeds.join is not None:
                ends.append(order.feeds.join)
            for end in ends:
                for head, at in _walk(graph, order, end, order.feeds is not None, plan.layouts):
                    own.setdefault(head, at)
        complete = {node: at for node, at in own.items() if _supported(graph, own, node)}
        times = arrivals(graph, complete) if graph.model.round_cost else dict.fromkeys(complete, 1)
        for node, at in complete.items():
            if node not in merged or times[node] < soonest[node]:
                merged[node], soonest[node] = at, times[node]
    return merged


def _supported(graph: Graph, own: Mapping[int, int], node: int) -> bool:
    """Is everything that the node needs there?"""
    while not graph.is_root(node):
        if node not in own:
            return False
        arc = graph.arcs[own[node]]
        kept = arc.probes >= 0 and graph.lattice.subs[arc.probes].size > 1
        if kept and not all(_supported(graph, own, feeder) for feeder in graph.feeders(arc.probes)):
            return False
        node = arc.tail
    return True


def _walk(graph: Graph, order: ProbeOrder, end: SubJoin, feeds: bool, wanted: Wanted) -> list[tuple[int, int]]:
    """(node, arc into it) along the order; empty where the graph lacks a step of it."""
    lattice = graph.lattice
    bound = frozenset([order.origin])
    single, whole = lattice.find(end.sub(bound)), lattice.find(end)
    if single is None or whole is None:
        return []
    node = graph.find(Node(order.origin, single, NOWHERE))
    if node is None:
        return []
    path: list[tuple[int, int]] = []

    def go(probes: int, head_sub: int, places: tuple[str, ...] | None, layout: Layout | None) -> bool:
        nonlocal node
        best = None
        for at in graph.out[node]:  # type: ignore[index]
            arc = graph.arcs[at]
            head = graph.nodes[arc.head]
            if arc.probes != probes or head.sub != head_sub or (places is not None and head.place not in places):
                continue
            if probes < 0 and places is None and head.place in (FED, DONE):
                continue
            if arc.store >= 0 and arc.layouts and not _allowed(graph, arc.store, arc.layouts, layout, wanted):
                continue
            if best is None or arc.cost < graph.arcs[best].cost:
                best = at
        if best is not None:
            node = graph.arcs[best].head
            path.append((node, best))
        return best is not None

    go(-1, single, None, None)  # to where the origin's own store puts the tuple, if that helps
    for step in order.steps:
        probed = lattice.find(end.sub(step.adds.relations))
        bound = bound | step.adds.relations
        covered = lattice.find(end.sub(bound))
        if probed is None or covered is None or not go(probed, covered, None, step.layout):
            return []
    if graph.model.full and not go(-1, whole, (FED if feeds else DONE,), None):
        return []
    return path


def _allowed(graph: Graph, store: int, layouts: tuple[int, ...], layout: Layout | None, wanted: Wanted) -> bool:
    if layout is not None and not graph.stores[store].alone:
        return any(graph.stores[store].layouts[i] == layout for i in layouts)
    return any(i in layouts for i in wanted.get(store, ()))


def wanted_layouts(graph: Graph, layouts: Mapping[StoreKey, Iterable[Layout]]) -> dict[int, tuple[int, ...]]:
    """Layouts by store, as indices into this graph's stores; what the graph does not know is left out."""
    found: dict[int, tuple[int, ...]] = {}
    for store in graph.stores:
        join = None if store.sub is None else graph.lattice.subs[store.sub].join
        asked = layouts.get(StoreKey(store.stream, join), ())
        indices = tuple(store.layouts.index(layout) for layout in asked if layout in store.layouts)
        if indices:
            found[store.id] = indices
    return found
