"""Large sets: the guided search finds valid plans, its bound holds, and every run gives the same answer."""

from __future__ import annotations

import math

import pytest

import clash
from clash.optimizer import Plan, validate
from clash.planner.large_sets import LargeSetSearch

from .sets import chains


@pytest.fixture
def every_set_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clash.planner.solve.MIN_ARCS", 0)
    monkeypatch.setattr("clash.planner.large_sets.TOLERANCES", (1e-1, 1e-2, 1e-3))


def plan(seed: int, cost: str, layouts: str, **options: float) -> Plan:
    texts, statistics = chains(seed, 5, (2, 3) if cost == "full" else (2, 4), streams=6)
    return clash.optimize(texts, statistics, cost=cost, layouts=layouts, workers=3, time_limit=60.0, **options)  # type: ignore[arg-type]


@pytest.mark.usefixtures("every_set_is_large")
@pytest.mark.parametrize(("cost", "layouts"), [("probe", "one"), ("probe", "many"), ("full", "one")])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_optimum_as_for_small_sets(seed: int, cost: str, layouts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large = plan(seed, cost, layouts)
    monkeypatch.undo()
    small = plan(seed, cost, layouts)
    validate(large)
    assert large.optimal
    assert large.cost == pytest.approx(small.cost, rel=1e-6)


@pytest.mark.usefixtures("every_set_is_large")
def test_the_relaxation_bounds_the_optimum_without_the_integer_program(monkeypatch: pytest.MonkeyPatch) -> None:
    optimum = plan(3, "probe", "one").cost
    monkeypatch.setattr("clash.planner.large_sets.MAX_VARIABLES_OF_MIP", 0)
    found = plan(3, "probe", "one", gap=0.2)
    validate(found)
    assert found.bound <= optimum * (1 + 1e-9)
    assert found.bound >= 0.8 * found.cost
    again = plan(3, "probe", "one", gap=0.2)
    assert (again.probe_orders, again.stores, again.bound) == (found.probe_orders, found.stores, found.bound)


@pytest.mark.usefixtures("every_set_is_large")
def test_a_relaxation_that_does_not_converge_leaves_a_valid_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LargeSetSearch, "_relax", lambda self, tolerance: None)
    found = plan(1, "probe", "one")
    validate(found)
    assert math.isfinite(found.cost)
    assert found.optimal  # by the integer program
