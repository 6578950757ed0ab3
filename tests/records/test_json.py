"""JSON records: what is decoded at once, what is decoded again, and reasons as a user reads them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.expressions.arrow_types import arrow_type
from clash.records import Decoded, RecordFormat, decode
from clash.records.json_decoder import decode_completely
from clash.records.json_numbers import as_float
from clash.records.json_tokens import Number

from .json_cases import DOCUMENTS, TYPES, tokens


def reads(kind: str, *values: bytes | None) -> Decoded:
    return decode(RecordFormat("json", (("a", kind),)), values, "UTC")


def test_columns_in_order_and_the_numbers_of_the_accepted_records() -> None:
    format = RecordFormat("json", (("id", "bigint"), ("name", "string"), ("at", "timestamp")))
    values = [b'{"name":"x","id":1,"at":"2024-02-29T00:00:00Z","more":[{}]}', None, b"{}", b'{"id":"1"}', b'{"id":4}']
    decoded = decode(format, values, "UTC")
    assert list(decoded.columns) == ["id", "name", "at"]
    assert decoded.columns["id"].to_pylist() == [1, None, 4]
    assert decoded.columns["name"].to_pylist() == ["x", None, None]
    assert [array.type for array in decoded.columns.values()] == [arrow_type(kind) for _, kind in format.columns]
    assert decoded.accepted is not None
    assert decoded.accepted.tolist() == [0, 2, 4]
    assert decoded.rejected == {1: "tombstone (no value)", 3: 'field id is bigint and has "1"'}


def test_all_accepted_and_none_at_all() -> None:
    assert reads("int", b'{"a":1}', b'{"a":2}').accepted is None
    assert reads("int").columns["a"].type == pa.int32()
    assert reads("int").accepted is None
    nothing = reads("int", None, None)
    assert nothing.accepted is not None
    assert (nothing.accepted.tolist(), len(nothing.columns["a"]), len(nothing.rejected)) == ([], 0, 2)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int", b"", "empty value"),
        ("int", b"[1]", "not a JSON object but an array"),
        ("int", b'{"a":1}{"a":2}', "not JSON: something follows after its end, at character 7"),
        ("int", b'{"a":1', "not JSON: expecting ',' delimiter, at character 6"),
        ("int", b'{"b":"x\ty"}', "not JSON: invalid control character, at character 7"),
        ("int", b'{"a":NaN}', "not JSON: it has NaN"),
        ("int", b'\xef\xbb\xbf{"a":1}', "not JSON: it begins with a byte order mark"),
        ("int", b'{"b":"\xff"}', "not UTF-8: byte 0xff at byte 6"),
        ("int", b'{"a":' + b"[" * 100_000, "nested deeper than 500 levels"),
        ("int", b'{"b":' + b"1" * 5000 + b"}", "a number has more than 1000 characters"),
        ("tinyint", b'{"a":200}', "field a is tinyint and has 200"),
        ("double", b'{"a":"nan"}', 'field a is double and has "nan"'),
        ("decimal(4,2)", b'{"a":99.995}', "field a is decimal(4,2) and has 99.995"),
        ("date", b'{"a":"2023-02-29"}', 'field a is date and has "2023-02-29"'),
        ("timestamp", b'{"a":"' + b"x" * 99 + b'"}', 'field a is timestamp and has "' + "x" * 58 + "…"),
        ("struct<x:struct<y:int>>", b'{"a":{"x":{"y":true}}}', "field a.x.y is int and has true"),
        ("array<struct<x:int>>", b'{"a":[{"x":1},{"x":"b"}]}', 'field a[].x is int and has "b"'),
        ("map<string,int>", b'{"a":{"k":1,"k":1}}', 'field a is map and has {"k":1,"k":1} (a key occurs twice)'),
        ("string", b'{"a":"\\ud800"}', 'field a is string and has "\\ud800" (half of a surrogate pair)'),
        (
            "string",
            b'{"a":1e23}',
            "field a is string and has 1e23 (which text Spark makes of such a number depends on the version of Java; "
            "declare it as double or decimal)",
        ),
    ],
)
def test_reasons(kind: str, value: bytes, reason: str) -> None:
    decoded = reads(kind, b'{"a":null}', value, b"{}")
    assert decoded.rejected == {1: reason}
    assert decoded.columns["a"].to_pylist() == [None, None]


def test_a_record_does_not_change_its_neighbours() -> None:
    """Every document among good ones, all at once: the good ones are as they are alone."""
    good = b'{"a":7}'
    values = [value for document in DOCUMENTS for value in (good, document)]
    decoded = reads("int", *values)
    assert decoded.accepted is not None
    numbers = decoded.accepted.tolist()
    assert set(range(0, len(values), 2)) <= set(numbers)
    assert all(value == 7 for number, value in zip(numbers, decoded.columns["a"].to_pylist(), strict=True) if number % 2 == 0)
    for position, document in enumerate(DOCUMENTS):
        assert reads("int", document).rejected.get(0) == decoded.rejected.get(2 * position + 1)


def test_a_field_that_occurs_twice_has_its_last_value() -> None:
    assert reads("int", b'{"a":1,"a":2}', b'{"a":1,"a":null}').columns["a"].to_pylist() == [2, None]


def test_any_name_of_a_column() -> None:
    names = ("a b", "class", "f1", "é", "a.b", "'", "__init__")
    format = RecordFormat("json", tuple((name, "bigint") for name in names))
    decoded = decode(format, [json.dumps({name: n for n, name in enumerate(names)}).encode()], "UTC")
    assert {name: array.to_pylist() for name, array in decoded.columns.items()} == {name: [n] for n, name in enumerate(names)}


def test_raw_values_are_as_they_are() -> None:
    decoded = decode(RecordFormat("raw", (("value", "binary"),)), [b"\xff", None, b""], "UTC")
    assert decoded.columns["value"].to_pylist() == [b"\xff", None, b""]
    assert (decoded.accepted, decoded.rejected) == (None, {})


def test_a_format_can_be_sent_to_tasks() -> None:
    format = RecordFormat("json", (("a", "int"),))
    assert pickle.loads(pickle.dumps(format)) == format


def _complete(kind: str, values: Sequence[bytes]) -> tuple[dict[int, Any], dict[int, str]]:
    arrays, rejected = decode_completely({"a": arrow_type(kind)}, list(values), "UTC")
    values_ = enumerate(arrays["a"].cast(_countable(arrays["a"].type)).to_pylist())
    return {number: str(value) for number, value in values_ if number not in rejected}, rejected


def _countable(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else pa.int32() if pa.types.is_date(kind) else kind


def _same_both_ways(kind: str, values: Sequence[bytes]) -> None:
    decoded = reads(kind, *values)
    accepted = range(len(values)) if decoded.accepted is None else decoded.accepted.tolist()
    found = decoded.columns["a"].cast(_countable(decoded.columns["a"].type)).to_pylist()
    assert (dict(zip(accepted, map(str, found), strict=True)), decoded.rejected) == _complete(kind, values)


@pytest.mark.parametrize("kind", TYPES)
def test_the_quick_and_the_complete_decoder_agree(kind: str) -> None:
    values = [f'{{"a":{token}}}'.encode() for token in tokens()]
    _same_both_ways(kind, values)
    for value in values[:: len(values) // 40]:
        _same_both_ways(kind, [value])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyk"), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(_JSON, min_size=1, max_size=6), st.sampled_from(TYPES))
def test_the_decoders_agree_on_random_values(values: list[Any], kind: str) -> None:
    _same_both_ways(kind, [json.dumps({"a": value}).encode() for value in values])


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5))
def test_bytes_of_any_kind_are_accepted_or_rejected(values: list[bytes]) -> None:
    decoded = reads("string", *values)
    assert len(decoded.columns["a"]) + len(decoded.rejected) == len(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.00000017881393432617187499", 1.0000001192092896),
        ("1.00000017881393432617187500", 1.000000238418579),
        ("1.00000017881393432617187501", 1.000000238418579),
        ("1.00000005960464477539062500", 1.0),
        ("1.00000005960464477539062501", 1.0000001192092896),
        ("-1.00000005960464477539062501", -1.0000001192092896),
        ("7.006492321624085e-46", 0.0),
        ("7.0064923216240854e-46", 1.401298464324817e-45),
    ],
)
def test_a_float_is_rounded_once(text: str, expected: float) -> None:
    assert as_float(Number(text)) == expected
