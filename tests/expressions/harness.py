"""One table of edge values, and expressions over it, written as in a query."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from clash.errors import DataError
from clash.expressions import arrow_type, evaluate
from clash.model.expressions import Col, Expr
from clash.model.stream import Stream
from clash.sql import parse_query

NAN, INF = math.nan, math.inf


def _ints(bits: int) -> list[Any]:
    top = 2 ** (bits - 1)
    return [None, 0, 1, -1, 2, 7, -7, 10, 15, 25, 45, -45, 99, top - 1, -top]


def _moments(zone: Any) -> list[datetime | None]:
    return [
        None,
        datetime(1970, 1, 1, tzinfo=zone),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=zone),
        datetime(2024, 3, 31, 1, 30, 0, 123000, tzinfo=zone),
        datetime(2024, 3, 31, 2, 30, 0, tzinfo=zone),
        datetime(2024, 10, 27, 0, 30, tzinfo=zone),
        datetime(2024, 10, 27, 1, 30, tzinfo=zone),
        datetime(2024, 10, 27, 2, 30, tzinfo=zone),
        datetime(2024, 2, 29, 12, 0, 0, 500000, tzinfo=zone),
        datetime(1900, 1, 1, 0, 0, 1, tzinfo=zone),
        datetime(2040, 7, 1, 22, 30, tzinfo=zone),
        datetime(2100, 3, 28, 2, 30, tzinfo=zone),
        datetime(9999, 12, 31, 12, 59, 59, 1, tzinfo=zone),
        datetime(1582, 10, 4, 12, tzinfo=zone),
    ]


_DOUBLES = [
    None, 0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 0.5, -0.5, 1.5, 2.5, 1.005, 2.675, -2.675, 0.285, 1e7, 9999999.0, 12345678.9, 1e10, 1.5e300,
    1e-3, 9.99e-4, 1e-5, 2.5e-310, 1.7976931348623157e308, 123456789012345.67, 2.0**53, 9.2e18, -9.3e18, 0.1, 1 / 3, 100.0, 2147483647.5,
    -128.9, 127.5, 4.35, 1.15,
]  # fmt: skip
_TEXTS = [
    None, "", " ", "a", "A", "ab", "abc", "a%c", "a_c", "a\\c", "äÖß", "ΑΣ", "日本語", "x\ny", " trim  ", "12", " 12 ", "+7", "-7",
    "007", "1.5",
    "-1.25", ".5", "5.", "1e3", "1E-2", "1.5d", "NaN", "inf", "-Infinity", "true", "F", "yes", "0", "1", "2024-02-29",
    "2023-02-29", "2024-2-9",
    "2024-02", "2024", "2024-02-29 12:34", "2024-02-29T12:34:56.7", "2024-03-31 02:30:00", "2024-10-27 02:30:00",
    "2024-02-29 1:2:3.1234567",
    "2024-02-29 12:34:56Z", "2024-02-29 12:34:56+05:30", "2024-02-29 12:34:56 Europe/Paris", "2024-02-29 25:00:00",
    "2024-02-29 12", "x",
    "9223372036854775807", "9223372036854775808", "99999999999999999999999999999999999999", "0.005", "-0.005", "0x1F", "1_000",
    "--1", "128",
    "2024-02-29 ", "2024-02-29T", "2024-02-29 12:34:56 UTC+1", "12345-01-01", "-0001-01-01", "2024-02-29x", "1.e5", "e5", "ŉ",
    "𝒳y",
]  # fmt: skip


def _decimals(places: int, whole: int) -> list[Any]:
    nines = "9" * whole + ("." + "9" * places if places else "")
    texts = ["0", "1", "-1", "2", "0.5", "-0.5", "1.5", "2.5", "0.05", "-0.05", "7.25", "0.01", "33.33", nines, "-" + nines, "12.345678"]
    unit = Decimal(1).scaleb(-places)
    return [None, *(Decimal(t).quantize(unit) if len(t) < 12 else Decimal(t) for t in texts)]


EDGES: dict[str, tuple[str, list[Any]]] = {
    "t": ("tinyint", _ints(8)),
    "h": ("smallint", _ints(16)),
    "i": ("int", _ints(32)),
    "j": ("int", _ints(32)),
    "l": ("bigint", _ints(64)),
    "m": ("bigint", _ints(64)),
    "f": ("float", [None, 0.0, -0.0, NAN, INF, -INF, 1.5, 0.1, 1e10, 3.4e38, 1e-5, 16777216.0, -2.5, 123.456, 1.1]),
    "x": ("double", _DOUBLES),
    "y": ("double", _DOUBLES),
    "c": ("decimal(10,2)", _decimals(2, 8)),
    "d": ("decimal(10,2)", _decimals(2, 8)),
    "e": ("decimal(38,10)", _decimals(10, 28)),
    "g": ("decimal(38,18)", _decimals(18, 20)),
    "k": ("decimal(20,0)", _decimals(0, 20)),
    "n": ("decimal(12,9)", _decimals(9, 3)[:-1]),
    "s": ("string", _TEXTS),
    "u": ("string", _TEXTS),
    "b": ("boolean", [None, True, False]),
    "p": ("boolean", [None, True, False]),
    "w": ("binary", [None, b"", b"a", b"ab", b"\xc3\xa4"]),
    "day": ("date", [None, *(m.date() for m in _moments(None) if m), date(1, 1, 1), date(2024, 3, 31)]),
    "ts": ("timestamp", _moments(UTC)),
    "tz": ("timestamp", _moments(UTC)),
    "nt": ("timestamp_ntz", _moments(None)),
    "st": (
        "struct<a:int,B:string,c:struct<d:decimal(10,2),e:timestamp>>",
        [
            None,
            {"a": 1, "B": "x", "c": {"d": Decimal("1.50"), "e": _moments(UTC)[3]}},
            {"a": None, "B": None, "c": None},
            {"a": 2147483647, "B": "", "c": {"d": None, "e": None}},
            {"a": -7, "B": "ab", "c": {"d": Decimal("-0.01"), "e": _moments(UTC)[5]}},
        ],
    ),
}
STREAM = Stream.of("E", {name: kind for name, (kind, _) in EDGES.items()})


def table(rows: int, seed: int) -> pa.Table:
    """A table in which every edge value occurs at least once, if there are enough rows, in random combinations."""
    random_ = random.Random(seed)
    data = {}
    for name, (kind, edges) in EDGES.items():
        values = random_.sample(edges, len(edges)) + random_.choices(edges, k=max(0, rows - len(edges)))
        data[name] = pa.array(values[:rows], arrow_type(kind))
    return pa.table(data)


def expression(text: str) -> Expr:
    """The expression as the front end parses it in a query's output."""
    return parse_query("q", f"SELECT {text} AS result FROM E", {"E": STREAM}).outputs[0].expression


