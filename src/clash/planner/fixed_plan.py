"""Walk known probe orders over a graph: how `shared` merges plans of single queries, and how a running plan is a start.

The orders are kept, the layouts may be others than they were planned for: a step then broadcasts, or crosses the network, and the
graph says what that costs. What does not exist in the graph any more is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.model.layout import Layout
from clash.model.query import SubJoin
from clash.planner.graph import DONE, FED, NOWHERE, Arc, Graph, Node
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
    """(node, arc into it) along the order; empty where the graph lacks a step of it. The tuple starts where it is cheapest: nowhere, or
    where one of its own store's layouts puts it."""
    lattice = graph.lattice
    single, whole = lattice.find(end.sub([order.origin])), lattice.find(end)
    root = None if single is None else graph.find(Node(order.origin, single, NOWHERE))
    if root is None or whole is None:
        return []
    starts: list[list[tuple[int, int]]] = [[]]
    for at in graph.out[root]:
        arc = graph.arcs[at]
        if arc.probes < 0 and graph.nodes[arc.head].place not in (FED, DONE) and _allowed(graph, arc, None, wanted):
            starts.append([(arc.head, at)])
    best: list[tuple[int, int]] = []
    for start in starts:
        path = _follow(graph, root, start, order, end, (FED if feeds else DONE) if graph.model.full else None, wanted)
        if path and (not best or _cost(graph, path) < _cost(graph, best)):
            best = path
    return best


def _cost(graph: Graph, path: list[tuple[int, int]]) -> float:
    return sum(_weight(graph, at) for _, at in path)


def _weight(graph: Graph, at: int) -> float:
    """A hop may cost a round."""
    return graph.arcs[at].cost + graph.arcs[at].hop * max(graph.model.round_cost, 1e-9)


def _follow(
    graph: Graph, root: int, start: list[tuple[int, int]], order: ProbeOrder, end: SubJoin, last: str | None, wanted: Wanted
) -> list[tuple[int, int]]:
    path = list(start)
    bound = frozenset([order.origin])
    stops: list[tuple[int | None, SubJoin, Layout | None, str | None]] = []  # (probed, covered, layout, place to end at)
    for step in order.steps:
        bound = bound | step.adds.relations
        stops.append((graph.lattice.find(end.sub(step.adds.relations)), end.sub(bound), step.layout, None))
    if last is not None:
        stops.append((-1, end, None, last))
    for probed, covered, layout, place in stops:
        node = path[-1][0] if path else root
        sub = graph.lattice.find(covered)
        ways = [
            at
            for at in graph.out[node]
            if graph.arcs[at].probes == probed
            and graph.nodes[graph.arcs[at].head].sub == sub
            and (place is None or graph.nodes[graph.arcs[at].head].place == place)
            and _allowed(graph, graph.arcs[at], layout, wanted)
        ]
        if not ways:
            return []
        at = min(ways, key=lambda way: _weight(graph, way))
        path.append((graph.arcs[at].head, at))
    return path


def _allowed(graph: Graph, arc: Arc, layout: Layout | None, wanted: Wanted) -> bool:
    if arc.store < 0 or not arc.layouts:
        return True
    store = graph.stores[arc.store]
    if layout in store.layouts and not store.alone:
        return any(store.layouts[i] == layout for i in arc.layouts)
    # of a layout that only the query alone had (by arrival, where nothing joins the store) what others want
    return any(i in arc.layouts for i in wanted.get(arc.store, ()))


def wanted_layouts(graph: Graph, layouts: Mapping[StoreKey, Iterable[Layout]], or_any: bool = False) -> dict[int, tuple[int, ...]]:
    """Layouts by store, as indices into this graph's stores; what the graph does not know is left out or, with `or_any`, may be any that it
    knows: where nothing joins a store it lies by arrival, but not where another query could join it."""
    found: dict[int, tuple[int, ...]] = {}
    for store in graph.stores:
        join = None if store.sub is None else graph.lattice.subs[store.sub].join
        asked = layouts.get(StoreKey(store.stream, join), ())
        indices = tuple(store.layouts.index(layout) for layout in asked if layout in store.layouts)
        if asked and or_any and not indices:
            indices = tuple(range(len(store.layouts)))
        if indices:
            found[store.id] = indices
    return found
