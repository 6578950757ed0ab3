"""From a search space to a plan with a proven bound: heuristic, then the integer program, component by component.

Every answer is the cheapest plan seen, whoever found it, and the bound is the solver's, never a guess. Components are solved
side by side (beside a stream one after the other), the small ones first; HiGHS runs outside the interpreter's lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from clash.planner.compact_program import Compact
from clash.planner.components import components
from clash.planner.graph import Graph
from clash.planner.isolated_bounds import Isolated
from clash.planner.lattice import Target
from clash.planner.integer_program import TOLERANCE
from clash.planner.published_program import Published
from clash.planner.heuristic import Search
from clash.planner.solution import Solution, finish
from clash.planner.search_space import Options, Space

HEURISTIC = 0.4  # of the time that is left, at most; the solver has the rest
LARGEST_ISOLATED = 6  # relations; a larger query's own optimum takes longer to prove than it helps
MOST_ARCS = 60_000  # beyond that the program cannot even be set up in a usual time limit: the heuristic's plan is the answer


@dataclass(frozen=True)
class Found:
    """`bound` holds for all plans of the graph; it is 0 where nothing was proven."""

    solution: Solution
    bound: float
    optimal: bool
    variables: int
    rows: int


def solve(
    space: Space, options: Options, deadline: float, start: Mapping[int, int] | None = None, least: float = 0.0, at_least: float = 0.0
) -> Found:
    """`least`: what any plan for all queries costs, known beforehand. `at_least`: seconds for the heuristic, even past the deadline."""
    graph = space.graph
    groups = sorted(components(graph, graph.lattice.targets), key=len)
    isolated: list[Isolated] = []  # made when first needed: large sets never get there

    def bound(target: Target) -> float:
        if not target.complete or graph.lattice.subs[target.sub].size > LARGEST_ISOLATED:
            return 0.0
        if not isolated:
            isolated.append(Isolated(space.plain, deadline))
        return isolated[0].bound(target.sub)

    def one(group: list[Target]) -> Found:
        if options.formulation == "published":
            return _published(graph, group, deadline, options)
        return _compact(graph, group, bound, deadline, options, start or {}, least if len(groups) == 1 else 0.0, at_least)

    if options.aside is not None or time.perf_counter() >= deadline:  # one process aside, or nothing that leaves the interpreter's lock
        found = list(map(one, groups))
    else:
        with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            found = list(pool.map(one, groups))
    into = {node: at for part in found for node, at in part.solution.into.items()}
    layouts = {} if graph.model.free_copies else {s: chosen for part in found for s, chosen in part.solution.layouts.items()}
    goals = [goal for target in graph.lattice.targets for goal in graph.goals(target)]
    solution = finish(graph, goals, into, layouts)
    proven = min(solution.cost, sum(part.bound for part in found))
    return Found(solution, proven, all(p.optimal for p in found), sum(p.variables for p in found), sum(p.rows for p in found))


def _moves(targets: int, largest: int, full: bool) -> int:
    """How long the heuristic searches: a fixed number of moves, so that its answer is the same every time."""
    if targets == 1:
        return 12 if full or largest > 3 else 0
    return targets * (40 if full else {1: 0, 2: 0, 3: 2, 4: 8}.get(largest, 24))


def _compact(
    graph: Graph,
    targets: list[Target],
    isolated: Callable[[Target], float],
    deadline: float,
    options: Options,
    start: Mapping[int, int],
    least: float,
    at_least: float,
) -> Found:
    largest = max(graph.lattice.subs[target.sub].size for target in targets)
    now = time.perf_counter()
    # beside a stream the plan to start from is the heuristic's, and only the solver leaves the processor to others
    until = now + max(at_least, 0.0 if options.aside else HEURISTIC * (deadline - now))
    heuristic = Search(graph, targets).run(_moves(len(targets), largest, graph.model.full), until, start)
    if heuristic.cost <= least * (1 + max(options.gap, 1e-9)):
        return _found(heuristic, least, (0, 0))
    arcs = sum(len(graph.into[node]) for target in targets for part in graph.parts(target) for node in graph.nodes_of(part))
    if time.perf_counter() >= deadline or arcs > MOST_ARCS:
        return Found(heuristic, 0.0, False, 0, 0)
    bounds = {} if graph.model.full or options.aside else {target.sub: isolated(target) for target in targets}
    if len(targets) == 1 and heuristic.cost <= bounds.get(targets[0].sub, -1.0) * (1 + 1e-9):
        return Found(heuristic, heuristic.cost, True, 0, 0)
    compact = Compact(graph, targets, bounds)
    size = (len(compact.milp.costs), len(compact.milp.low))
    effort = {} if graph.model.full else {"mip_heuristic_effort": 0.0}  # under `probe` the heuristic's plan is good enough to prove
    answer = compact.milp.solve(deadline - time.perf_counter(), compact.vector(heuristic), options.gap, effort, options.aside)
    solution = heuristic
    if answer.values is not None and answer.cost + compact.constant < heuristic.cost - 1e-9:
        solution = min(heuristic, compact.read(answer.values), key=lambda s: s.cost)
    return _found(solution, answer.bound + compact.constant, size)


def _published(graph: Graph, targets: list[Target], deadline: float, options: Options) -> Found:
    """As the paper has it, without a start; the heuristic's plan is the answer where the solver finds none as good in time."""
    published = Published(graph, targets, deadline)
    size = (len(published.milp.costs), len(published.milp.low))
    answer = published.milp.solve(deadline - time.perf_counter(), gap=options.gap, aside=options.aside)
    solution = Search(graph, targets).run(0, deadline)
    if answer.values is not None:
        solution = min(solution, published.read(answer.values), key=lambda s: s.cost)
    return _found(solution, answer.bound, size)


def _found(solution: Solution, bound: float, size: tuple[int, int]) -> Found:
    """Optimal means proven, up to the solver's tolerance; what only meets the gap asked for is not."""
    return Found(solution, max(0.0, min(bound, solution.cost)), bound >= solution.cost * (1 - TOLERANCE), *size)