def answers(expr: Expr, data: pa.Table, timezone: str = "UTC") -> pa.Array:
    def column(col: Col) -> pa.Array:
        return data.column(col.column).combine_chunks()

    values = evaluate(expr, column, data.num_rows, timezone)
    assert values.type == arrow_type(expr.type), (values.type, expr.type)
    assert len(values) == data.num_rows
    values.validate(full=True)
    return values


def raising(expr: Expr, data: pa.Table, timezone: str, first: int = 0) -> list[int]:
    """The rows for which the expression raises if it is evaluated for them only; found by bisection."""
    try:
        answers(expr, data, timezone)
    except DataError:
        if data.num_rows == 1:
            return [first]
        half = data.num_rows // 2
        return raising(expr, data.slice(0, half), timezone, first) + raising(expr, data.slice(half), timezone, first + half)
    return []


def without(data: pa.Table, rows: Sequence[int]) -> pa.Table:
    left = set(range(data.num_rows)) - set(rows)
    return data.take(pa.array(sorted(left), pa.int64()))


def plain(values: pa.Array) -> list[Any]:
    """The values as Python values; times as numbers, because Python's own end with the year 9999."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32()).to_pylist()
    return (values.view(pa.int64()) if pa.types.is_temporal(values.type) else values).to_pylist()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b)
    return type(a) is type(b) and a == b
