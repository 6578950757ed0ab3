"""The bound from the relaxation's duals never exceeds the optimum: for exact, loose, perturbed and random duals, under every model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from clash.planner.bound_rows import add_broadcast_rows, add_isolated_rows
from clash.planner.compact_program import CompactProgram
from clash.planner.cost_model import CostModel
from clash.planner.deadline import NEVER
from clash.planner.dual_bound import dual_bound
from clash.planner.heuristic import HeuristicSearch
from clash.planner.isolated_bounds import IsolatedBounds
from clash.planner.search_space import Options, build_space
from clash.planner.solver import LinearProgram, solve
from clash.planner.strategies import hulls_of
from clash.planner.unplaced_bound import unplaced_bound, unplaced_program
from clash.sql import parse_queries
from clash.sql.statistics_text import normal_statistics

from .sets import STREAMS, Job, jobs

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
SMALL = ((2,), (3,), (2, 2), (2, 3), (3, 3), (2, 3, 3))


def program_of(job: Job) -> CompactProgram:
    parsed, used = parse_queries(job.queries, {s.name: s for s in STREAMS} if job.declared else None)
    options = Options(CostModel(job.options["cost"], job.options["workers"], job.options["layouts"]), mirs=job.options["mirs"])
    space = build_space(parsed, normal_statistics(job.statistics, used), used, options, hulls=hulls_of(parsed, options, ()))
    program = CompactProgram(space.graph, space.graph.lattice.targets)
    if not options.model.full:
        unrestricted = space.unrestricted(NEVER)
        assert unrestricted is not None
        isolated = IsolatedBounds(unrestricted, NEVER)
        add_isolated_rows(program, {target.sub: isolated.bound(target.sub) for target in program.targets})
        add_broadcast_rows(program)
    return program


def check_plan_satisfies_rows(compact: CompactProgram, program: LinearProgram) -> None:
    """The heuristic's plan is a solution of the program, and costs the same there."""
    solution = HeuristicSearch(compact.graph, compact.targets).run(20, NEVER)
    values = np.array(compact.vector(solution))
    rows = np.repeat(np.arange(len(program.row_lower)), np.diff(program.row_starts))
    activity = np.bincount(rows, weights=program.coefficients * values[program.columns], minlength=len(program.row_lower))
    assert (activity >= program.row_lower - 1e-6).all()
    assert (activity <= program.row_upper + 1e-6).all()
    assert program.cost @ values / compact.milp.scale + compact.constant == pytest.approx(solution.cost, rel=1e-9, abs=1e-9)


def check_bounds(job: Job, seed: int, optimum: float) -> None:
    compact = program_of(job)
    milp, constant = compact.milp, compact.constant
    program = milp._program(relax=True)
    check_plan_satisfies_rows(compact, program)
    random = np.random.default_rng(seed)
    rows = len(program.row_lower)
    candidates = [random.normal(size=rows) * scale for scale in (0.0, 1.0, 1e3, 1e9)]
    for tolerance in (1e-1, 1e-3):
        for method in ("hipdlp", "pdlp"):
            found = solve(program, {"output_flag": False, "time_limit": 10.0, "solver": method, "pdlp_optimality_tolerance": tolerance})
            if len(found.duals):
                candidates += [found.duals, found.duals * random.normal(1.0, 0.1, rows), found.duals + random.normal(size=rows) * 100]
    slack = 1e-9 * optimum + 1e-9  # the optimum itself is a sum of rounded terms
    for duals in candidates:
        assert dual_bound(program, duals) / milp.scale + constant <= optimum + slack
    relaxed = solve(program, {"output_flag": False, "time_limit": 10.0})
    exact = dual_bound(program, relaxed.duals) / milp.scale
    assert exact == pytest.approx(relaxed.cost / milp.scale, rel=1e-4, abs=1e-4 * (1 + optimum))


def check_unplaced_bound(job: Job, optimum: float) -> None:
    """The bound without placements, by exact duals and by loose ones."""
    parsed, used = parse_queries(job.queries, {s.name: s for s in STREAMS} if job.declared else None)
    options = Options(CostModel(job.options["cost"], job.options["workers"], job.options["layouts"]), mirs=job.options["mirs"])
    hulls = hulls_of(parsed, options, ())
    space = build_space(parsed, normal_statistics(job.statistics, used), used, options, hulls=hulls)
    unplaced = space.unplaced(NEVER)
    if hulls:  # they may replace what the graph has of a query
        assert unplaced is None
        return
    assert unplaced is not None
    first_round = options.model.weights.round if options.model.workers > 1 else 0.0
    assert unplaced_program(unplaced).milp.relaxed(10.0) + first_round <= optimum * (1 + 1e-9) + 1e-9
    assert unplaced_bound(space.graph, unplaced, NEVER) <= optimum * (1 + 1e-9) + 1e-9
    part = build_space(parsed[:1], normal_statistics(job.statistics, used), used, options).unplaced(NEVER)
    assert part is not None
    assert unplaced_bound(space.graph, part, NEVER) <= optimum * (1 + 1e-9) + 1e-9


def check(job: Job, seed: int) -> None:
    plan = job.plan()
    assert plan.optimal
    check_bounds(job, seed, plan.cost)
    if job.options["cost"] == "full":
        check_unplaced_bound(job, plan.cost)


@settings(max_examples=30, phases=NO_SHRINKING, deadline=None)
@given(
    st.one_of(*(jobs(cost, layouts, SMALL) for cost in ("probe", "full") for layouts in ("one", "many"))),
    st.integers(0, 2**32),
)
def test_no_duals_give_more_than_the_optimum(job: Job, seed: int) -> None:
    check(job, seed)


@pytest.mark.slow
@settings(max_examples=2000, phases=NO_SHRINKING, deadline=None)
@given(
    st.one_of(*(jobs(cost, layouts, SMALL) for cost in ("probe", "full") for layouts in ("one", "many"))),
    st.integers(0, 2**32),
)
def test_no_duals_give_more_than_the_optimum_of_thousands_of_sets(job: Job, seed: int) -> None:
    check(job, seed)


def test_open_rows_and_duals_that_are_no_numbers() -> None:
    program = LinearProgram(
        cost=np.array([1.0, 2.0]), lower=np.zeros(2), upper=np.ones(2), integral=np.zeros(2, bool),
        row_lower=np.array([1.0]), row_upper=np.array([np.inf]), row_starts=np.array([0, 2], np.int32),
        columns=np.array([0, 1], np.int32), coefficients=np.ones(2), start=np.zeros(0),
    )  # fmt: skip
    assert dual_bound(program, np.array([1.0])) == pytest.approx(1.0)  # the optimum: the cheaper variable
    assert dual_bound(program, np.array([-5.0])) == pytest.approx(0.0)  # leans on the open side: counts as 0
    assert dual_bound(program, np.array([1.0])) < 1.0  # rounding errors are subtracted
    assert dual_bound(program, np.array([np.nan])) == -np.inf
