"""Avro records against Spark's own `from_avro`: the same types and values, and what Spark rejects is rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from tests.servers import get

from clash.records import columns_of_avro, decode

from .comparable import plain
from .test_avro import ALL, format_of, record, write


def sparks(spark: Any, schema: str, values: Sequence[bytes]) -> tuple[dict[str, str], pa.Table]:
    """Types by column, and a row per value; NULL throughout for one that Spark cannot read."""
    get("spark-avro")
    from pyspark.sql.avro.functions import from_avro

    frame = spark.createDataFrame([(bytearray(value),) for value in values], "v binary").coalesce(1)
    rows = frame.select(from_avro("v", schema, {"mode": "PERMISSIVE"}).alias("r")).select("r.*")
    return {field.name: field.dataType.simpleString() for field in rows.schema}, rows.toArrow()


def test_every_type(spark: Any) -> None:
    schema = record(*((name, kind) for name, kind, _, _, _ in ALL))
    value = write(schema, {name: written for name, _, _, written, _ in ALL})
    types, theirs = sparks(spark, schema, [value, value])
    assert types == dict(columns_of_avro(schema))
    ours = decode(format_of(schema), [value, value], "UTC")
    assert ours.rejected == {}
    for name in types:
        assert plain(ours.columns[name]) == plain(theirs[name].combine_chunks()), name


def test_damaged_values(spark: Any) -> None:
    """Cut off, or with another bit: what is accepted is what Spark reads. Spark also takes texts that are not UTF-8, and more bytes."""
    schema = record(("a", "long"), ("s", "string"), ("l", {"type": "array", "items": "int"}), ("b", ["null", "double"]))
    value = write(schema, {"a": 300, "s": "text", "l": [1, 2, 3], "b": 0.5})
    changed = [value[:at] + bytes([value[at] ^ bit]) + value[at + 1 :] for at in range(len(value)) for bit in (1, 2, 0x40, 0x80)]
    values = [value, *(value[:at] for at in range(len(value))), *changed]
    _, theirs = sparks(spark, schema, values)
    ours = decode(format_of(schema), values, "UTC")
    assert 0 not in ours.rejected
    accepted = [position for position in range(len(values)) if position not in ours.rejected]
    assert len(accepted) > 10
    for name in ("a", "s", "l", "b"):
        assert plain(ours.columns[name]) == plain(theirs[name].combine_chunks().take(pa.array(accepted))), name
