"""The three strategies, all under one cost model, so that their costs compare.

`independent`: every query has its own stores and orders. `shared`: each query is optimised alone and equal parts run once; where queries
need different layouts of a store, it gets the one that costs least in all. `global`: one program over all queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

from clash.model.layout import ONE, Layout
from clash.model.query import Query, SubJoin
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import ProbeOrder, StoreKey, StorePlan
from clash.plan.options import BoundSource
from clash.planner.deadline import NEVER, Deadline
from clash.planner.extract_orders import probe_orders, store_plans
from clash.planner.fixed_plan import FixedPlan, arcs_of_plans, layout_indices
from clash.planner.graph import Graph, Node
from clash.planner.heuristic import HeuristicSearch
from clash.planner.hulls import find_hulls
from clash.planner.integer_program import TOLERANCE
from clash.planner.lattice import Target
from clash.planner.placements import UNPLACED
from clash.planner.search_space import Options, SearchSpace, build_space
from clash.planner.solution import Solution, finish
from clash.planner.solve import SolveResult, solve, weakest_source

HEURISTIC_SECONDS = 0.5  # where no time is given, which requests the heuristic's plan alone, or while a stream runs
EXTRACTION_SHARE = 0.4  # of the time that building took
SEPARATE_PLANS_SHARE = 0.25  # of the time limit, at most, for plans of single queries to start from


@dataclass(frozen=True)
class StrategyResult:
    """The plan of a strategy; the fields are those of `LogicalPlan`."""

    orders: tuple[ProbeOrder, ...]
    stores: tuple[StorePlan, ...]
    cost: float
    bound: float
    """No plan of this cost model costs less."""
    optimal: bool
    rounds: int
    variables: int
    rows: int
    complete: bool
    """Whether all plans were considered."""
    bound_source: BoundSource = "floor"


@dataclass(frozen=True)
class PlanningProblem:
    """What a strategy plans for."""

    queries: tuple[Query, ...]
    statistics: Statistics
    streams: Mapping[str, Stream]
    options: Options
    deadline: Deadline
    """The end of the search."""
    heuristic_only: bool = False
    """Whether no time is given: then building takes the time that it needs, and the heuristic a moment."""
    start: tuple[ProbeOrder, ...] = ()
    """The orders of a plan to begin the search with."""
    start_layouts: Mapping[StoreKey, tuple[Layout, ...]] | None = None
    """The layouts of its stores."""

    def space(self, queries: tuple[Query, ...], deadline: Deadline, hulls: Sequence[Query] = ()) -> SearchSpace:
        """The search space of some of the queries, which may take their results from the hulls."""
        return build_space(queries, self.statistics, self.streams, self.options, NEVER if self.heuristic_only else deadline, hulls)


# ---- independent ----------------------------------------------------------------------------------------------------
def plan_independent(problem: PlanningProblem) -> StrategyResult:
    """The strategy `independent`."""
    parts = _plan_each(problem)
    orders = tuple(o for space, part in parts for o in probe_orders(space.graph, part.solution, space.queries[0].name))
    stores = tuple(s for space, part in parts for s in store_plans(space.graph, part.solution, space.queries[0].name))
    rounds = max(part.solution.rounds for _, part in parts)
    price = problem.options.model.round_cost
    cost = sum(part.solution.cost - price * part.solution.rounds for _, part in parts) + price * rounds
    # The sum of all gaps counts the rounds of every query, of which only the largest number is paid: the second bound may be better.
    gaps = sum(part.solution.cost - part.bound for _, part in parts)
    floor = sum(cost_floor(space) - price for space, _ in parts) + price
    result = _result(orders, stores, cost, max(cost - gaps, floor), rounds, [part for _, part in parts], all(s.complete for s, _ in parts))
    return replace(result, bound_source="floor" if floor > cost - gaps else result.bound_source)


@overload
def _plan_each(problem: PlanningProblem) -> list[tuple[SearchSpace, SolveResult]]: ...
@overload
def _plan_each(problem: PlanningProblem, give_up: Deadline) -> list[tuple[SearchSpace, SolveResult]] | None: ...
def _plan_each(problem: PlanningProblem, give_up: Deadline = NEVER) -> list[tuple[SearchSpace, SolveResult]] | None:
    """Every query as if it were the only one; equal queries are planned once. None if it is not done at `give_up`."""
    parts = []
    options = replace(problem.options, on_progress=None)
    planned: dict[SubJoin, tuple[SearchSpace, SolveResult]] = {}
    for i, query in enumerate(problem.queries):
        if give_up.passed:
            return None
        if query.join not in planned:
            until = problem.deadline.share(min(1.0, 4.0 / (len(problem.queries) - i)))
            space = problem.space((query,), until)
            result = solve(space, options, until)
            bound, source = _best_bound(space, result, cost_floor(space))
            result = replace(result, bound=min(bound, result.solution.cost), optimal=result.optimal and space.complete, bound_source=source)
            planned[query.join] = (space, result)
        space, result = planned[query.join]
        if space.queries[0] is not query:
            space = problem.space((query,), problem.deadline)
        parts.append((space, result))
    return parts


# ---- shared ---------------------------------------------------------------------------------------------------------
def plan_shared(problem: PlanningProblem) -> StrategyResult:
    """The strategy `shared`."""
    space = problem.space(problem.queries, problem.deadline)
    space = replace(space, left_out=tuple(hulls_of(problem.queries, problem.options, ())))
    graph = space.graph
    if not space.complete:  # too large to optimise each query; `global` begins with the same plan, so it is never worse
        solution = HeuristicSearch(graph, graph.lattice.targets).run_separately()
        orders, stores = probe_orders(graph, solution), store_plans(graph, solution)
        return StrategyResult(orders, stores, solution.cost, min(cost_floor(space), solution.cost), False, solution.rounds, 0, 0, False)
    parts = _plan_each(problem)
    solution = merge_plans(space, parts, problem.deadline)
    # Whatever the plan, its part for one query costs at least what the query costs alone, unless a hull may replace that.
    replaceable = space.replaceable
    floor = cost_floor(space)
    bound = max([floor, *(part.bound for single, part in parts if single.queries[0].join.relations not in replaceable)])
    orders, stores = probe_orders(graph, solution), store_plans(graph, solution)
    result = _result(orders, stores, solution.cost, bound, solution.rounds, [part for _, part in parts], False)
    source: BoundSource = "isolated queries" if bound > floor else "floor"
    return replace(result, complete=True, optimal=bound >= solution.cost * (1 - TOLERANCE), bound_source=source)


def merge_plans(space: SearchSpace, parts: list[tuple[SearchSpace, SolveResult]], deadline: Deadline = NEVER) -> Solution:
    """Run the plans of single queries together.

    Stores that they need under several layouts, but may have only one, get their layouts one by one, each the best for all.
    """
    graph = space.graph
    goals = graph.all_goals()
    plans: list[FixedPlan] = []
    needed: dict[int, tuple[int, ...]] = {}  # store → the layouts that some plan has
    for part_space, part in parts:
        own = layout_indices(graph, {store.key: store.layouts for store in store_plans(part_space.graph, part.solution)}, or_any=True)
        joins = {query.name: query.join for query in part_space.queries}
        plans.append(FixedPlan(probe_orders(part_space.graph, part.solution), joins, own))
        for store, layouts in own.items():
            needed[store] = tuple(sorted({*needed.get(store, ()), *layouts}))

    def combine(settled: dict[int, tuple[int, ...]]) -> Solution:
        arcs = arcs_of_plans(graph, [replace(plan, layouts={**needed, **plan.layouts, **settled}) for plan in plans])
        return finish(graph, goals, arcs, {} if graph.model.free_copies else {**needed, **settled})

    single_layout = {store: layouts for store, layouts in needed.items() if graph.stores[store].single_layout}
    choices = {store: layouts for store, layouts in single_layout.items() if len(layouts) > 1}
    settled = {store: layouts[:1] for store, layouts in single_layout.items()}
    best = combine(settled)
    for _ in range(2):
        before = best.cost
        for store, layouts in choices.items():
            for layout in layouts:
                if deadline.passed:
                    return best
                if (layout,) != settled[store]:
                    other = combine({**settled, store: (layout,)})
                    if other.cost < best.cost - 1e-9:
                        best, settled = other, {**settled, store: (layout,)}
        if best.cost == before:
            break
    return best


# ---- global ---------------------------------------------------------------------------------------------------------
def plan_global(problem: PlanningProblem) -> StrategyResult:
    """The strategy `global`."""
    clock = problem.deadline.clock
    began = clock()
    hulls = hulls_of(problem.queries, problem.options, problem.start)
    space = problem.space(problem.queries, problem.deadline, hulls)
    # Extracting a large plan takes a good part of the time that building its search space took: that much is reserved.
    problem = replace(problem, deadline=problem.deadline.earlier(EXTRACTION_SHARE * (clock() - began)))
    graph = space.graph
    several = len(graph.lattice.targets) > 1
    start: Mapping[int, int] = {}
    candidates: list[Solution] = []  # complete plans that exist before the search
    if problem.start:
        start, complete_starts = _given_start(graph, problem)
        candidates += complete_starts
    if graph.lattice.hulls and (problem.heuristic_only or not problem.deadline.passed):
        candidates += _plan_over_hulls(graph, problem, hulls)
        start = start or (candidates[-1].into if candidates else {})
    if several and space.complete and problem.options.model.full and not start and problem.options.formulation == "compact":
        # Under `full`, layouts matter more than orders: start from queries planned separately, their stores' layouts reconciled.
        until = problem.deadline.share(SEPARATE_PLANS_SHARE)
        parts = _plan_each(replace(problem, deadline=until), until)
        if parts is not None:
            candidates.append(merge_plans(space, parts, until))
            start = candidates[-1].into
    reserve = 0.1 * problem.deadline.left if several and space.complete else 0.0
    quick = Deadline(clock() + HEURISTIC_SECONDS, clock) if problem.heuristic_only else None
    if problem.options.solver is not None and quick is None:
        quick = problem.deadline.within(HEURISTIC_SECONDS)
    floor = cost_floor(space)
    result = solve(space, problem.options, problem.deadline.earlier(reserve), start, floor, quick)
    solution = min([result.solution, *candidates], key=lambda s: s.cost)
    if not result.optimal and several and space.complete and not problem.deadline.passed:
        # The time limit ended the search: make sure that the plan is at least no worse than that of `shared`.
        parts = _plan_each(problem, problem.deadline)
        if parts is not None:
            solution = min(solution, merge_plans(space, parts, problem.deadline), key=lambda s: s.cost)
    bound, source = _best_bound(space, result, floor)
    orders, stores = probe_orders(graph, solution), store_plans(graph, solution)
    plan = _result(orders, stores, solution.cost, bound, solution.rounds, [result], space.complete)
    plan = replace(plan, bound_source=source)
    return replace(plan, optimal=True, bound=solution.cost) if bound >= solution.cost * (1 - TOLERANCE) else plan


def _plan_over_hulls(graph: Graph, problem: PlanningProblem, hulls: list[Query]) -> list[Solution]:
    """A plan in which every query takes its results from its weakest hull: that of the hulls alone, which is a small problem. None if the
    graph does not contain it, which is possible for very large queries."""
    representatives: dict[SubJoin, Query] = {}
    members: dict[str, list[str]] = {}
    for query in problem.queries:
        weakest = next((hull for hull in hulls if query.join.is_within(hull.join)), query)
        planned = representatives.setdefault(weakest.join, replace(weakest, name=f"{len(representatives)}"))
        members.setdefault(planned.name, []).append(query.name)
    options = replace(problem.options, hulls=False, on_progress=None)
    until = problem.deadline.share(SEPARATE_PLANS_SHARE)
    result = plan_global(replace(problem, queries=tuple(representatives.values()), options=options, deadline=until, start=()))
    joins = {query.name: query.join for query in problem.queries}
    orders = []
    for order in result.orders:
        if order.feeds is not None:
            orders.append(order)
            continue
        whole = next(query.join for query in representatives.values() if query.name in order.queries)
        names = [name for planned in order.queries for name in members[planned]]
        for name in names:
            orders.append(replace(order, queries=(name,), hull=None if joins[name] == whole else whole))
    layouts = layout_indices(graph, {store.key: store.layouts for store in result.stores}, or_any=True)
    arcs = arcs_of_plans(graph, [FixedPlan(tuple(orders), joins, layouts)])
    goals = graph.all_goals()
    contained = all(goal in arcs or graph.is_root(goal) for goal in goals)
    return [finish(graph, goals, arcs, {} if graph.model.free_copies else layouts)] if contained else []


def _given_start(graph: Graph, problem: PlanningProblem) -> tuple[dict[int, int], list[Solution]]:
    """The arcs of the plan to begin with, as far as the graph contains it, and the plan itself if it answers all queries."""
    given = layout_indices(graph, problem.start_layouts or {})  # of a plan under other options, perhaps
    layouts = {store: indices[:1] if graph.stores[store].single_layout else indices for store, indices in given.items()}
    arcs = arcs_of_plans(graph, [FixedPlan(problem.start, {query.name: query.join for query in problem.queries}, layouts)])
    goals = graph.all_goals()
    if not all(goal in arcs or graph.is_root(goal) for goal in goals):
        return arcs, []
    return arcs, [finish(graph, goals, arcs, {} if graph.model.free_copies else layouts)]


def hulls_of(queries: Iterable[Query], options: Options, orders: Iterable[ProbeOrder]) -> list[Query]:
    """The joins that queries may take their results from, those of the given orders included; none where checks have no price."""
    if not options.hulls or not options.model.full:
        return []
    return find_hulls(queries, [order.hull for order in orders if order.hull is not None])


# ---- bounds and results ---------------------------------------------------------------------------------------------
def cost_floor(space: SearchSpace) -> float:
    """What every plan pays, whether it was considered or not: each tuple's first step, each base store once, and one round."""
    graph, model, subs = space.graph, space.graph.model, space.graph.lattice.subs
    replaceable = space.replaceable
    cost, counted = 0.0, set[int]()
    targets = [target for target in graph.lattice.targets if subs[target.sub].join.relations not in replaceable]
    needed = [roots for target in targets for roots in _alternative_roots(graph, target)]
    for roots in sorted(needed, key=len):  # those of queries without a hull first
        if counted.isdisjoint(roots):  # a plan has one of them, and it is none that is counted already
            cost += min(_least_first_step_cost(graph, root) for root in roots)
            counted |= roots
    cheapest = Layout("hash") if model.workers > 1 else ONE
    smaller = {relation.stream for relations in replaceable for relation in relations}  # their stores may be smaller with hulls
    base_stores = [store for store in graph.stores if store.stream is not None and store.stream not in smaller]
    cost += sum(model.table(cheapest, s.rows) if s.is_table else model.store(cheapest, s.rows, 1, False) for s in base_stores)
    return cost + model.round_cost


