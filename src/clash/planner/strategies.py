"""The three strategies, all over one cost model so that they compare.

`independent`: every query has its own stores and orders. `shared`: each query is optimised alone, equal parts run once; where
stores disagree on the layout, the one that costs least in all. `global`: one program over all queries.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from clash.model.layout import ONE, Layout
from clash.model.query import Query, SubJoin
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.graph import NOWHERE, Graph, Node
from clash.planner.integer_program import TOLERANCE
from clash.planner.orders import ProbeOrder, StoreKey, StorePlan, probe_orders, store_plans
from clash.planner.fixed_plan import Known, replay, wanted_layouts
from clash.planner.heuristic import Search
from clash.planner.solution import Solution, finish
from clash.planner.solve import Found, solve
from clash.planner.search_space import Options, Space, build_space

AT_LEAST = 0.5  # seconds for the heuristic, even if no time is given: time_limit=0 asks for it alone
ALONE = 0.25  # of the time limit, at most, for plans to start from


@dataclass(frozen=True)
class Result:
    """What a strategy found. `bound`: no plan of this cost model costs less; `complete`: all plans were looked at."""

    orders: tuple[ProbeOrder, ...]
    stores: tuple[StorePlan, ...]
    cost: float
    bound: float
    optimal: bool
    rounds: int
    variables: int
    rows: int
    complete: bool


@dataclass(frozen=True)
class Job:
    queries: tuple[Query, ...]
    statistics: Statistics
    streams: Mapping[str, Stream]
    options: Options
    deadline: float
    start: tuple[ProbeOrder, ...] = ()
    start_layouts: Mapping[StoreKey, tuple[Layout, ...]] | None = None


def independent(job: Job) -> Result:
    parts = _alone(job)
    orders = tuple(o for space, found in parts for o in probe_orders(space.graph, found.solution, space.queries[0].name))
    stores = tuple(s for space, found in parts for s in store_plans(space.graph, found.solution, space.queries[0].name))
    rounds = max(found.solution.rounds for _, found in parts)
    price = job.options.model.round_cost
    cost = sum(found.solution.cost - price * found.solution.rounds for _, found in parts) + price * rounds
    loose = sum(found.solution.cost - found.bound for _, found in parts)  # counts every query's rounds, of which only the most are paid
    bound = max(cost - loose, sum(floor(space) - price for space, _ in parts) + price)
    return _result(orders, stores, cost, bound, rounds, [found for _, found in parts], all(s.complete for s, _ in parts))


def shared(job: Job) -> Result:
    space = build_space(job.queries, job.statistics, job.streams, job.options)
    if not space.complete:  # too large to optimise each query for itself; `global` starts from the same plan, so it is never worse
        alone = Search(space.graph, space.graph.lattice.targets).unshared()
        orders, stores = probe_orders(space.graph, alone), store_plans(space.graph, alone)
        return Result(orders, stores, alone.cost, min(floor(space), alone.cost), False, alone.rounds, 0, 0, False)
    parts = _alone(job)
    solution = merge(space, parts, job.deadline)
    # whatever the plan, its part for one query costs at least what the query costs alone
    bound = max([floor(space), *(found.bound for _, found in parts)])
    found = [f for _, f in parts]
    result = _result(
        probe_orders(space.graph, solution), store_plans(space.graph, solution), solution.cost, bound, solution.rounds, found, False
    )
    return replace(result, complete=True, optimal=bound >= solution.cost * (1 - TOLERANCE))


def merge(space: Space, parts: list[tuple[Space, Found]], deadline: float = math.inf) -> Solution:
    """Run the plans of single queries together. Stores that they want under several layouts take them one by one, the best in all."""
    graph = space.graph
    goals = [goal for target in graph.lattice.targets for goal in graph.goals(target)]
    plans: list[Known] = []
    wanted: dict[int, tuple[int, ...]] = {}
    for alone, found in parts:
        own = wanted_layouts(graph, {store.key: store.layouts for store in store_plans(alone.graph, found.solution)}, or_any=True)
        plans.append(Known(probe_orders(alone.graph, found.solution), {query.name: query.join for query in alone.queries}, own))
        for store, layouts in own.items():
            wanted[store] = tuple(sorted({*wanted.get(store, ()), *layouts}))

    alone_stores = {store: layouts for store, layouts in wanted.items() if graph.stores[store].alone}

    def attempt(settled: dict[int, tuple[int, ...]]) -> Solution:
        walked = replay(graph, [replace(plan, layouts={**wanted, **plan.layouts, **settled}) for plan in plans])
        return finish(graph, goals, walked, {} if graph.model.free_copies else {**wanted, **settled})

    choices = {store: layouts for store, layouts in alone_stores.items() if len(layouts) > 1}
    now = {store: layouts[:1] for store, layouts in alone_stores.items()}
    best = attempt(now)
    for _ in range(2):
        before = best.cost
        for store, layouts in choices.items():
            if time.perf_counter() > deadline:
                return best
            for layout in layouts:
                if (layout,) != now[store]:
                    other = attempt({**now, store: (layout,)})
                    if other.cost < best.cost - 1e-9:
                        best, now = other, {**now, store: (layout,)}
        if best.cost == before:
            break
    return best


def together(job: Job) -> Result:
    """The strategy `global`."""
    began = time.perf_counter()
    space = build_space(job.queries, job.statistics, job.streams, job.options)
    # writing a large plan down takes a good part of what reading its queries took: leave that much time
    job = replace(job, deadline=job.deadline - 0.4 * (time.perf_counter() - began))
    graph = space.graph
    start: Mapping[int, int] = {}
    held: list[Solution] = []  # plans that are there already
    if job.start:
        layouts = wanted_layouts(graph, job.start_layouts or {})
        start = replay(graph, [Known(job.start, {query.name: query.join for query in job.queries}, layouts)])
        goals = [goal for target in graph.lattice.targets for goal in graph.goals(target)]
        if all(goal in start or graph.is_root(goal) for goal in goals):
            held.append(finish(graph, goals, start, {} if graph.model.free_copies else layouts))
    many = len(graph.lattice.targets) > 1
    if many and space.complete and job.options.model.full and not start and job.options.formulation == "compact":
        # under `full` layouts decide more than orders do: start from queries planned alone, their stores reconciled
        now = time.perf_counter()
        until = now + ALONE * (job.deadline - now)
        held.append(merge(space, _alone(replace(job, deadline=until)), until))
        start = held[0].into
    spare = 0.1 * max(0.0, job.deadline - time.perf_counter()) if many else 0.0
    least = floor(space)
    found = solve(space, job.options, job.deadline - spare, start, least, AT_LEAST)
    solution = min([found.solution, *held], key=lambda s: s.cost)
    if not found.optimal and many and space.complete and time.perf_counter() < job.deadline:
        # cut off: at least never worse than `shared`
        solution = min(solution, merge(space, _alone(job), job.deadline), key=lambda s: s.cost)
    bound = max(least, found.bound if space.complete else 0.0)
    result = _result(
        probe_orders(graph, solution), store_plans(graph, solution), solution.cost, bound, solution.rounds, [found], space.complete
    )
    return replace(result, optimal=True, bound=solution.cost) if bound >= solution.cost * (1 - TOLERANCE) else result


def floor(space: Space) -> float:
    """What every plan pays, looked at or not: each tuple's first step, and each base store once."""
    graph = space.graph
    roots = {node for target in graph.lattice.targets for goal in graph.goals(target) for node in [_root(graph, goal)] if node is not None}
    cost = sum(_cheapest_out(graph, root) for root in roots)
    cheapest = Layout("hash") if graph.model.workers > 1 else ONE
    cost += sum(graph.model.store(cheapest, store.rows, 1, False) for store in graph.stores if store.stream is not None)
    return cost + graph.model.round_cost


