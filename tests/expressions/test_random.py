"""Random expressions over random rows, against the row-at-a-time evaluator and against DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from clash.expressions import arrow_type, evaluate, holds
from clash.model.expressions import Call, Col, Lit
from clash.model.relation import Relation
from clash.sql.functions import typed

from ..sql.evaluate import value

_R = Relation("R")
_COLUMNS = {"a": "bigint", "b": "int", "s": "string", "u": "string", "p": "boolean"}
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-3, 3),
            "b": st.none() | st.integers(-3, 3),
            "s": st.none() | st.sampled_from(["", "a", "ab", "bä", "a%"]),
            "u": st.none() | st.sampled_from(["", "a", "ab", "bä", "a%"]),
            "p": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=8,
)


def _col(name: str) -> Col:
    return Col(_R, name, _COLUMNS[name])


@st.composite
def _number(draw: st.DrawFn, depth: int) -> Any:
    kind = draw(st.integers(0, 9 if depth else 1))
    if kind <= 1:
        return _col(draw(st.sampled_from("ab"))) if kind else Lit(draw(st.integers(-3, 3)), "int")
    first, second = draw(_number(depth - 1)), draw(_number(depth - 1))
    if kind == 2:
        return typed("neg", (first,))
    if kind == 3:
        return typed("abs", (first,))
    if kind == 4:
        return typed("case", (draw(_condition(depth - 1)), first, second))
    if kind == 5:
        return typed("length", (draw(_text(depth - 1)),))
    return typed(("+", "-", "*", "coalesce", "greatest", "least")[draw(st.integers(0, 5))], (first, second))


@st.composite
def _text(draw: st.DrawFn, depth: int) -> Any:
    kind = draw(st.integers(0, 4 if depth else 1))
    if kind <= 1:
        return _col(draw(st.sampled_from("su"))) if kind else Lit(draw(st.sampled_from(["", "a", "b%"])), "string")
    first = draw(_text(depth - 1))
    if kind == 2:
        return typed("concat", (first, draw(_text(depth - 1))))
    if kind == 3:
        return typed("substring", (first, Lit(draw(st.integers(1, 3)), "int"), Lit(draw(st.integers(0, 3)), "int")))
    return typed(draw(st.sampled_from(["lower", "upper", "trim"])), (first,))


@st.composite
def _condition(draw: st.DrawFn, depth: int) -> Any:
    kind = draw(st.integers(0, 6 if depth else 1))
    if kind == 0:
        return _col("p")
    if kind <= 2:
        operand = draw(st.sampled_from([_number, _text]))
        op = draw(st.sampled_from(["=", "<>", "<", "<=", "<=>"]))
        return typed(op, (draw(operand(max(0, depth - 1))), draw(operand(max(0, depth - 1)))))
    if kind == 3:
        return typed("not", (draw(_condition(depth - 1)),))
    if kind == 4:
        return typed(draw(st.sampled_from(["isnull", "isnotnull"])), (draw(_number(depth - 1)),))
    if kind == 5:
        choices = draw(st.lists(st.integers(-3, 3), min_size=1, max_size=3))
        return typed("in", (draw(_number(depth - 1)), *(Lit(choice, "int") for choice in choices)))
    parts = draw(st.lists(_condition(depth - 1), min_size=1, max_size=3))
    return typed(draw(st.sampled_from(["and", "or"])), tuple(parts))


def _source(rows: Sequence[dict[str, Any]]) -> Any:
    arrays = {name: pa.array([row[name] for row in rows], arrow_type(kind)) for name, kind in _COLUMNS.items()}
    return lambda col: arrays[col.column]


@given(st.one_of(_number(3), _text(3), _condition(3)), _rows)
def test_as_row_by_row(expr: Any, rows: list[dict[str, Any]]) -> None:
    assert evaluate(expr, _source(rows), len(rows), "UTC").to_pylist() == [value(expr, {_R: row}) for row in rows]


@given(st.lists(_condition(2), min_size=1, max_size=4), _rows)
def test_holds_as_row_by_row(exprs: list[Any], rows: list[dict[str, Any]]) -> None:
    found = holds(exprs, _source(rows), len(rows), "UTC")
    assert found is not None
    assert found.tolist() == [all(value(expr, {_R: row}) is True for expr in exprs) for row in rows]


_doubles = st.lists(st.floats(width=64), min_size=1, max_size=20)


@given(_doubles, _doubles)
def test_doubles_compare_as_in_duckdb(left: list[float], right: list[float]) -> None:
    """DuckDB too has NaN as the largest number, equal to itself."""
    rows = min(len(left), len(right))
    data = pa.table({"x": left[:rows], "y": right[:rows]})
    pairs = tuple(Col(_R, name, "double") for name in "xy")
    for op in ("=", "<>", "<", "<="):
        found = evaluate(typed(op, pairs), lambda col: data.column(col.column).combine_chunks(), rows, "UTC")
        theirs = duckdb.sql(f"SELECT x {op} y FROM data").fetchall()
        assert found.to_pylist() == [row[0] for row in theirs]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20), st.integers(-5, 20))
def test_rounding_goes_by_the_digits(values: list[float], places: int) -> None:
    col = Col(_R, "x", "double")
    found = evaluate(typed("round", (col, Lit(places, "int"))), lambda _: pa.array(values), len(values), "UTC").to_pylist()
    with localcontext(prec=400):
        assert found == [float(Decimal(repr(v)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)) for v in values]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20), st.integers(0, 18))
def test_doubles_become_decimals_by_their_digits(values: list[float], places: int) -> None:
    call = Call("cast", (Col(_R, "x", "double"),), f"decimal(38,{places})")
    found = evaluate(call, lambda _: pa.array(values), len(values), "UTC").to_pylist()
    with localcontext(prec=400):
        assert found == [Decimal(repr(v)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP) for v in values]


@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_doubles_survive_a_round_trip_through_text(values: list[float]) -> None:
    text = Call("cast", (Col(_R, "x", "double"),), "string")
    back = Call("cast", (text,), "double")
    found = evaluate(back, lambda _: pa.array(values), len(values), "UTC").to_pylist()
    assert list(map(repr, found)) == list(map(repr, values))


_decimals = st.tuples(st.decimals(-(10**10), 10**10, places=4), st.decimals(-(10**10), 10**10, places=2))


@given(st.lists(_decimals, min_size=1, max_size=10))
def test_decimals(pairs: list[tuple[Decimal, Decimal]]) -> None:
    pairs = [(a, b or Decimal(1)) for a, b in pairs]
    data = {"a": pa.array([a for a, _ in pairs], pa.decimal128(20, 4)), "b": pa.array([b for _, b in pairs], pa.decimal128(15, 2))}
    cols = Col(_R, "a", "decimal(20,4)"), Col(_R, "b", "decimal(15,2)")
    with localcontext(prec=200):
        for op, exact in _EXACT.items():
            call = typed(op, cols)
            unit = Decimal(1).scaleb(-arrow_type(call.type).scale)
            found = evaluate(call, lambda col: data[col.column], len(pairs), "UTC").to_pylist()
            assert found == [exact(a, b).quantize(unit, ROUND_HALF_UP) for a, b in pairs]


_EXACT: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,  # Python's decimals too have the sign of the dividend
}
