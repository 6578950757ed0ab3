"""From a solution, which is in terms of the graph, to the logical plan's probe orders and stores."""

from __future__ import annotations

from collections.abc import Mapping

from clash.plan.logical import ProbeOrder, Step, StoreKey, StorePlan
from clash.planner.graph import Arc, Graph
from clash.planner.placements import DELIVERED
from clash.planner.solution import Solution


def probe_orders(graph: Graph, solution: Solution, owner: str | None = None) -> tuple[ProbeOrder, ...]:
    """One order per query and relation that is no table, and one per relation of every MIR that is kept.

    `owner`: the query that the stores belong to, where queries do not share them.
    """
    subs = graph.lattice.subs
    orders = []
    steps = {at: _step(graph, solution.layouts, graph.arcs[at], owner) for at in solution.into.values() if graph.arcs[at].probes >= 0}
    for target in graph.lattice.targets:
        for goal in graph.goals(target):
            orders.append(_order(graph, solution, goal, tuple(target.queries), None, steps))
    for mir in sorted({graph.arcs[at].mir for at in solution.into.values()} - {-1}):
        for feeder in graph.feeders(mir):
            orders.append(_order(graph, solution, feeder, (), StoreKey(None, subs[mir].join, owner), steps))
    return tuple(orders)


def store_plans(graph: Graph, solution: Solution, owner: str | None = None) -> tuple[StorePlan, ...]:
    """The stores that the solution uses; `owner` as for `probe_orders`."""
    plans = []
    for store_id, chosen in solution.layouts.items():
        store = graph.stores[store_id]
        join = None if store.sub is None else graph.lattice.subs[store.sub].join
        layouts = tuple(store.layouts[i] for i in chosen)
        plans.append(StorePlan(StoreKey(store.stream, join, owner), layouts, store.rows, sum(store.costs[i] for i in chosen)))
    return tuple(plans)


def _order(
    graph: Graph, solution: Solution, end: int, queries: tuple[str, ...], feeds: StoreKey | None, steps: Mapping[int, Step]
) -> ProbeOrder:
    """The order that leads to the node `end`. Arcs that are not steps place, feed or check rows; their cost is the order's feed cost."""
    arcs: list[int] = []
    node = end
    while not graph.is_root(node):
        arcs.append(solution.into[node])
        node = graph.arcs[arcs[-1]].tail
    arcs.reverse()
    root = graph.nodes[node]
    order_steps = tuple(steps[at] for at in arcs if at in steps)
    other_cost = sum(graph.arcs[at].cost for at in arcs if at not in steps)
    found = graph.nodes[graph.arcs[arcs[-1]].tail].sub if arcs else root.sub
    # Only the check of a hull's rows leads from one whole join to another.
    is_checked = graph.nodes[end].placement == DELIVERED and found != graph.nodes[end].sub
    hull = graph.lattice.subs[found].join if is_checked else None
    return ProbeOrder(root.origin, graph.lattice.subs[root.sub].join, order_steps, queries, feeds, other_cost, hull)


def _step(graph: Graph, layouts: Mapping[int, tuple[int, ...]], arc: Arc, owner: str | None) -> Step:
    store, probed = graph.stores[arc.store], graph.lattice.subs[arc.probes]
    tail, after = graph.nodes[arc.tail], graph.nodes[arc.head].sub
    before = graph.lattice.subs[tail.sub]
    layout = store.layouts[next(i for i in layouts[arc.store] if not arc.layouts or i in arc.layouts)]
    key = StoreKey(store.stream, None if store.sub is None else probed.join, owner)
    places = 1 if graph.key_known(layout, tail.sub, arc.probes, after) else graph.model.workers
    stays = graph.model.workers == 1 or graph.stays(tail.placement, layout, tail.sub, arc.probes, after)
    return Step(key, layout, probed.join, before.sends, places, stays, arc.cost)
