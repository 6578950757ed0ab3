"""Large query sets: a bound from the linear relaxation, and a search that its solution guides.

The integer program of a large set cannot be solved; the simplex method does not even finish its root. A first-order method finds nearly
optimal duals in seconds, and any duals give a proven bound (`dual_bound`). Its values guide the heuristic (`guidance`). Both run side by
side: the solver on one core, without the interpreter's lock, the search on another. While a stream runs, the search would take that lock
from it, so sets are not treated as large there.

What is found is the same every time, unless the time limit ends it: every stage waits for the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from clash.plan.options import BoundSource
from clash.planner.bound_rows import add_broadcast_rows, add_isolated_rows
from clash.planner.compact_program import CompactProgram
from clash.planner.deadline import Deadline
from clash.planner.graph import Graph
from clash.planner.guidance import Guide, guide
from clash.planner.heuristic import HeuristicSearch
from clash.planner.integer_program import TOLERANCE, FirstOrderMethod, MilpResult, Relaxation
from clash.planner.lattice import Target
from clash.planner.search_space import Options
from clash.planner.solution import Solution

MIN_ARCS = 3_000  # programs of smaller sets are solved as they are
MAX_VARIABLES_OF_MIP = 60_000  # with more, the solver does not leave the root within a usual time limit
TOLERANCES = (1e-2, 1e-3, 1e-4)  # of the relaxation, in turn: the first comes soon, the last is within 0.1 % of its optimum
RELAXATION_SHARE = 0.4  # of the time that is left, at most, for one tolerance
ISOLATED_SHARE = 0.15  # of the time, at most, for what single queries cost
RESERVED_SECONDS = 0.05  # the solver ends that much before the deadline, which it looks at now and then
IsolatedBound = Callable[[Target, Deadline], float]  # a target and a deadline → what it costs alone, at least


class LargeSetSearch:
    """The cheapest plan found so far, and the best bound proven so far."""

    def __init__(
        self, graph: Graph, targets: list[Target], program: CompactProgram, search: HeuristicSearch, options: Options, deadline: Deadline
    ) -> None:
        self.graph, self.targets, self.program, self.search = graph, targets, program, search
        self.options, self.deadline = options, deadline.earlier(RESERVED_SECONDS)
        self.best = Solution({}, {}, math.inf, 0)
        self.bound = 0.0
        self.bound_source: BoundSource = "relaxation"
        # The first is faster. It does not always converge where layouts are free: there the other one takes a fraction of a second.
        self._methods: list[FirstOrderMethod] = ["pdlp"] if graph.model.free_copies else ["hipdlp", "pdlp"]

    def run(self, isolated: IsolatedBound, moves: int, start: Mapping[int, int]) -> Solution:
        """Improves plan and bound until the gap is met, the plan is proven, or the deadline.

        `moves`: of one run of the heuristic. `start`: node → arc of a plan to begin with.
        """
        if not self.graph.model.full:
            add_broadcast_rows(self.program)
        # Where copies are free, the relaxation is nearly tight and the integer program soon proves more: it begins after two of them.
        tolerances = list(TOLERANCES[:2] if self.graph.model.free_copies else TOLERANCES)
        with ThreadPoolExecutor(1) as pool:
            relaxed = pool.submit(self._relax, tolerances.pop(0))
            bounds = {} if self.graph.model.full else self._isolated(isolated)
            self._keep(self.search.run(moves // 4, self.deadline, start))
            suggestion = self._take(relaxed)
            add_isolated_rows(self.program, bounds)
            moves = max(1, moves // 4)
            while suggestion is not None and not self._is_done():
                next_relaxed = pool.submit(self._relax, tolerances.pop(0)) if tolerances else None
                self._keep(self.search.run_guided(suggestion, moves, self.deadline))
                moves *= 2
                if next_relaxed is None:
                    break
                suggestion = self._take(next_relaxed) or suggestion
            self._finish(pool, suggestion, moves)
        return self.best

    def _finish(self, pool: ThreadPoolExecutor, suggestion: Guide | None, moves: int) -> None:
        """The rest of the time: the integer program, and further guided searches beside it, each longer than the one before."""
        if self._is_done():
            return
        started = found = self.best
        mip = pool.submit(self._solve, started) if self.program.milp.size[0] <= MAX_VARIABLES_OF_MIP else None
        if suggestion is None:
            found = min(found, self.search.run(4 * moves, self.deadline, started.into), key=lambda s: s.cost)
        while suggestion is not None and not self._is_done() and not (mip is not None and mip.done()):
            until = self.deadline.within(1.0) if mip is not None else self.deadline
            found = min(found, self.search.run_guided(suggestion, moves, until), key=lambda s: s.cost)
            moves *= 2
        self._keep(found if mip is None else self._take_mip(mip.result(), started, found))

    def _isolated(self, isolated: IsolatedBound) -> dict[int, float]:
        until = self.deadline.share(ISOLATED_SHARE)
        return {target.sub: isolated(target, until) for target in self.targets}

    def _relax(self, tolerance: float) -> Relaxation | None:
        """By the faster method; if that does not converge within its share of the time, by the other, which is then used for good."""
        for method in list(self._methods):
            seconds = RELAXATION_SHARE * self.deadline.left
            if seconds > 0 and (relaxation := self.program.milp.relax(seconds, tolerance, method)) is not None:
                return relaxation
            self._methods = self._methods[-1:]
        return None

    def _take(self, relaxed: Future[Relaxation | None]) -> Guide | None:
        relaxation = relaxed.result()
        if relaxation is None:
            return None
        self._raise_bound(relaxation.bound, "relaxation")
        self._report()
        return guide(self.program, relaxation.values)

    def _solve(self, start: Solution) -> MilpResult:
        effort = {} if self.graph.model.full else {"mip_heuristic_effort": 0.0}
        return self.program.milp.solve(self.deadline.left, self.program.vector(start), self.options.gap, effort)

    def _take_mip(self, result: MilpResult, started: Solution, found: Solution) -> Solution:
        """The solver's plan; if the time limit cut it off, also the one that was found meanwhile."""
        self._raise_bound(result.bound, "solver")
        best = started
        if result.values is not None and result.cost + self.program.constant < started.cost - 1e-9:
            best = min(started, self.program.read(result.values), key=lambda s: s.cost)
        return best if self.bound >= best.cost * (1 - TOLERANCE) else min(best, found, key=lambda s: s.cost)

    def _raise_bound(self, proven: float, source: BoundSource) -> None:
        if proven + self.program.constant > self.bound:
            self.bound, self.bound_source = proven + self.program.constant, source

    def _keep(self, solution: Solution) -> None:
        if solution.cost < self.best.cost - 1e-9:
            self.best = solution
            self._report()

    def _report(self) -> None:
        if self.options.on_progress is not None and math.isfinite(self.best.cost):
            self.options.on_progress(self.best.cost, self.bound)

    def _is_done(self) -> bool:
        enough = self.best.cost * (1 - max(self.options.gap, TOLERANCE)) <= self.bound
        return enough or self.deadline.passed
