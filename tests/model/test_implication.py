"""Filters that imply each other, against all values of a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.implication import MAX_VALUES, hull, implies
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.sql import parse_query

X = Col(Relation("R"), "x", "int")
VALUES = [None, *range(-1, 8)]
STREAM = Stream.of(
    "R", {"a": "int", "x": "int", "d": "double", "s": "string", "f": "float", "ts": "timestamp"}, time="ts", window="1 minute"
)
STREAMS = {"R": STREAM, "S": Stream.of("S", {"a": "int", "y": "int"}, window="1 minute")}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b}


@st.composite
def restrictions(draw: st.DrawFn) -> Expr:
    number = st.integers(0, 6).map(lambda value: Lit(value, "int"))
    kind = draw(st.sampled_from(["=", "in", "<", "<=", "<>"]))
    if kind in ("=", "<>"):
        return Call(kind, (X, draw(number)), "boolean")
    if kind == "in":
        return Call(kind, (X, *draw(st.lists(number, min_size=2, max_size=4, unique=True))), "boolean")
    return Call(kind, tuple(draw(st.permutations([X, draw(number)]))), "boolean")


def allowed(filters: Any) -> set[int]:
    return {value for value in VALUES if value is not None and all(is_true(expr, value) for expr in filters)}


def is_true(expr: Expr, value: int) -> bool:
    assert isinstance(expr, Call)
    left, *others = (value if isinstance(arg, Col) else arg.value for arg in expr.args if isinstance(arg, Col | Lit))
    if expr.op in COMPARE:
        return COMPARE[expr.op](left, others[0])
    return left not in others if expr.op == "<>" else left in others


@given(st.lists(restrictions(), max_size=3), restrictions())
def test_what_is_implied_holds(filters: list[Expr], other: Expr) -> None:
    if implies(filters, other):
        assert allowed(filters) <= allowed([other])


@given(st.lists(st.lists(restrictions(), max_size=3), min_size=1, max_size=4))
def test_each_set_implies_the_hull(sets: list[list[Expr]]) -> None:
    found = hull(sets)
    for filters in sets:
        assert all(implies(filters, expr) for expr in found)
        assert allowed(filters) <= allowed(found)


def query(where: str, hint: str = "") -> Query:
    return parse_query("q", f"SELECT {hint} R.s FROM R JOIN S ON R.a = S.a WHERE {where}", STREAMS)


@pytest.mark.parametrize(
    ("strict", "weak"),
    [
        ("R.x = 3", "R.x IN (2, 3)"),
        ("R.x = 3", "R.x > 2"),
        ("R.x BETWEEN 3 AND 5", "R.x >= 3"),
        ("R.x > 3", "R.x IS NOT NULL"),
        ("R.s = 'b'", "R.s < 'c'"),
        ("R.d > 2.5", "R.d > 2"),
        ("R.x > 3 AND R.x < S.y", "R.x > 2"),
    ],
)
def test_a_stricter_query_refines_a_weaker_one(strict: str, weak: str) -> None:
    assert query(strict).refines(query(weak).join)
    assert not query(weak).refines(query(strict).join)


@pytest.mark.parametrize(
    ("strict", "weak"),
    [
        ("R.f > 3.5", "R.f > 3"),  # comparisons with a float round
        ("R.x + 1 = 3", "R.x + 1 < 4"),  # no plain column
        ("R.x <> 3", "R.x <> 3 AND R.x <> 4"),
        ("R.x = 3", "R.x = 3 AND R.x < S.y"),
    ],
)
def test_what_is_not_known_to_be_implied(strict: str, weak: str) -> None:
    assert not query(strict).refines(query(weak).join)


def test_windows_contain_each_other() -> None:
    long, short = query("R.x = 1"), query("R.x = 1", "/*+ WINDOW(R, '5 seconds') */")
    assert short.refines(long.join)
    assert not long.refines(short.join)
    assert short.shorter_windows(long.join) == {Relation("R"): 5_000_000}
    assert long.shorter_windows(long.join) == {}


def test_what_is_checked_on_top() -> None:
    weak, strict = query("R.x > 1"), query("R.x > 4 AND R.x < S.y")
    assert strict.beyond(weak.join) == strict.join.filters | strict.join.residuals
    assert weak.beyond(weak.join) == frozenset()


def test_a_long_list_becomes_a_range() -> None:
    many = [[Call("=", (X, Lit(value, "int")), "boolean")] for value in range(MAX_VALUES + 1)]
    low, high = Call("<=", (Lit(0, "int"), X), "boolean"), Call("<=", (X, Lit(MAX_VALUES, "int")), "boolean")
    assert hull(many) == frozenset({low, high})
    assert len(next(iter(hull(many[1:]))).args) == MAX_VALUES + 1  # type: ignore[union-attr]
