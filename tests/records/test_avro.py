"""Avro records: types of a schema, values, Confluent's wire format, schemas that change, and reasons."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from clash.errors import OptionError
from clash.expressions.arrow_types import arrow_type
from clash.records import RecordFormat, UnknownSchema, check_format, columns_of_avro, decode


def record(*fields: Any, **more: Any) -> str:
    listed = [
        {"name": name, "type": kind} if not isinstance(kind, tuple) else {"name": name, "type": kind[0], **kind[1]} for name, kind in fields
    ]
    return json.dumps({"type": "record", "name": "R", "fields": listed, **more})


def write(schema: str, value: dict[str, Any], id: int | None = None) -> bytes:
    stream = BytesIO(b"" if id is None else b"\0" + id.to_bytes(4, "big"))
    stream.seek(0, 2)
    schemaless_writer(stream, parse_schema(json.loads(schema)), value)
    return stream.getvalue()


def format_of(schema: str, **registry: str) -> RecordFormat:
    format = RecordFormat("avro", columns_of_avro(schema), schema, tuple((int(id[1:]), text) for id, text in registry.items()))
    check_format(format, "s")
    return format


def logical(kind: str, name: str, **more: Any) -> Any:
    return {"type": kind, "logicalType": name, **more}


POINT = {
    "type": "record",
    "name": "Point",
    "namespace": "geo",
    "fields": [{"name": "x", "type": "int"}, {"name": "at", "type": logical("long", "timestamp-millis")}],
}
AT = datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=UTC)
ALL: list[tuple[str, Any, str, Any, Any]] = [  # field, Avro type, Spark type, written, read
    ("b", "boolean", "boolean", True, True),
    ("i", "int", "int", -(2**31), -(2**31)),
    ("l", "long", "bigint", 2**63 - 1, 2**63 - 1),
    ("f", "float", "float", 0.5, 0.5),
    ("d", "double", "double", 0.1, 0.1),
    ("s", "string", "string", "é", "é"),
    ("y", "bytes", "binary", b"\xff", b"\xff"),
    ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string", "B", "B"),
    ("x", {"type": "fixed", "name": "F", "size": 2}, "binary", b"ab", b"ab"),
    ("u", logical("string", "uuid"), "string", "c0ffee00-0000-0000-0000-000000000000", "c0ffee00-0000-0000-0000-000000000000"),
    ("day", logical("int", "date"), "date", date(1960, 1, 2), date(1960, 1, 2)),
    ("ms", logical("long", "timestamp-millis"), "timestamp", AT, AT),
    ("us", logical("long", "timestamp-micros"), "timestamp", AT, AT),
    ("lms", logical("long", "local-timestamp-millis"), "timestamp_ntz", AT.replace(tzinfo=None), AT.replace(tzinfo=None)),
    ("lus", logical("long", "local-timestamp-micros"), "timestamp_ntz", AT.replace(tzinfo=None), AT.replace(tzinfo=None)),
    ("dec", logical("bytes", "decimal", precision=10, scale=2), "decimal(10,2)", Decimal("-12.34"), Decimal("-12.34")),
    ("fdec", {"type": "fixed", "name": "G", "size": 8, "logicalType": "decimal", "precision": 18}, "decimal(18,0)", Decimal(7), Decimal(7)),
    ("null", ["null", "int"], "int", None, None),
    ("last", ["string", "null"], "string", "z", "z"),
    ("one", ["long"], "bigint", 1, 1),
    ("il", ["int", "long"], "bigint", 2**40, 2**40),
    ("fd", ["null", "float", "double"], "double", 0.1, 0.1),
    ("a", {"type": "array", "items": ["null", "int"]}, "array<int>", [1, None], [1, None]),
    ("m", {"type": "map", "values": logical("int", "date")}, "map<string,date>", {"k": date(2024, 1, 1)}, [("k", date(2024, 1, 1))]),
    ("p", POINT, "struct<x:int,at:timestamp>", {"x": 1, "at": AT}, {"x": 1, "at": AT}),
    ("q", ["null", "geo.Point"], "struct<x:int,at:timestamp>", {"x": 2, "at": AT}, {"x": 2, "at": AT}),
    ("aa", {"type": "array", "items": {"type": "array", "items": "string"}}, "array<array<string>>", [["a"], []], [["a"], []]),
]  # fmt: skip


def test_every_type() -> None:
    schema = record(*((name, kind) for name, kind, _, _, _ in ALL))
    assert columns_of_avro(schema) == tuple((name, kind) for name, _, kind, _, _ in ALL)
    value = write(schema, {name: written for name, _, _, written, _ in ALL})
    decoded = decode(format_of(schema), [value, None, value], "Europe/Berlin")
    assert decoded.rejected == {1: "tombstone (no value)"}
    for name, _, kind, _, expected in ALL:
        array = decoded.columns[name]
        array.validate(full=True)
        assert array.type == arrow_type(kind), name
        assert array.to_pylist() == [pytest.approx(expected) if kind == "double" else expected] * 2, name


@pytest.mark.parametrize(
    ("schema", "detail"),
    [
        ("{", "not JSON: {"),
        ('"string"', 'not a record: "string"'),
        (record(), "it has no fields"),
        (record(("a", "money")), "UnknownType: money"),
        (record(("a", ["null", "int", "string"])), "union of null, int, string"),
        (record(("a", logical("int", "time-millis"))), "int with logicalType time-millis"),
        (record(("a", logical("long", "timestamp-nanos"))), "long with logicalType timestamp-nanos"),
        (record(("a", "int"), ("next", ["null", "R"])), "R contains itself"),
        (record(("a", "null")), "null"),
        (record(("a", {"type": "record", "name": "N", "fields": []})), "record N without fields"),
    ],
)
def test_schemas_that_are_refused(schema: str, detail: str) -> None:
    with pytest.raises(OptionError) as error:
        columns_of_avro(schema)
    assert error.value.detail == detail
    with pytest.raises(OptionError, match="stream s"):
        check_format(RecordFormat("avro", (("a", "int"),), schema), "s")


def test_formats_that_are_refused() -> None:
    schema = record(("a", "int"))
    with pytest.raises(OptionError, match="the columns are not those of the Avro schema"):
        check_format(RecordFormat("avro", (("a", "bigint"),), schema), "s")
    with pytest.raises(OptionError, match="Avro needs a schema"):
        check_format(RecordFormat("avro", (("a", "int"),)), "s")
    with pytest.raises(OptionError, match="aliases in an Avro schema are not supported"):
        format_of(record(("a", ("int", {"aliases": ["b"]}))), _1=schema)


def test_bytes_that_are_not_of_the_schema() -> None:
    schema = record(("a", "long"), ("s", "string"), ("d", logical("bytes", "decimal", precision=2, scale=0)))
    good = write(schema, {"a": 1, "s": "x", "d": Decimal(99)})
    big = write(record(("a", "long"), ("s", "string"), ("d", "bytes")), {"a": 1, "s": "x", "d": b"\x64"})
    decoded = decode(format_of(schema), [good, b"", good[:-1], good + b"\0", b"\x02\x02\xff\x02\x01", big, good], "UTC")
    assert decoded.columns["d"].to_pylist() == [Decimal(99), Decimal(99)]
    assert decoded.rejected == {
        1: "not of this Avro schema: EOFError, at byte 0 of 0",
        2: "not of this Avro schema: EOFError, at byte 4 of 4",
        3: "not of this Avro schema: it ends at byte 5 of 6",
        4: "not of this Avro schema: UnicodeDecodeError, at byte 3 of 5",
        5: "field d is decimal(2,0) and has 0x64",
    }


def test_numbers_that_do_not_fit() -> None:
    schema = record(("i", "int"), ("t", {"type": "array", "items": logical("long", "timestamp-millis")}))
    wide = record(("i", "long"), ("t", {"type": "array", "items": "long"}))
    values = [write(wide, {"i": 2**31, "t": []}), write(wide, {"i": 1, "t": [0, 2**60]}), write(wide, {"i": 2, "t": [1]})]
    decoded = decode(format_of(schema), values, "UTC")
    assert decoded.rejected == {0: f"field i is int and has {2**31}", 1: f"field t[] is bigint and has {2**60 * 1000}"}
    assert decoded.columns["i"].to_pylist() == [2]


def test_the_wire_format_and_schemas_that_change() -> None:
    first = record(("a", "int"))
    second = record(("a", "long"), ("b", (["null", "string"], {"default": None})))
    third = record(("b", ["null", "string"]), ("more", "double"), ("a", "long"))
    values = [
        write(first, {"a": 1}, 7), write(second, {"a": 2, "b": "x"}, 8), write(third, {"a": 3, "b": "y", "more": 1.5}, 9),
        write(first, {"a": 4}), b"\0\0\0", write(second, {"a": 5, "b": None}, 8),
    ]  # fmt: skip
    known = {"_7": first, "_8": second}
    with pytest.raises(UnknownSchema) as unknown:
        decode(format_of(second, **known), values, "UTC")
    assert unknown.value.id == 9
    decoded = decode(format_of(second, **known, _9=third), values, "UTC")
    assert decoded.columns["a"].to_pylist() == [1, 2, 3, 5]
    assert decoded.columns["b"].to_pylist() == [None, "x", "y", None]
    wire = "not in Confluent's wire format: it does not begin with a zero byte and a schema's id"
    assert decoded.rejected == {3: wire, 4: wire}


def test_an_id_that_the_registry_does_not_have() -> None:
    schema = record(("a", "int"))
    decoded = decode(format_of(schema, _1=schema, _2=""), [write(schema, {"a": 1}, 1), write(schema, {"a": 1}, 2)], "UTC")
    assert decoded.rejected == {1: "the schema registry has no schema 2"}


def test_a_writer_whose_numbers_mean_something_else() -> None:
    """Avro itself would read milliseconds as microseconds, and cents as tenths of cents."""
    for written, read in (
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros")),
        (logical("bytes", "decimal", precision=9, scale=2), logical("bytes", "decimal", precision=9, scale=3)),
        ("int", logical("int", "date")),
    ):
        old, new = record(("id", "int"), ("a", ["null", written])), record(("id", "int"), ("a", ["null", read]))
        decoded = decode(format_of(new, _1=old, _2=new), [write(old, {"id": 1, "a": None}, 1), write(new, {"id": 2, "a": None}, 2)], "UTC")
        assert decoded.rejected == {0: "schema 1 of the registry cannot be read as the stream's: field a has another logical type"}
        assert decoded.columns["id"].to_pylist() == [2]


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5))
def test_bytes_of_any_kind_are_accepted_or_rejected(values: list[bytes]) -> None:
    schema = record(*((name, kind) for name, kind, *_ in ALL if name not in ("q", "x")))
    decoded = decode(format_of(schema), values, "UTC")
    assert len(decoded.columns["b"]) + len(decoded.rejected) == len(values)


NOTHING = {"type": "record", "name": "N", "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 0}}]}


@pytest.mark.parametrize("items", ["null", {"type": "fixed", "name": "F", "size": 0}, NOTHING])
def test_an_array_whose_items_have_no_bytes_is_refused(items: Any) -> None:
    """A record of a few bytes would have as many of them as its writer likes, and take as long, or as much memory."""
    written = record(("a", "int"), ("many", ["null", {"type": "array", "items": items}]))
    count = b"\xfe\xff\xff\xff\xff\x7f"
    stream = record(("a", "int"))
    decoded = decode(format_of(stream, _1=stream, _7=written), [write(stream, {"a": 1}, 1), b"\0\0\0\0\x07\x02\x02" + count + b"\0"], "UTC")
    assert decoded.columns["a"].to_pylist() == [1]
    assert "an array whose items have no bytes" in decoded.rejected[1]
    with pytest.raises(OptionError, match="an array whose items have no bytes"):
        columns_of_avro(written)
