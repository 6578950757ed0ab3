"""Rows as the CSV that PostgreSQL's COPY reads, column by column, and the types of columns that fit them.

NULL is an empty field, and empty text a quoted one, as COPY has it. Nested values are JSON.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from clash.delivery.json_rows import json_values

_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.null(): "text",
}


def column_type(kind: pa.DataType) -> str:
    """The type of a column that holds all values of this type."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_duration(kind):
        return "interval"
    return "jsonb" if pa.types.is_nested(kind) else _PLAIN[kind]


def copy_text(batch: pa.RecordBatch) -> pa.Buffer:
    """The rows as CSV without a header."""
    columns = [_column(column) for column in batch.columns]
    target = pa.BufferOutputStream()
    table = pa.RecordBatch.from_arrays(columns, [f"c{at}" for at in range(len(columns))])
    csv.write_csv(table, target, csv.WriteOptions(include_header=False, quoting_style="needed"))
    return target.getvalue()


def _column(values: pa.Array) -> pa.Array:
    """As text where Arrow writes another one than PostgreSQL reads."""
    kind = values.type
    if pa.types.is_nested(kind):
        return json_values(values, "UTC")
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in values.to_pylist()], pa.string())
    if pa.types.is_timestamp(kind):
        local = values.cast(pa.timestamp("us")).cast(pa.string())  # the label of instants is UTC
        return local if kind.tz is None else pc.binary_join_element_wise(local, "+00", "")
    if pa.types.is_duration(kind):
        return pc.binary_join_element_wise(values.cast(pa.duration("us")).view(pa.int64()).cast(pa.string()), "microseconds", " ")
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_floating(kind):
        return pc.replace_substring(values.cast(pa.string()), "inf", "Infinity")
    return values
