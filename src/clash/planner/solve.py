"""From a search space to a plan with a proven bound: per component, first the heuristic, then the integer program.

Every answer is the cheapest plan that either of them found, and the bound is one that the solver proved, never a guess. Components are
solved small ones first, two at a time: HiGHS releases the interpreter's lock. With a separate solver process they are solved one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from clash.plan.options import BOUND_SOURCES, BoundSource
from clash.planner.bound_rows import add_broadcast_rows, add_isolated_rows
from clash.planner.compact_program import CompactProgram
from clash.planner.components import components
from clash.planner.deadline import Deadline
from clash.planner.graph import Graph
from clash.planner.heuristic import HeuristicSearch
from clash.planner.integer_program import TOLERANCE
from clash.planner.isolated_bounds import IsolatedBounds
from clash.planner.large_sets import MIN_ARCS, IsolatedBound, LargeSetSearch
from clash.planner.lattice import Target
from clash.planner.published_program import PublishedProgram
from clash.planner.search_space import Options, SearchSpace
from clash.planner.solution import Solution, finish
from clash.planner.unplaced_bound import unplaced_bound

HEURISTIC_SHARE = 0.4  # of the time that is left, at most; the solver has the rest
MAX_ISOLATED_RELATIONS = 6  # a larger query's own optimum takes longer to prove than it helps
SECONDS_PER_ARC = 30e-6  # what setting up the program takes, roughly: without that much time it is not begun
MAX_ARCS = 60_000  # with more, the program cannot even be set up within a usual time limit: the heuristic's plan is the answer


@dataclass(frozen=True)
class SolveResult:
    """The cheapest plan found for a search space, and what is proven about it."""

    solution: Solution
    bound: float
    """It holds for all plans of the graph; 0 where nothing was proven."""
    optimal: bool
    variables: int = 0
    """The size of the integer program; 0 where none was solved."""
    rows: int = 0
    bound_of_all: float = 0.0
    """It holds for all plans, whether the graph contains them or not."""
    bound_source: BoundSource = "floor"
    """Of `bound`; `bound_of_all` is that of a relaxation."""


def weakest_source(results: Iterable[SolveResult]) -> BoundSource:
    """The source of a bound that is a sum over these."""
    return max((result.bound_source for result in results), key=BOUND_SOURCES.index)


def solve(
    space: SearchSpace,
    options: Options,
    deadline: Deadline,
    start: Mapping[int, int] | None = None,
    floor: float = 0.0,
    heuristic_deadline: Deadline | None = None,
) -> SolveResult:
    """Plans for all targets of the space.

    `start`: node → arc of a plan to begin with. `floor`: a lower bound on the cost of any plan for all queries, known beforehand.
    `heuristic_deadline`: the heuristic's own, where that is not a share of the time.
    """
    graph = space.graph
    groups = sorted(components(graph, graph.lattice.targets), key=len)
    if len(groups) > 1:
        options = replace(options, on_progress=None)  # the cost of a group is not that of the plan
    isolated: list[IsolatedBounds] = []  # created when first needed, which large query sets never do

    def isolated_bound(target: Target, until: Deadline) -> float:
        too_large = graph.lattice.subs[target.sub].size > MAX_ISOLATED_RELATIONS
        if not target.complete or too_large or until.passed:
            return 0.0
        if not isolated:
            unrestricted = space.unrestricted(deadline)
            if unrestricted is None:
                return 0.0
            isolated.append(IsolatedBounds(unrestricted, until))
        return isolated[0].bound(target.sub)

    def solve_group(group: list[Target]) -> SolveResult:
        if options.formulation == "published":
            return _solve_published(graph, group, deadline, options)
        group_floor = floor if len(groups) == 1 else 0.0
        with ThreadPoolExecutor(1) as pool:
            unplaced = pool.submit(_unplaced_bound, space, group, deadline, options)
            result = _solve_compact(graph, group, isolated_bound, deadline, options, start or {}, group_floor, heuristic_deadline)
            return replace(result, bound_of_all=min(unplaced.result(), result.solution.cost))

    # Threads help only where HiGHS runs in this process: a SolverProcess solves one program at a time, and past the deadline none runs.
    if options.solver is not None or deadline.passed:
        results = list(map(solve_group, groups))
    else:
        with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            results = list(pool.map(solve_group, groups))
    into = {node: at for result in results for node, at in result.solution.into.items()}
    layouts = {} if graph.model.free_copies else {s: chosen for result in results for s, chosen in result.solution.layouts.items()}
    solution = finish(graph, graph.all_goals(), into, layouts)
    bound = min(solution.cost, sum(result.bound for result in results))
    optimal = all(result.optimal for result in results)
    bound_of_all = min(solution.cost, sum(result.bound_of_all for result in results))
    variables, rows = sum(result.variables for result in results), sum(result.rows for result in results)
    return SolveResult(solution, bound, optimal, variables, rows, bound_of_all, weakest_source(results))


def _moves(targets: int, largest: int, full: bool) -> int:
    """How many moves the heuristic makes: a fixed number, so that its answer is deterministic. `largest`: relations of a query."""
    if targets == 1:
        return 12 if full or largest > 3 else 0
    return targets * (40 if full else {1: 0, 2: 0, 3: 2, 4: 8}.get(largest, 24))


def _count_arcs(graph: Graph, targets: list[Target]) -> int:
    return sum(len(graph.into[node]) for target in targets for part in graph.parts(target) for node in graph.nodes_of(part))


def _unplaced_bound(space: SearchSpace, targets: list[Target], deadline: Deadline, options: Options) -> float:
    """What is proven without the compact program, where that is too large or not complete; 0 where it is neither, or where nothing is."""
    graph = space.graph
    is_small = space.complete and _count_arcs(graph, targets) <= MAX_ARCS
    is_whole = len(targets) == len(graph.lattice.targets)
    if not graph.model.full or is_small or not is_whole or options.solver is not None or deadline.passed:
        return 0.0
    unplaced = space.unplaced(deadline)
    return 0.0 if unplaced is None else unplaced_bound(graph, unplaced, deadline)


def _solve_compact(
    graph: Graph,
    targets: list[Target],
    isolated_bound: IsolatedBound,
    deadline: Deadline,
    options: Options,
    start: Mapping[int, int],
    floor: float,
    heuristic_deadline: Deadline | None,
) -> SolveResult:
    """The heuristic's plan, and then, unless that is proven to be good enough, the compact program with this plan as its start."""
    largest = max(graph.lattice.subs[target.sub].size for target in targets)
    moves = _moves(len(targets), largest, graph.model.full)
    search = HeuristicSearch(graph, targets)
    arcs = _count_arcs(graph, targets)
    affordable = arcs <= MAX_ARCS and deadline.left > SECONDS_PER_ARC * arcs
    if options.solver is None and arcs >= MIN_ARCS and affordable:
        large = LargeSetSearch(graph, targets, CompactProgram(graph, targets), search, options, deadline)
        solution = large.run(isolated_bound, moves, start)
        return _result(solution, max(large.bound, floor), large.program.milp.size, large.bound_source if large.bound > floor else "floor")
    # While a stream runs, `start` is a plan of the heuristic already, and only the solver's process leaves the processor to others.
    until = heuristic_deadline or (deadline.share(HEURISTIC_SHARE) if affordable else deadline)
    heuristic = search.run(moves, until, start)
    if heuristic.cost <= floor * (1 + max(options.gap, 1e-9)):
        return _result(heuristic, floor, (0, 0), "floor")
    if deadline.left <= SECONDS_PER_ARC * arcs or arcs > MAX_ARCS:
        return SolveResult(heuristic, 0.0, False)
    bounds = {} if graph.model.full or options.solver else {target.sub: isolated_bound(target, deadline) for target in targets}
    if len(targets) == 1 and heuristic.cost * (1 - TOLERANCE) <= bounds.get(targets[0].sub, -1.0):
        return _result(heuristic, bounds[targets[0].sub], (0, 0), "isolated queries")
    program = CompactProgram(graph, targets)
    if bounds:
        add_isolated_rows(program, bounds)
        add_broadcast_rows(program)
    # Under `probe` the heuristic's plan is usually the optimum, so the solver spends its time on the proof.
    effort = {} if graph.model.full else {"mip_heuristic_effort": 0.0}
    result = program.milp.solve(deadline.left, program.vector(heuristic), options.gap, effort, options.solver)
    solution = heuristic
    if result.values is not None and result.cost + program.constant < heuristic.cost - 1e-9:
        solution = min(heuristic, program.read(result.values), key=lambda s: s.cost)
    return _result(solution, result.bound + program.constant, program.milp.size)


def _solve_published(graph: Graph, targets: list[Target], deadline: Deadline, options: Options) -> SolveResult:
    """As in the paper, without a start; the heuristic's plan is the answer where the solver finds none as good in time."""
    program = PublishedProgram(graph, targets, deadline)
    result = program.milp.solve(deadline.left, gap=options.gap, solver=options.solver)
    solution = HeuristicSearch(graph, targets).run(0, deadline)
    if result.values is not None:
        solution = min(solution, program.read(result.values), key=lambda s: s.cost)
    return _result(solution, result.bound, program.milp.size)


def _result(solution: Solution, bound: float, size: tuple[int, int], source: BoundSource = "solver") -> SolveResult:
    """Optimal means proven, up to the solver's tolerance; a plan that only meets the requested gap is not."""
    return SolveResult(solution, max(0.0, min(bound, solution.cost)), bound >= solution.cost * (1 - TOLERANCE), *size, bound_source=source)
