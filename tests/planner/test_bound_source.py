"""A plan says where its bound comes from."""

from __future__ import annotations

from typing import Any

import pytest

import clash

QUERIES = {"q1": "R(a), S(a,b), T(b)", "q2": "S(b), T(b,c), U(c)"}
STATISTICS = clash.Statistics(rates={"R": 5e5, "S": 3e5, "T": 2e5, "U": 9e5}, default_selectivity=1e-5)


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({}, "solver"),
        ({"time_limit": 0.0}, "floor"),
        ({"strategy": "independent"}, "solver"),
        ({"strategy": "shared"}, "isolated queries"),
    ],
)
def test_by_strategy_and_time(options: dict[str, Any], source: str) -> None:
    plan = clash.optimize(QUERIES, STATISTICS, **options)
    assert plan.bound_source == source


def test_the_bound_of_a_large_set_is_that_of_the_relaxation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clash.planner.solve.MIN_ARCS", 0)
    monkeypatch.setattr("clash.planner.large_sets.MAX_VARIABLES_OF_MIP", 0)
    plan = clash.optimize(QUERIES, STATISTICS, time_limit=2.0)
    assert plan.bound_source == "relaxation"
    assert 0 < plan.bound <= plan.cost
    if not plan.optimal:
        assert "the bound is that of the linear relaxation" in plan.explain(compare=False)


def test_it_is_shown_unless_the_plan_is_proven() -> None:
    assert "the bound is what every plan pays" in clash.optimize(QUERIES, STATISTICS, time_limit=0.0).explain(compare=False)
    assert "the bound is" not in clash.optimize(QUERIES, STATISTICS).explain(compare=False)