def _root(graph: Graph, goal: int) -> int | None:
    node = graph.nodes[goal]
    join = graph.lattice.subs[node.sub].join
    single = graph.lattice.find(join.sub([node.origin]))
    return None if len(join.relations) == 1 or single is None else graph.find(Node(node.origin, single, NOWHERE))


def _cheapest_out(graph: Graph, root: int) -> float:
    """A first step sends every tuple once, to one place at best; under `full` it may stay where the own store puts it."""
    sub = graph.lattice.subs[graph.nodes[root].sub]
    model = graph.model
    return sub.rows if not model.full else sub.rows * model.weights.probe


def _alone(job: Job) -> list[tuple[Space, Found]]:
    """Every query as if it were the only one; equal queries are planned once."""
    parts = []
    known: dict[SubJoin, tuple[Space, Found]] = {}
    for i, query in enumerate(job.queries):
        if query.join not in known:
            space = build_space((query,), job.statistics, job.streams, job.options)
            now = time.perf_counter()
            share = max(0.0, job.deadline - now) / (len(job.queries) - i)
            found = solve(space, job.options, min(job.deadline, now + 4 * share))
            bound = max(floor(space), found.bound if space.complete else 0.0)
            known[query.join] = (space, replace(found, bound=min(bound, found.solution.cost), optimal=found.optimal and space.complete))
        space, found = known[query.join]
        if space.queries[0] is not query:
            space = build_space((query,), job.statistics, job.streams, job.options)
        parts.append((space, found))
    return parts


def _result(
    orders: tuple[ProbeOrder, ...],
    stores: tuple[StorePlan, ...],
    cost: float,
    bound: float,
    rounds: int,
    found: list[Found],
    complete: bool,
) -> Result:
    optimal = complete and all(f.optimal for f in found)
    bound = cost if optimal else max(0.0, min(bound, cost))
    return Result(orders, stores, cost, bound, optimal, rounds, sum(f.variables for f in found), sum(f.rows for f in found), complete)
