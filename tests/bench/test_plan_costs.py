"""The benchmark of the cost model: its arithmetic."""

from __future__ import annotations

import pytest

from clash_bench.plan_costs import PARTS, PlanCost, fit_weights

TRUE = {"send": 2e-6, "probe": 1e-6, "insert": 0.0, "memory": 3e-7}


def plan(number: int) -> PlanCost:
    """Parts that are not multiples of one another."""
    parts = {part: 1000.0 * ((number * factor) % 11 + 1) for part, factor in zip(PARTS, (1, 3, 5, 7), strict=True)}
    seconds = 0.5 + sum(TRUE[part] * value for part, value in parts.items())
    return PlanCost(5, 0.1, str(number), 0, 1, 0.0, **parts, cpu_seconds=seconds, worst_seconds=seconds, stored_rows=0)


def test_weights_are_found_again_and_are_never_negative() -> None:
    fitted = fit_weights([plan(number) for number in range(10)])
    assert fitted == pytest.approx({"send": 1.0, "probe": 0.5, "insert": 0.0, "memory": 0.15}, abs=1e-6)


def test_plans_that_cost_the_same_say_nothing_of_weights() -> None:
    fitted = fit_weights([plan(1), plan(1)])
    assert all(value >= 0 for value in fitted.values())
