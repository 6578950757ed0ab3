"""Traces given probe orders over a graph.

It is how `shared` merges plans of single queries, how a running plan becomes the start of a search, and how it is priced under new
statistics. The orders stay as they are; the layouts may differ from those that they were planned for: a step then broadcasts, or crosses
the network, and the graph says what that costs. Orders that the graph does not contain any more are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.model.layout import Layout
from clash.model.query import SubJoin
from clash.plan.logical import ProbeOrder, StoreKey
from clash.planner.graph import Arc, Graph, Node
from clash.planner.placements import DELIVERED, FED, UNPLACED
from clash.planner.solution import arrival_rounds

AllowedLayouts = Mapping[int, tuple[int, ...]]
"""Store → indices of the layouts under which it may be probed."""
Path = list[tuple[int, int]]
"""(node, arc into it), from the first arc to the last."""


@dataclass(frozen=True)
class FixedPlan:
    """A plan to trace."""

    orders: tuple[ProbeOrder, ...]
    joins: Mapping[str, SubJoin]
    """The joins of its queries, by name."""
    layouts: AllowedLayouts
    """Where a store may have several layouts at a time, each step keeps its own if the store can have it."""


def arcs_of_plans(graph: Graph, plans: Iterable[FixedPlan]) -> dict[int, int]:
    """The arcs of all plans together, by the node that they lead to.

    Where two plans reach a node in different ways, the one that is there in an earlier round wins, so that no step comes later than in its
    own plan.
    """
    merged: dict[int, int] = {}
    earliest: dict[int, int] = {}
    for plan in plans:
        traced: dict[int, int] = {}
        for order in plan.orders:
            ends = [plan.joins[name] for name in order.queries if name in plan.joins]
            if order.feeds is not None and order.feeds.join is not None:
                ends.append(order.feeds.join)
            for end in ends:
                for head, at in _trace(graph, order, end, order.feeds is not None, plan.layouts):
                    traced.setdefault(head, at)
        complete = {node: at for node, at in traced.items() if _is_reachable(graph, traced, node)}
        rounds = arrival_rounds(graph, complete) if graph.model.round_cost else dict.fromkeys(complete, 1)
        for node, at in complete.items():
            if node not in merged or rounds[node] < earliest[node]:
                merged[node], earliest[node] = at, rounds[node]
    return merged


def layout_indices(graph: Graph, layouts: Mapping[StoreKey, Iterable[Layout]], or_any: bool = False) -> dict[int, tuple[int, ...]]:
    """Layouts by store, as indices into this graph's stores. Layouts that the graph's store cannot have are left out.

    With `or_any`, a store of which none is left may have any layout: a store that nothing joins is partitioned by arrival, but not where
    another query can join it.
    """
    result: dict[int, tuple[int, ...]] = {}
    for store in graph.stores:
        join = None if store.sub is None else graph.lattice.subs[store.sub].join
        given = layouts.get(StoreKey(store.stream, join), ())
        indices = tuple(store.layouts.index(layout) for layout in given if layout in store.layouts)
        if given and or_any and not indices:
            indices = tuple(range(len(store.layouts)))
        if indices:
            result[store.id] = indices
    return result


def _is_reachable(graph: Graph, into: Mapping[int, int], node: int) -> bool:
    """Whether the arcs contain everything that the node needs, down to the roots."""
    while not graph.is_root(node):
        if node not in into:
            return False
        arc = graph.arcs[into[node]]
        if arc.mir >= 0 and not all(_is_reachable(graph, into, feeder) for feeder in graph.feeders(arc.mir)):
            return False
        node = arc.tail
    return True


def _trace(graph: Graph, order: ProbeOrder, end: SubJoin, feeds: bool, allowed: AllowedLayouts) -> Path:
    """The cheapest path along the order; empty where the graph lacks a step of it.

    It starts unplaced, or where one of the origin's own store's layouts places the tuple.
    """
    lattice = graph.lattice
    found = end if order.hull is None or feeds else order.hull
    single, whole = lattice.find(found.sub([order.origin])), lattice.find(end)
    root = None if single is None else graph.find(Node(order.origin, single, UNPLACED))
    if root is None or whole is None:
        return []
    starts: list[Path] = [[]]
    for at in graph.out[root]:
        arc = graph.arcs[at]
        if arc.probes < 0 and graph.nodes[arc.head].placement not in (FED, DELIVERED) and _is_allowed(graph, arc, None, allowed):
            starts.append([(arc.head, at)])
    last = (FED if feeds else DELIVERED) if graph.model.full else None
    paths = [path for start in starts if (path := _follow(graph, root, start, order, (found, end), last, allowed))]
    return min(paths, key=lambda path: sum(_arc_cost(graph, at) for _, at in path), default=[])


def _arc_cost(graph: Graph, at: int) -> float:
    """The cost of the arc, and of a round if it is a hop: it may need a further one."""
    return graph.arcs[at].cost + graph.arcs[at].hop * max(graph.model.round_cost, 1e-9)


def _follow(
    graph: Graph, root: int, start: Path, order: ProbeOrder, ends: tuple[SubJoin, SubJoin], last: str | None, allowed: AllowedLayouts
) -> Path:
    """The path along the order from `start`, by the cheapest arc for each step; empty where a step has none.

    `ends`: the join that the steps complete, and the one that the path ends at. `last`: the placement that the path ends at; None for any.
    """
    path = list(start)
    found, end = ends
    covered = frozenset([order.origin])
    stops: list[tuple[int | None, SubJoin, Layout | None, str | None]] = []  # (probed sub, covered join, layout, placement to end at)
    for step in order.steps:
        covered = covered | step.adds.relations
        stops.append((graph.lattice.find(found.sub(step.adds.relations)), found.sub(covered), step.layout, None))
    if last is not None:
        stops.append((-1, end, None, last))
    for probed, join, layout, placement in stops:
        node = path[-1][0] if path else root
        sub = graph.lattice.find(join)
        candidates = [
            at
            for at in graph.out[node]
            if graph.arcs[at].probes == probed
            and graph.nodes[graph.arcs[at].head].sub == sub
            and (placement is None or graph.nodes[graph.arcs[at].head].placement == placement)
            and _is_allowed(graph, graph.arcs[at], layout, allowed)
        ]
        if not candidates:
            return []
        at = min(candidates, key=lambda candidate: _arc_cost(graph, candidate))
        path.append((graph.arcs[at].head, at))
    return path


def _is_allowed(graph: Graph, arc: Arc, layout: Layout | None, allowed: AllowedLayouts) -> bool:
    """Whether the arc works under the step's own layout, or, where the store cannot have that, under one of the allowed ones."""
    if arc.store < 0 or not arc.layouts:
        return True
    store = graph.stores[arc.store]
    if layout in store.layouts and not store.single_layout:
        return any(store.layouts[i] == layout for i in arc.layouts)
    # The step's layout may be one that only the query planned separately has: partitioned by arrival, where nothing joins the store.
    return any(i in arc.layouts for i in allowed.get(arc.store, ()))
