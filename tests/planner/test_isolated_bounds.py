"""Isolated bounds are no more than what a query costs without broadcasts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clash
from clash.planner.compact_program import CompactProgram
from clash.planner.cost_model import CostModel
from clash.planner.deadline import NEVER, Deadline
from clash.planner.isolated_bounds import IsolatedBounds
from clash.planner.lattice import Target
from clash.planner.search_space import Options, build_space
from clash.sql import parse_queries
from clash.sql.statistics_text import normal_statistics

from .sets import STREAMS, Job, jobs


def check(job: Job) -> None:
    parsed, used = parse_queries(job.queries, {s.name: s for s in STREAMS} if job.declared else None)
    options = Options(CostModel("probe", job.options["workers"], job.options["layouts"]), mirs=job.options["mirs"])
    space = build_space(parsed, normal_statistics(job.statistics, used), used, options)
    graph = space.unrestricted(NEVER)
    assert graph is not None
    isolated, late = IsolatedBounds(graph, NEVER), IsolatedBounds(graph, Deadline(0.0))
    for target in space.graph.lattice.targets:
        optimum = CompactProgram(graph, [Target.of_sub(target.sub)]).milp.solve(10.0).cost
        bound = isolated.bound(target.sub)
        assert 0.0 <= bound <= optimum * (1 + 1e-9) + 1e-9
        assert late.bound(target.sub) <= optimum * (1 + 1e-9) + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.one_of(*(jobs("probe", layouts, ((2,), (3,), (4,), (2, 3))) for layouts in ("one", "many"))))
def test_no_isolated_bound_is_more_than_the_optimum(job: Job) -> None:
    check(job)


def test_a_cross_join_does_not_count_as_a_broadcast() -> None:
    text = "SELECT x0.v FROM T x0 JOIN S x1 ON x0.b = x1.b CROSS JOIN U x2"
    parsed, used = parse_queries({"q": text}, {s.name: s for s in STREAMS})
    statistics = clash.Statistics(rates={"T": 1000, "U": 7.5, "S": 0}, selectivities={"S.b = T.b": 1.0})
    space = build_space(parsed, normal_statistics(statistics, used), used, Options(CostModel("probe", 2, "one")))
    graph = space.unrestricted(NEVER)
    assert graph is not None
    assert IsolatedBounds(graph, NEVER).bound(space.graph.lattice.targets[0].sub) == pytest.approx(1007.5)
