"""Avro of rows: the schema and the bytes are those of Spark's to_avro, as recorded from spark-avro, and a plain reader reads them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

import clash
from clash.delivery.avro_rows import avro_rows, avro_schema

from .avro_reader import AvroReader

SCHEMA = pa.schema(
    {
        "n": pa.int32(),
        "tiny": pa.int8(),
        "small": pa.int16(),
        "i": pa.int32(),
        "big": pa.int64(),
        "f": pa.float32(),
        "d": pa.float64(),
        "m2": pa.decimal128(10, 2),
        "m10": pa.decimal128(20, 10),
        "b": pa.bool_(),
        "s": pa.string(),
        "x": pa.binary(),
        "day": pa.date32(),
        "ts": pa.timestamp("us", tz="UTC"),
        "ntz": pa.timestamp("us"),
        "span": pa.duration("us"),
        "list": pa.list_(pa.int32()),
        "none": pa.list_(pa.int32()),
        "nested": pa.list_(pa.struct({"x": pa.int32(), "y": pa.string()})),
        "deep": pa.struct({"x": pa.int32(), "y": pa.struct({"z": pa.float64()})}),
        "map": pa.map_(pa.string(), pa.int32()),
    }
)
ROW = {
    "n": 0,
    "tiny": 1,
    "small": -300,
    "i": 0,
    "big": -(2**63),
    "f": 0.1,
    "d": 1e7,
    "m2": Decimal("12.50"),
    "m10": Decimal("0.0000001000"),
    "b": True,
    "s": "",
    "x": b"",
    "day": date(2024, 2, 29),
    "ts": datetime(2024, 7, 1, 12, 0, 0, 123456, UTC),
    "ntz": datetime(2024, 7, 1, 12, 0, 0, 100000),
    "span": timedelta(days=1, hours=2, minutes=3, seconds=4.5),
    "list": [1, None, 2],
    "none": [],
    "nested": [{"x": 1, "y": None}, None],
    "deep": {"x": None, "y": {"z": 1.5}},
    "map": {"a": 1},
}


def table(rows: list[dict[str, object] | None]) -> pa.RecordBatch:
    names = SCHEMA.names
    return pa.RecordBatch.from_pylist([{name: None if row is None else row[name] for name in names} for row in rows], SCHEMA)


def test_what_a_plain_reader_reads() -> None:
    reader = AvroReader(avro_schema(SCHEMA))
    batch = table([ROW, None, {**ROW, "s": "é" * 300, "list": list(range(200)), "m2": Decimal("-0.01"), "big": 2**63 - 1}])
    expected = {
        **ROW,
        "f": pytest.approx(0.1),
        "m2": 1250,
        "m10": 1000,
        "day": (date(2024, 2, 29) - date(1970, 1, 1)).days,
        "ts": 1719835200123456,
        "ntz": 1719835200100000,
        "span": 93784500000,
    }
    first, second, third = (reader.read(row.as_py()) for row in avro_rows(batch))
    assert first == expected
    assert second == dict.fromkeys(SCHEMA.names)
    assert third == {**expected, "s": "é" * 300, "list": list(range(200)), "m2": -1, "big": 2**63 - 1}
    assert [row.as_py() for row in avro_rows(batch.slice(1))] == [row.as_py() for row in avro_rows(batch)][1:]
    assert len(avro_rows(batch.slice(0, 0))) == 0


def test_the_bytes_are_those_of_spark() -> None:
    recorded = (  # of to_avro(struct(*)) for the row above, with spark-avro 4.1
        "0000000200d704000000ffffffffffffffffff0100cdcccc3d0000000000d01263410000000004e2000000000000000003e8000100000000008cb5020080"
        "c9e7e2ca8b8e0600c0dae4e2ca8b8e0600c09cefdfba0500060002020004000000000400000202020000020000000000000000f83f00020261000200"
    )
    assert avro_rows(table([ROW]))[0].as_py().hex() == recorded


def test_the_schema_is_that_of_spark() -> None:
    fields = {field["name"]: field["type"] for field in json.loads(avro_schema(SCHEMA))["fields"]}
    assert json.loads(avro_schema(SCHEMA))["name"] == "topLevelRecord"
    assert fields["i"] == ["int", "null"]
    assert fields["big"] == ["long", "null"]
    assert fields["ts"] == [{"type": "long", "logicalType": "timestamp-micros"}, "null"]
    decimal = {"type": "fixed", "name": "fixed", "namespace": "topLevelRecord.m10", "size": 9}
    assert fields["m10"] == [{**decimal, "logicalType": "decimal", "precision": 20, "scale": 10}, "null"]
    inner = {"type": "record", "name": "y", "namespace": "topLevelRecord.deep", "fields": [{"name": "z", "type": ["double", "null"]}]}
    assert fields["deep"][0]["fields"][1] == {"name": "y", "type": [inner, "null"]}


@pytest.mark.parametrize("wrong", [{"a b": pa.int32()}, {"a": pa.map_(pa.int32(), pa.int32())}])
def test_what_avro_does_not_have_is_refused(wrong: dict[str, pa.DataType]) -> None:
    with pytest.raises(clash.OptionError, match="not possible in Avro"):
        avro_schema(pa.schema(wrong))
