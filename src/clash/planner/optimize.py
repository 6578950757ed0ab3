"""The planner's entry point: parsed queries and a request in, a logical plan with a proven bound out.

The passes, in this order:

1. `hulls.find_hulls` finds joins that several queries may take their results from; `candidate_joins.candidates` selects the sub-joins of
   each query that are considered.
2. `lattice.Lattice.add` interns them, so that equal parts of different queries are one, with estimated sizes (`cardinalities`).
3. `build_graph.build_graph` makes the graph of all steps between them, with costs (`cost_model`) and placements (`placements`).
4. `components.components` splits the queries into groups that share nothing.
5. `heuristic.HeuristicSearch.run` finds a plan for a group.
6. `isolated_bounds.IsolatedBounds.bound` proves what each query costs at least (under the cost `probe`).
7. `compact_program.CompactProgram`, tightened by `bound_rows`, or `published_program.PublishedProgram` states the integer program, and
   `integer_program.Milp.solve` solves it. For a large set, `large_sets.LargeSetSearch` runs 5 to 7: it begins with the linear relaxation,
   whose duals prove a bound (`dual_bound`) and whose values guide the heuristic (`guidance`).
8. `solution.finish` keeps what the queries need, chooses the layouts and adds up the cost.
9. `extract_orders.probe_orders` and `store_plans` write the solution as a logical plan.

`search_space.build_space` runs 1 to 3, `solve.solve` 4 to 8. `strategies` decides for which sets of queries they run, and runs 9.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from clash.model.query import Query
from clash.plan.logical import LogicalPlan, PlanRequest
from clash.plan.options import StrategyName
from clash.planner.cost_model import CostModel
from clash.planner.deadline import Clock, Deadline
from clash.planner.search_space import Options
from clash.planner.skew import hot_layouts
from clash.planner.solver import SolverProcess
from clash.planner.strategies import PlanningProblem, StrategyResult, plan_global, plan_independent, plan_shared

_SEARCH_SHARE = 0.95  # of the time limit; the rest is for extracting the plan
OnProgress = Callable[[float, float, float], None]
"""Called with the seconds since the planning began, the cost of the best plan and its bound, whenever one of the two improves."""
_STRATEGIES: Mapping[StrategyName, Callable[[PlanningProblem], StrategyResult]] = {
    "independent": plan_independent,
    "shared": plan_shared,
    "global": plan_global,
}


def plan_queries(
    queries: tuple[Query, ...],
    request: PlanRequest,
    *,
    start: LogicalPlan | None = None,
    solver: SolverProcess | None = None,
    began: float | None = None,
    clock: Clock = time.perf_counter,
    on_progress: OnProgress | None = None,
) -> LogicalPlan:
    """The cheapest plan that is found for all queries together; the empty plan where there are none.

    `start` is a plan to begin the search with, such as the running one. `solver` is the process that solves integer programs, if not this
    one. `began`: the time from which the time limit counts, by `clock`; now, if it is not given.
    """
    since = clock() if began is None else began
    if not queries:
        return LogicalPlan((), request, (), (), cost=0.0, bound=0.0, optimal=True, rounds=0, complete=True, seconds=0.0)
    model = CostModel(request.cost, request.workers, request.layouts)
    running = () if start is None else hot_layouts(start)
    report = None if on_progress is None else lambda cost, bound: on_progress(clock() - since, cost, bound)
    options = Options(model, request.formulation, request.mirs, request.gap, solver, report, running)
    deadline = Deadline(since + _SEARCH_SHARE * request.time_limit, clock)
    problem = PlanningProblem(queries, request.statistics, request.streams, options, deadline, heuristic_only=request.time_limit == 0.0)
    if start is not None:
        problem = replace(problem, start=start.probe_orders, start_layouts={store.key: store.layouts for store in start.stores})
    result = _STRATEGIES[request.strategy](problem)
    return LogicalPlan(
        queries, request, result.orders, result.stores, result.cost, result.bound, result.optimal, result.rounds, result.complete,
        clock() - since, result.variables, result.rows, result.bound_source,
    )  # fmt: skip
