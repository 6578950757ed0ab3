"""What holds for every expression: laziness, slices, constants, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from clash.errors import DataError, QueryError
from clash.expressions import arrow_type, evaluate, holds
from clash.model.expressions import Call, Col, Expr, Lit
from clash.sql.functions import FUNCTIONS, typed

from .cases import ALL
from .harness import EDGES, STREAM, answers, expression, plain, raising, same, table, without

_DATA = table(110, seed=3)


def _column(col: Col) -> pa.Array:
    return _DATA.column(col.column).combine_chunks()


def _small(**columns: list[Any]) -> pa.Table:
    return pa.table({name: pa.array(values, arrow_type(EDGES[name][0])) for name, values in columns.items()})


def _ops(expr: Expr) -> set[str]:
    return {expr.op}.union(*map(_ops, expr.args)) if isinstance(expr, Call) else set()


def test_every_function_has_a_case() -> None:
    seen = set().union(*(_ops(expression(text)) for texts in ALL.values() for text in texts))
    assert {*seen, ">", ">="} == set(FUNCTIONS)  # those two are swapped in the normal form


@pytest.mark.parametrize("family", list(ALL))
def test_slices_give_the_same_values(family: str) -> None:
    """Slices of columns, and rows without a NULL, take other paths through the kernels."""
    for text in ALL[family]:
        expr = expression(text)
        data = without(_DATA, raising(expr, _DATA, "Europe/Berlin"))
        whole = plain(answers(expr, data, "Europe/Berlin"))
        sliced = [value for begin in range(0, data.num_rows, 17) for value in plain(answers(expr, data.slice(begin, 17), "Europe/Berlin"))]
        assert len(sliced) == len(whole)
        assert all(map(same, whole, sliced)), text
        assert evaluate(expr, _column, 0, "UTC").type == arrow_type(expr.type)


def test_comparisons_the_other_way_round() -> None:
    x, y = (Col(expression("x").relation, name, "double") for name in "xy")  # type: ignore[union-attr]
    for op, turned in ((">", "<"), (">=", "<=")):
        assert answers(typed(op, (x, y)), _DATA).equals(answers(typed(turned, (y, x)), _DATA))


def test_a_guard_keeps_a_branch_from_raising() -> None:
    data = _small(i=[1, 2, 3, None], j=[0, 2, None, 0])
    with pytest.raises(DataError):
        answers(expression("i / j"), data)
    assert answers(expression("CASE WHEN j <> 0 THEN i / j ELSE -1.0D END"), data).to_pylist() == [-1.0, 1.0, -1.0, -1.0]
    assert answers(expression("coalesce(i, 1 % j)"), data.slice(0, 3)).to_pylist() == [1, 2, 3]
    assert answers(expression("i / j > 0 AND j <> 0"), data).to_pylist() == [False, True, None, False]
    assert answers(expression("i / j > 0 OR j = 0"), data).to_pylist() == [True, True, None, True]


def test_holds() -> None:
    data = _small(i=[1, 2, 3, None], j=[0, 2, 0, 0])

    def run(*texts: str) -> Any:
        satisfied = holds([expression(text) for text in texts], lambda col: data.column(col.column).combine_chunks(), 4, "UTC")
        return None if satisfied is None else satisfied.tolist()

    assert run() is None
    assert run("i < 3") == [True, True, False, False]
    assert run("10 / j > 1", "j <> 0") == [False, True, False, False]
    assert run("i IS NULL", "10 / j > 1", "j > 5") == [False] * 4
    satisfied = holds([expression("i < 3")], lambda col: pa.array([], pa.int32()), 0, "UTC")
    assert satisfied is not None
    assert satisfied.dtype == np.bool_
    assert satisfied.size == 0


def test_columns_are_read_once() -> None:
    requested: list[str] = []

    def column(col: Col) -> pa.Array:
        requested.append(col.column)
        return _column(col)

    evaluate(expression("x < y AND x * 2 < y"), column, _DATA.num_rows, "UTC")
    assert sorted(requested) == ["x", "y"]


def test_columns_of_an_equivalent_arrow_type() -> None:
    data = pa.table(
        {
            "ts": pa.array([0], pa.timestamp("us", tz="Asia/Tokyo")),
            "s": pa.array(["a"], pa.large_string()),
        }
    )
    assert answers(expression("ts"), data).type == arrow_type("timestamp")
    assert answers(expression("hour(ts)"), data).to_pylist() == [0]
    assert answers(expression("upper(s)"), data).to_pylist() == ["A"]


def test_nested_columns_pass_through() -> None:
    relation = expression("i").relation  # type: ignore[union-attr]
    values = pa.array([[1], None], pa.list_(pa.int32()))
    col = Col(relation, "items", "array<int>")
    assert evaluate(col, lambda _: values, 2, "UTC") is values
    assert evaluate(typed("isnull", (col,)), lambda _: values, 2, "UTC").to_pylist() == [False, True]


@pytest.mark.parametrize(
    ("text", "what", "detail"),
    [
        ("i / j", "division by zero", "E.i / E.j"),
        ("c % 0", "division by zero", "E.c % 0"),
        ("i + j", "a number is out of range", "E.i + E.j"),
        ("CAST(s AS int)", "a text is not a number", "CAST(E.s AS int): the value"),
        ("CAST(s AS date)", "a text is not a date", "CAST(E.s AS date): the value"),
        ("CAST(x AS tinyint)", "a value does not fit", "CAST(E.x AS tinyint): the value"),
        ("CAST(e AS decimal(5,2))", "a number is out of range", "CAST(E.e AS decimal(5,2))"),
        ("CAST(s AS boolean)", "a text is not a boolean", "CAST(E.s AS boolean): the value"),
        ("s LIKE 'a!b' ESCAPE '!'", "a LIKE pattern escapes a character that needs none", "E.s LIKE 'a!b'"),
    ],
)
def test_errors_say_where(text: str, what: str, detail: str) -> None:
    with pytest.raises(DataError) as caught:
        answers(expression(text), _DATA)
    assert caught.value.what.startswith(what)
    assert caught.value.detail.startswith(detail)
    assert caught.value.hint


def test_null_literals() -> None:
    relation, void = expression("i").relation, Lit(None, "void")  # type: ignore[union-attr]
    col = Col(relation, "i", "int")
    rows = _DATA.num_rows
    for call in (
        typed("+", (col, void)),
        typed("neg", (void,)),
        typed("in", (col, void)),
        typed("greatest", (void, void)),
        typed("not", (void,)),
    ):
        assert answers(call, _DATA).null_count == rows
    assert answers(typed("<=>", (void, void)), _DATA).to_pylist() == [True] * rows
    assert answers(typed("coalesce", (void, void)), _DATA).type == pa.null()
    assert answers(typed("and", (void, Lit(False, "boolean"))), _DATA).to_pylist() == [False] * rows
    assert answers(typed("case", (void, Lit(1, "int"), Lit(2, "int"))), _DATA).to_pylist() == [2] * rows


def test_time_zones_as_spark_writes_them() -> None:
    data = _small(ts=[0])
    hours = {"UTC": 0, "Z": 0, "GMT+2": 2, "UTC+02:00": 2, "+5:30": 5, "-8": 16, "Europe/Berlin": 1}
    for name, hour in hours.items():
        assert answers(expression("hour(ts)"), data, name).to_pylist() == [hour]
    with pytest.raises(Exception, match="this time zone is not known"):
        answers(expression("hour(ts)"), data, "Mars/Base")


def test_the_stream_has_every_atomic_type() -> None:
    assert {kind.partition("(")[0] for _, kind in STREAM.columns} >= {"tinyint", "float", "decimal", "binary", "timestamp_ntz"}


_TIME_TEXTS = [
    *(text for text in EDGES["s"][1] if text and "\\" not in text), "2017-12-11 09:30:00", " 2017-12-11 ", "2017-12-11T", "2017-12-11 ",
    "2017-13-01", "2017-02-30",
    "2017-12-11 9:3", "2017-12-11 24:00", "2017-12-11 09:60", "2017-12-11 09:30:00.123456789", "2017-12-11 09:30:00.",
    "2017-12-11 09:30:00+5:3",
    "2017-12-11 09:30:00 +0530", "2017-12-11 09:30:00 +05:30:15", "2017-12-11 09:30:00 +19:00", "2017-12-11 09:30:00 EST",
    "2017-12-11 09:30:00z",
    "2017-12-11 09:30:00 Mars/Base", "0000-01-01", "0001-01-01 00:00:00+18:00", "9999-12-31 23:59:59-18:00", "+12017-01-01", "09:30",
    "T09:30",
    "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2017-12-11 09:30 UTC", "2017-12-11 09 GMT+1",
]  # fmt: skip


@pytest.mark.parametrize("target", ["date", "timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin"])
def test_a_literal_is_cast_as_a_column_is(target: str, timezone: str) -> None:
    for text in _TIME_TEXTS:
        column = _cast(f"CAST(s AS {target})", _small(s=[text]), timezone)
        assert _cast(f"CAST('{text}' AS {target})", _small(s=[text]), timezone) == column, text
        if target != "timestamp_ntz":
            assert _cast(f"{target.upper()} '{text}'", _small(s=[text]), timezone) == column, text


def _cast(text: str, data: pa.Table, timezone: str) -> list[Any] | None:
    """The value, or None where the query or its evaluation is refused."""
    try:
        return plain(answers(expression(text), data, timezone))
    except (DataError, QueryError):
        return None
