"""What a plan that runs would cost under other statistics: its own orders and layouts, walked over the graph of today's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clash.model.layout import Layout
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.planner.cost_model import CostModel
from clash.planner.orders import ProbeOrder, StoreKey
from clash.planner.plan import Plan
from clash.planner.fixed_plan import Known, replay, wanted_layouts
from clash.planner.solution import Solution, finish
from clash.planner.search_space import Options, build_space


def price(plan: Plan, statistics: Statistics) -> float | None:
    """None if the search space of today does not hold the plan, as may be for very large queries."""
    asked = plan.asked
    options = Options(CostModel(asked.cost, asked.workers, asked.layouts), asked.strategy, asked.formulation, asked.mirs, asked.gap)
    layouts = {store.key: store.layouts for store in plan.stores}
    if asked.strategy != "independent":
        found = _walk(plan.queries, plan.probe_orders, layouts, statistics, plan, options)
        return None if found is None else found.cost
    parts = []
    for query in plan.queries:
        orders = tuple(o for o in plan.probe_orders if query.name in o.queries or (o.feeds is not None and o.feeds.owner == query.name))
        own = {replace(key, owner=None): held for key, held in layouts.items() if key.owner == query.name}
        parts.append(_walk((query,), orders, own, statistics, plan, options))
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    rounds = options.model.round_cost
    return sum(part.cost - rounds * part.rounds for part in known) + rounds * max(part.rounds for part in known)


def _walk(
    queries: tuple[Query, ...],
    orders: tuple[ProbeOrder, ...],
    layouts: Mapping[StoreKey, tuple[Layout, ...]],
    statistics: Statistics,
    plan: Plan,
    options: Options,
) -> Solution | None:
    graph = build_space(queries, statistics, plan.streams, options).graph
    wanted = wanted_layouts(graph, layouts)
    arcs = replay(graph, [Known(orders, {query.name: query.join for query in queries}, wanted)])
    goals = [goal for target in graph.lattice.targets for goal in graph.goals(target)]
    if not all(goal in arcs or graph.is_root(goal) for goal in goals):
        return None
    return finish(graph, goals, arcs, {} if graph.model.free_copies else wanted)
