"""Queries that differ only in constants and windows: one plan for all of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import clash
from clash.optimizer import Plan, validate
from clash.planner.hulls import find_hulls
from clash.sql import parse_queries

STREAMS = [clash.Stream.of(s, {"a": "bigint", "b": "bigint", "x": "int", "ts": "timestamp"}, time="ts", window="1 minute") for s in "RST"]
BASE = "SELECT R.a, S.b, T.x FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b WHERE "
COUNT = 50
ONE = {"q0": BASE + "R.x > 10"}
RANGES = {f"q{i}": BASE + f"R.x > {10 + i}" for i in range(COUNT)}
WINDOWS = {f"q{i}": dict.fromkeys("RST", f"{60 - i} seconds") for i in range(COUNT)}
SETS = {
    "ranges": (RANGES, {}),
    "windows": (dict.fromkeys(RANGES, ONE["q0"]), WINDOWS),
    "both": (RANGES, WINDOWS),
    "constants": ({f"q{i}": BASE + f"R.x = {i}" for i in range(COUNT)}, {}),
}


def plan(queries: Mapping[str, str], windows: Mapping[str, Mapping[str, str]] = {}, **options: object) -> Plan:
    return clash.optimize(queries, streams=STREAMS, windows=windows, workers=4, **{"time_limit": 4.0, **options})  # type: ignore[arg-type]


def probes(made: Plan) -> set[tuple[object, ...]]:
    return {(order.origin, i, step.store) for order in made.probe_orders for i, step in enumerate(order.steps)}


@pytest.mark.parametrize("kind", SETS)
def test_fifty_queries_have_the_plan_of_one(kind: str) -> None:
    queries, windows = SETS[kind]
    one, many = plan(ONE), plan(queries, windows)
    validate(many)
    assert {store.key.stream for store in many.stores if store.key.join is None} == set("RST")
    assert len(many.stores) <= 4  # an intermediate result of the hull may pay
    assert len(probes(many)) <= len(probes(one))
    assert many.bound <= many.cost <= 1.5 * one.cost


def test_the_option_is_one_of_the_strategy_global_under_full_cost() -> None:
    queries, windows = SETS["both"]
    few = {name: queries[name] for name in ("q0", "q7", "q30")}
    few_windows = {name: windows[name] for name in few}
    assert any(order.hull for order in plan(few, few_windows).probe_orders)
    for options in ({"strategy": "independent"}, {"strategy": "shared"}, {"cost": "probe"}):
        assert not any(order.hull for order in plan(few, few_windows, **options).probe_orders)


def test_queries_go_their_own_ways_where_the_hull_is_too_large() -> None:
    statistics = clash.Statistics(
        default_rate=100_000,
        default_selectivity=1e-5,
        selectivities={f"<(R.x, {i})": 0.0001 for i in (1, 2)} | {f"<({i}, R.x)": 1e-4 for i in (8, 9)},
    )
    queries = {"low": BASE + "R.x < 1", "high": BASE + "R.x > 9"}
    made = clash.optimize(queries, statistics, streams=STREAMS, workers=1)
    assert made.optimal
    assert not any(order.hull for order in made.probe_orders if order.origin.stream == "R")


def test_a_plan_to_start_from_keeps_its_hulls() -> None:
    before = plan({"q0": RANGES["q0"], "q5": RANGES["q5"]})
    after = clash.optimize({"q5": RANGES["q5"], "q9": RANGES["q9"]}, streams=STREAMS, workers=4, time_limit=4.0, start=before)
    validate(after)
    assert after.bound <= after.cost


def test_hulls_have_no_condition_that_can_fail() -> None:
    texts = {f"q{i}": BASE + f"R.x > {i} AND R.x + S.x > 3" for i in range(2)}
    parsed = parse_queries(texts, {stream.name: stream for stream in STREAMS})[0]
    weaker = min(parsed, key=lambda query: query.name)
    assert [hull.join for hull in find_hulls(parsed)] == [weaker.join]  # another query's join is evaluated in any case
    apart = {f"q{i}": BASE + f"R.x = {i} AND R.x + S.x > 3" for i in range(2)}
    assert find_hulls(parse_queries(apart, {stream.name: stream for stream in STREAMS})[0]) == []


def test_explain_says_what_is_checked() -> None:
    text = plan({"q0": RANGES["q0"], "q5": RANGES["q5"]}, {"q5": {"R": "5 seconds"}}).explain()
    assert "of a weaker join, from R, S and T: checks R.x > 15, R within 5 seconds" in text
    assert "checking rows of weaker joins" in text


def test_no_bound_is_more_than_a_plan_over_hulls_costs() -> None:
    best = plan(RANGES, WINDOWS).cost
    for options in ({"strategy": "shared"}, {"time_limit": 0.02}, {"time_limit": 0.3}, {"time_limit": 0.0}):
        made = plan(RANGES, WINDOWS, **options)
        validate(made)
        assert made.bound <= best
