"""Options outside their range are refused by name, with the values that are allowed."""

from __future__ import annotations

import math
from typing import Any

import pytest

import clash
from clash.errors import OptionError
from clash.model.stream import Stream
from clash.optimizer import validate

QUERIES = {"q1": "R(a), S(a,b), T(b)"}
R = clash.Stream.of("R", {"a": "bigint"})


def refused(**options: Any) -> OptionError:
    with pytest.raises(OptionError) as error:
        clash.optimize(**{"queries": QUERIES, **options})
    found = error.value
    assert found.what
    assert found.hint
    assert found.what[0] == found.what[0].lower()
    assert str(found).startswith(found.what)
    assert f"hint: {found.hint}" in str(found)
    return found


@pytest.mark.parametrize("workers", [0, -1, True, False, 1.5, 2.0, "4", None, 10_001, math.nan, 10**30])
def test_workers(workers: object) -> None:
    found = refused(workers=workers)
    assert (found.what, found.detail) == ("the number of workers is out of range", repr(workers))
    assert "1 to 10,000" in found.hint


@pytest.mark.parametrize(
    ("option", "what", "allowed"),
    [
        ("strategy", "unknown strategy", "independent, shared, global"),
        ("formulation", "unknown formulation", "published, compact"),
        ("cost", "unknown cost model", "probe, full"),
        ("layouts", "unknown layouts", "one, many"),
    ],
)
@pytest.mark.parametrize("value", ["", "Global", "all", None, 1, ["one"]])
def test_names(option: str, what: str, allowed: str, value: object) -> None:
    found = refused(**{option: value})
    assert (found.what, found.detail, found.hint) == (what, repr(value), f"write one of {allowed}")


@pytest.mark.parametrize("option", ["time_limit", "gap"])
@pytest.mark.parametrize("value", [-1, -0.001, math.nan, True, "1", None, -math.inf])
def test_numbers(option: str, value: object) -> None:
    found = refused(**{option: value})
    assert (found.what, found.detail) == (f"{option} is out of range", repr(value))


def test_a_gap_is_a_share() -> None:
    assert refused(gap=1.5).hint == "write a share, 0 to 1"
    assert refused(gap=math.inf).detail == "inf"


def test_unlimited_time_is_allowed() -> None:
    assert clash.optimize(QUERIES, time_limit=math.inf).optimal
    assert clash.optimize(QUERIES, time_limit=10).optimal


@pytest.mark.parametrize("statistics", [{"R": 100}, 5, "stats.json", [1]])
def test_statistics_of_another_type(statistics: object) -> None:
    found = refused(statistics=statistics)
    assert found.what == "statistics are not a clash.Statistics"
    assert found.detail == type(statistics).__name__


def test_streams() -> None:
    found = refused(streams=[R, R])
    assert (found.what, found.detail) == ("two streams of one name", "R")
    found = refused(streams=["R"])
    assert (found.what, found.detail) == ("not a stream", "'R'")


@pytest.mark.parametrize("queries", [{}, [], "R(a), S(a)", None, [("q", "R(a), S(a)")]])
def test_queries(queries: object) -> None:
    assert refused(queries=queries).what in ("there are no queries", "queries is a mapping")


@pytest.mark.parametrize("name", ["", "1q", "a b", "../x", "q" * 101, None, 5])
def test_query_names(name: object) -> None:
    assert refused(queries={name: "R(a), S(a)"}).what == "not a valid query name"


def test_windows_for_an_unknown_query() -> None:
    found = refused(windows={"q2": {"R": "5 seconds"}})
    assert (found.what, found.detail) == ("windows for an unknown query", "'q2'")


@pytest.mark.parametrize("start", [{}, "plan", 1])
def test_a_start_that_is_no_plan(start: object) -> None:
    assert "plan" in refused(start=start).what


def test_a_start_of_which_parts_do_not_fit() -> None:
    """Other queries, workers, cost models and layouts: what of the plan still exists is used, the rest is planned anew."""
    statistics = clash.Statistics(default_rate=100, default_selectivity=0.01)
    other = clash.optimize({"q9": "X(a), Y(a)", "q1": "R(a), S(a)"}, statistics, workers=2, cost="probe", layouts="many")
    alone = clash.optimize(QUERIES, statistics)
    assert clash.optimize(QUERIES, statistics, start=other).cost == pytest.approx(alone.cost)
    independent = clash.optimize(QUERIES, statistics, strategy="independent")
    assert clash.optimize(QUERIES, statistics, start=independent).cost == pytest.approx(alone.cost)
    assert clash.optimize(QUERIES, statistics, start=alone, workers=7, mirs=False, time_limit=0.0).workers == 7


def test_an_unknown_format() -> None:
    with pytest.raises(OptionError) as error:
        clash.optimize(QUERIES).explain("yaml")  # type: ignore[arg-type]
    assert (error.value.what, error.value.hint) == ("unknown format", "write text, json or dot")


def test_what_if_under_a_name_that_is_taken() -> None:
    with pytest.raises(OptionError) as error:
        clash.optimize(QUERIES).what_if("R(a), S(a)", "q1")
    assert error.value.detail == "'q1'"


@pytest.mark.parametrize("strategy", ["independent", "shared", "global"])
def test_a_crossed_relation_may_be_kept_by_arrival_in_one_query_alone(strategy: str) -> None:
    """Alone, q0 keeps S by arrival, a layout that the queries together do not have."""
    streams = [Stream.of("R", {"a": "int", "b": "int"}, window="5 seconds"), Stream.of("S", {"a": "int"}, window="5 seconds")]
    texts = {
        "q0": "SELECT x1.a FROM S x0 CROSS JOIN S x1 JOIN S x2 ON x2.a = x0.a",
        "q1": "SELECT x0.a FROM S x0 CROSS JOIN R x1 JOIN R x2 ON x2.a = x1.a AND x2.b = x1.b",
    }
    for rates in ({"R": 1000.0, "S": 10.0}, {"R": 10.0, "S": 1000.0}, {"R": 10.0, "S": 10.0}):
        statistics = clash.Statistics(rates=rates, default_selectivity=1e-5)
        plan = clash.optimize(
            texts,
            statistics,
            streams=streams,
            workers=5,
            strategy=strategy,
            cost="full",
            layouts="many",
            time_limit=0.0,  # type: ignore[arg-type]
        )
        validate(plan)


def test_a_start_with_several_layouts_is_no_plan_where_stores_may_have_one() -> None:
    texts = {"q1": "R(b), S(b,c), T(c)", "q2": "S(b,c), T(c,d), U(d)"}
    many = clash.optimize(texts, workers=5, cost="probe", layouts="many", mirs=False)
    assert any(len(store.layouts) > 1 for store in many.stores)
    one = clash.optimize(texts, workers=5, cost="probe", layouts="one", mirs=False)
    started = clash.optimize(texts, workers=5, cost="probe", layouts="one", mirs=False, start=many)
    assert all(len(store.layouts) == 1 for store in started.stores)
    assert started.cost == pytest.approx(one.cost)
