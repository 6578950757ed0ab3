"""What a running plan would cost under other statistics: its own orders and layouts, walked over the graph of today's cardinalities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clash.model.layout import Layout
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.plan.logical import LogicalPlan, ProbeOrder, StoreKey
from clash.planner.cost_model import CostModel, Weights
from clash.planner.fixed_plan import FixedPlan, arcs_of_plans, layout_indices
from clash.planner.search_space import Options, build_space
from clash.planner.skew import hot_layouts
from clash.planner.solution import Solution, finish
from clash.planner.strategies import hulls_of

DEFAULT_WEIGHTS = Weights()


def price_plan(plan: LogicalPlan, statistics: Statistics, weights: Weights = DEFAULT_WEIGHTS) -> float | None:
    """The cost of the plan; None if today's search space does not contain it, which is possible for very large queries."""
    request = plan.request
    model = CostModel(request.cost, request.workers, request.layouts, weights)
    options = Options(model, request.formulation, request.mirs, request.gap, running_layouts=hot_layouts(plan))
    layouts = {store.key: store.layouts for store in plan.stores}
    if request.strategy != "independent":
        solution = _walk(plan.queries, plan.probe_orders, layouts, statistics, plan, options)
        return None if solution is None else solution.cost
    parts = []
    for query in plan.queries:
        orders = tuple(o for o in plan.probe_orders if query.name in o.queries or (o.feeds is not None and o.feeds.owner == query.name))
        own_layouts = {replace(key, owner=None): layout for key, layout in layouts.items() if key.owner == query.name}
        parts.append(_walk((query,), orders, own_layouts, statistics, plan, options))
    priced = [part for part in parts if part is not None]
    if len(priced) < len(parts):
        return None
    per_round = model.round_cost  # rounds are paid once, by the longest of the trees
    return sum(part.cost - per_round * part.rounds for part in priced) + per_round * max(part.rounds for part in priced)


def _walk(
    queries: tuple[Query, ...],
    orders: tuple[ProbeOrder, ...],
    layouts: Mapping[StoreKey, tuple[Layout, ...]],
    statistics: Statistics,
    plan: LogicalPlan,
    options: Options,
) -> Solution | None:
    graph = build_space(queries, statistics, plan.streams, options, hulls=hulls_of(queries, options, orders)).graph
    chosen = layout_indices(graph, layouts)
    arcs = arcs_of_plans(graph, [FixedPlan(orders, {query.name: query.join for query in queries}, chosen)])
    goals = [goal for target in graph.lattice.targets for goal in graph.goals(target)]
    if not all(goal in arcs or graph.is_root(goal) for goal in goals):
        return None
    return finish(graph, goals, arcs, {} if graph.model.free_copies else chosen)