def _best_bound(space: SearchSpace, result: SolveResult, floor: float) -> tuple[float, BoundSource]:
    """The best of the bounds that hold for all plans, and where it comes from."""
    bounds: list[tuple[float, BoundSource]] = [(floor, "floor"), (result.bound_of_all, "relaxation")]
    return max([*bounds, (result.bound, result.bound_source)] if space.complete else bounds, key=lambda bound: bound[0])


def _alternative_roots(graph: Graph, target: Target) -> Iterator[set[int]]:
    """Per origin of the query, the roots of all paths to its goal: its own, and those of its hulls. None for a query of one relation, which
    needs no step."""
    subs = graph.lattice.subs
    if subs[target.sub].size > 1:
        for origin in subs[target.sub].origins:
            singles = (graph.lattice.find(subs[whole].join.sub([origin])) for whole in (target.sub, *target.hulls))
            roots = (graph.find(Node(origin, single, UNPLACED)) for single in singles if single is not None)
            yield {root for root in roots if root is not None}


def _least_first_step_cost(graph: Graph, root: int) -> float:
    """A first step sends every tuple to at least one worker; under `full` the tuple may be where its own store places it already."""
    rows = graph.lattice.subs[graph.nodes[root].sub].rows
    return rows * graph.model.weights.probe if graph.model.full else rows


def _result(
    orders: tuple[ProbeOrder, ...],
    stores: tuple[StorePlan, ...],
    cost: float,
    bound: float,
    rounds: int,
    parts: list[SolveResult],
    complete: bool,
) -> StrategyResult:
    optimal = complete and all(part.optimal for part in parts)
    bound = cost if optimal else max(0.0, min(bound, cost))
    variables, rows = sum(part.variables for part in parts), sum(part.rows for part in parts)
    return StrategyResult(orders, stores, cost, bound, optimal, rounds, variables, rows, complete, weakest_source(parts))
