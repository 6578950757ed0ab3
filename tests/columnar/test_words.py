"""Words, `same` and slots against Python's own numbers, by the rules of Spark's `=`."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clash.columnar.key_words import key_words, same
from clash.columnar.slots import slots
from clash.expressions.arrow_types import arrow_type
from clash.model.coercion import common, digits
from clash.model.types import is_numeric, joinable

ZONE = "Europe/Berlin"
LONG = Context(prec=100)
TYPES = [
    "tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean", "binary", "date", "timestamp", "timestamp_ntz",
    "decimal(5,2)", "decimal(18,0)", "decimal(18,6)", "decimal(20,0)", "decimal(38,0)", "decimal(38,10)", "decimal(38,37)",
]  # fmt: skip
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    2.5,
    math.nan,
    struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0],
    math.inf,
    -math.inf,
    2.0**53,
]
WHOLE = [0, 1, -1, 2, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 10**18 - 1]
MOMENTS = [dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30), dt.datetime(2024, 1, 1), dt.datetime(1969, 12, 31)]


def value(kind: str) -> st.SearchStrategy[Any]:
    """Values of a type, from a set so small that some are equal, also across types."""
    if kind in ("tinyint", "smallint", "int", "bigint"):
        width = arrow_type(kind).bit_width
        low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
        return st.sampled_from([v for v in WHOLE if low <= v <= high]) | st.integers(low, high)
    if kind in ("float", "double"):
        bits = arrow_type(kind).bit_width
        return st.sampled_from([float(np.float32(v)) if bits == 32 else v for v in SPECIAL]) | st.floats(width=bits)
    if kind.startswith("decimal"):
        precision, scale = digits(kind)
        largest = 10**precision - 1
        short = [v.scaleb(scale, LONG) for v in map(Decimal, ("0", "1", "-1", "0.1", "2.5", "9007199254740993"))]
        few = [int(v) for v in short if v == int(v) and abs(v) <= largest]
        return (st.sampled_from(few) | st.integers(-largest, largest)).map(lambda n: Decimal(n).scaleb(-scale, LONG))
    if kind == "boolean":
        return st.booleans()
    if kind == "string":
        return st.text(alphabet="aé𝄞\0", max_size=3) | st.text(max_size=40)
    if kind == "binary":
        return st.binary(max_size=40)
    if kind == "date":
        return st.sampled_from([m.date() for m in MOMENTS]) | st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
    times = st.sampled_from(MOMENTS) | st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
    return times if kind == "timestamp_ntz" else times.map(lambda t: t.replace(tzinfo=ZoneInfo(ZONE)).astimezone(dt.UTC))


def array(values: list[Any], kind: str, offset: int = 0) -> pa.Array:
    """The values as an Arrow array; with an offset it is a slice that has other values before it."""
    return pa.array([values[0] if values else None] * offset + values, arrow_type(kind)).slice(offset)


def utc(local: dt.datetime) -> dt.datetime:
    return local.replace(tzinfo=ZoneInfo(ZONE)).astimezone(dt.UTC)


def cast_value(v: Any, source: str, target: str) -> Any:
    """The value that Spark compares: one Python value (of one type) per class of equal ones."""
    if target in ("float", "double"):
        number = float(v)
        return "NaN" if math.isnan(number) else number + 0.0
    if target.startswith("decimal"):
        return Decimal(v).quantize(Decimal(1).scaleb(-digits(target)[1]), ROUND_HALF_UP, LONG)
    if source == "date" and target != "date":
        v = dt.datetime.combine(v, dt.time())
        return utc(v) if target == "timestamp" else v
    return utc(v) if (source, target) == ("timestamp_ntz", "timestamp") else v


def fits(kind: str, target: str) -> bool:
    """Whether the target has as many digits before the point."""
    if not (is_numeric(kind) and target.startswith("decimal")):
        return True
    (p, s), (q, t) = digits(kind), digits(target)
    return p - s <= q - t


def pairs() -> list[tuple[str, str, str]]:
    """Two types that may be joined and the type in which they are compared."""
    joined = [(a, b, common(a, b)) for a in TYPES for b in TYPES if joinable(a, b)]
    return [(a, b, target) for a, b, target in joined if target is not None and fits(a, target) and fits(b, target)]


@given(st.sampled_from(pairs()), st.data())
def test_words_and_same_follow_equality(kinds: tuple[str, str, str], data: st.DataObject) -> None:
    a, b, target = kinds
    left = data.draw(st.lists(value(a), max_size=12))
    right = data.draw(st.lists(value(b), min_size=len(left), max_size=len(left)))
    offset = data.draw(st.integers(0, 9))
    x, y = array(left, a, offset), array(right, b)
    expected = [cast_value(v, a, target) == cast_value(w, b, target) for v, w in zip(left, right, strict=True)]
    assert same(x, y, target, ZONE).tolist() == expected
    words, others = key_words([x], [target], ZONE), key_words([y], [target], ZONE)
    assert words.valid is None
    assert (
        words.exact
        == others.exact
        == (target not in ("string", "binary") and not (target.startswith("decimal") and digits(target)[0] > 18))
    )
    assert (words.words == others.words).tolist() == expected  # a hash of 64 bits does not collide here


@given(st.sampled_from(TYPES), st.data())
def test_nulls_are_not_valid_and_do_not_change_other_rows(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | value(kind), min_size=1, max_size=20))
    offset = data.draw(st.integers(0, 9))
    words = key_words([array(values, kind, offset)], [kind], ZONE)
    assert (words.valid is None) == (None not in values)
    if words.valid is not None:
        assert words.valid.tolist() == [v is not None for v in values]
    slot_numbers = slots(array(values, kind, offset), 7, ZONE)
    filled = [v for v in values if v is not None]
    without_nulls = key_words([array(filled, kind)], [kind], ZONE)
    keep = np.array([v is not None for v in values])
    assert (words.words[keep] == without_nulls.words).all()
    assert (slot_numbers[keep] == slots(array(filled, kind), 7, ZONE)).all()
    assert (slot_numbers[~keep] == 0).all()


@given(st.lists(st.sampled_from(TYPES), min_size=2, max_size=3), st.data())
def test_composite_keys(kinds: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 8))
    columns = [data.draw(st.lists(st.none() | value(kind), min_size=rows, max_size=rows)) for kind in kinds]
    words = key_words([array(c, k, 3) for c, k in zip(columns, kinds, strict=True)], kinds, ZONE)
    assert not words.exact
    complete = [None not in row for row in zip(*columns, strict=True)]
    assert (words.valid is None and all(complete)) or (words.valid is not None and words.valid.tolist() == complete)
    keys = [
        tuple(cast_value(v, k, k) for v, k in zip(row, kinds, strict=True)) if None not in row else None
        for row in zip(*columns, strict=True)
    ]
    for i, key in enumerate(keys):
        for j, other in enumerate(keys):
            if key is not None and other is not None:
                assert (words.words[i] == words.words[j]) == (key == other)


@given(st.sampled_from(pairs()), st.integers(1, 200), st.data())
def test_equal_values_share_a_slot_whatever_their_types(kinds: tuple[str, str, str], count: int, data: st.DataObject) -> None:
    a, b, target = kinds
    assume(not _rounds(a, b, target))
    left, right = data.draw(st.lists(value(a), max_size=8)), data.draw(st.lists(value(b), max_size=8))
    if is_numeric(a) and is_numeric(b):  # make equal ones likely
        right += [w for v in left if (w := _as(v, b)) is not None]
    x, y = slots(array(left, a, 1), count, ZONE), slots(array(right, b), count, ZONE)
    assert x.dtype == np.int32
    assert all(0 <= s < count for s in [*x, *y])
    for v, s in zip(left, x, strict=True):
        for w, t in zip(right, y, strict=True):
            if cast_value(v, a, target) == cast_value(w, b, target):
                assert s == t


def _rounds(a: str, b: str, target: str) -> bool:
    """Decimals with more digits than fit: `=` compares rounded values, on which a hash of one side cannot depend."""
    return target.startswith("decimal") and any(k.startswith("decimal") and digits(k)[1] > digits(target)[1] for k in (a, b))


def _as(v: Any, kind: str) -> Any:
    if not math.isfinite(v):
        return v if kind in ("float", "double") else None
    if kind in ("float", "double"):
        return float(np.float32(v)) if kind == "float" and abs(float(v)) < 1e38 else float(v) if kind == "double" else None
    if kind.startswith("decimal"):
        precision, scale = digits(kind)
        exact = Decimal(v)
        if abs(exact) >= Decimal(10) ** (precision - scale) - 1:
            return None
        return exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, LONG)
    width = arrow_type(kind).bit_width
    return int(v) if v == int(v) and -(2 ** (width - 1)) <= int(v) < 2 ** (width - 1) else None


@given(st.lists(value("decimal(38,10)") | st.decimals(places=10, min_value=-(10**27), max_value=10**27), max_size=10))
def test_decimals_become_the_nearest_double(values: list[Decimal]) -> None:
    words = key_words([pa.array(values, pa.decimal128(38, 10))], ["double"], ZONE).words
    assert words.tolist() == [struct.unpack("<q", struct.pack("<d", float(v) + 0.0))[0] for v in values]


def test_words_of_integers_are_a_view() -> None:
    column = pa.array(range(100), pa.int64())
    words = key_words([column.slice(10, 20)], ["bigint"], "UTC").words
    assert words.__array_interface__["data"][0] == column.buffers()[1].address + 80
    assert words.tolist() == list(range(10, 30))


@pytest.mark.parametrize("kind", TYPES)
def test_empty(kind: str) -> None:
    for column in (array([], kind), pa.array([None], arrow_type(kind)).slice(1)):
        assert key_words([column], [kind], ZONE).words.size == 0
        assert key_words([column], [kind], ZONE).valid is None
        assert slots(column, 3, ZONE).size == 0
        assert same(column, column, kind, ZONE).size == 0


def test_other_arrow_layouts_of_the_same_values() -> None:
    texts = ["a", "b" * 30, ""]
    plain = key_words([pa.array(texts)], ["string"], ZONE).words
    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        assert (key_words([pa.array(texts).cast(kind)], ["string"], ZONE).words == plain).all()
    moments = pa.array([0, 10**9], pa.timestamp("ms", tz="Asia/Tokyo"))
    assert key_words([moments], ["timestamp"], ZONE).words.tolist() == [0, 10**12]


def test_a_midnight_that_does_not_exist() -> None:
    """In São Paulo the clock went from 0:00 to 1:00: the day starts at 1:00."""
    day = pa.array([dt.date(2018, 11, 4)])
    start = pa.array([dt.datetime(2018, 11, 4, 3, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC"))
    assert same(day, start, "timestamp", "America/Sao_Paulo").all()
    assert (slots(day, 1000, "America/Sao_Paulo") == slots(start, 1000, "America/Sao_Paulo")).all()
