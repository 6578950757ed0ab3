"""Avro's values, as they are stored, as Arrow columns with the types that Spark gives them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from clash.expressions.arrow_types import arrow_type
from clash.records.avro_schema import spark_type
from clash.records.wording import misfit

_MILLIS = {"timestamp-millis", "local-timestamp-millis"}


@dataclass(frozen=True)
class AvroColumn:
    """One value per record, NULL for those that do not fit; the reasons of these by position."""

    array: pa.Array
    reasons: dict[int, str]


def to_column(values: list[Any], schema: Any, field: str) -> AvroColumn:
    """The values, as fastavro reads them without logical types, as a column of the schema's Spark type."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch["type"] != "null"]
        if len(branches) == 1:
            return to_column(values, branches[0], field)
        return _storable(values, arrow_type(spark_type(schema)), field)
    kind = schema["type"]
    if kind in ("record", "error"):
        return _structs(values, schema, field)
    if kind == "array":
        column = to_column(list(chain.from_iterable(value for value in values if value)), schema["items"], f"{field}[]")
        array = pa.ListArray.from_arrays(_offsets(values), column.array, type=arrow_type(spark_type(schema)))
        return AvroColumn(array, _of_owners(column.reasons, values))
    if kind == "map":
        return _maps(values, schema, field)
    target = arrow_type(spark_type(schema))
    if pa.types.is_decimal(target):
        return _convert(values, target, field, lambda value: _decimal(value, target))
    if schema.get("logicalType") in _MILLIS:
        values = [None if value is None else value * 1000 for value in values]
    if pa.types.is_temporal(target):
        stored = _storable(values, pa.int32() if pa.types.is_date(target) else pa.int64(), field)
        return AvroColumn(stored.array.view(target), stored.reasons)
    return _storable(values, target, field)


def _storable(values: list[Any], kind: pa.DataType, field: str) -> AvroColumn:
    """Values that Arrow stores as they are; of integers, those that do not fit are looked for."""
    try:
        return AvroColumn(pa.array(values, kind), {})
    except (OverflowError, pa.ArrowInvalid):
        limit = 2 ** (kind.bit_width - 1)
    return _convert(values, kind, field, lambda value: value if -limit <= value < limit else None)


def _convert(values: list[Any], kind: pa.DataType, field: str, convert: Any) -> AvroColumn:
    """Each value converted; None for one that does not fit."""
    converted = [None if value is None else convert(value) for value in values]
    pairs = enumerate(zip(values, converted, strict=True))
    reasons = {n: misfit(field, kind, _shown(value)) for n, (value, fitting) in pairs if value is not None and fitting is None}
    return AvroColumn(pa.array(converted, kind), reasons)


def _decimal(value: bytes, kind: pa.DataType) -> Decimal | None:
    """The unscaled number, big-endian; None if it has too many digits."""
    unscaled = int.from_bytes(value, "big", signed=True)
    return Decimal(unscaled).scaleb(-kind.scale) if abs(unscaled) < 10**kind.precision else None


def _shown(value: Any) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def _structs(values: list[Any], schema: Any, field: str) -> AvroColumn:
    parts: list[pa.Array] = []
    reasons: dict[int, str] = {}
    for part in schema["fields"]:
        name = part["name"]
        column = to_column([None if value is None else value[name] for value in values], part["type"], f"{field}.{name}")
        parts.append(column.array)
        reasons |= column.reasons
    mask = pa.array([value is None for value in values], pa.bool_())
    return AvroColumn(pa.StructArray.from_arrays(parts, fields=list(arrow_type(spark_type(schema))), mask=mask), reasons)


def _maps(values: list[Any], schema: Any, field: str) -> AvroColumn:
    entries = list(chain.from_iterable(value.items() for value in values if value))
    items = to_column([item for _, item in entries], schema["values"], f"{field}[]")
    array = pa.MapArray.from_arrays(_offsets(values), pa.array([key for key, _ in entries], pa.string()), items.array)
    return AvroColumn(array.cast(arrow_type(spark_type(schema))), _of_owners(items.reasons, values))


def _offsets(values: list[Any]) -> pa.Array:
    """Where each list or map begins; NULL for one that is NULL."""
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)])
    return pa.array(ends, pa.int32(), mask=np.array([*(value is None for value in values), False]))


def _of_owners(reasons: dict[int, str], values: list[Any]) -> dict[int, str]:
    """Reasons by position of an element, as reasons by position of its list."""
    if not reasons:
        return {}
    owners = np.repeat(np.arange(len(values)), [0 if value is None else len(value) for value in values])
    return {int(owners[position]): reason for position, reason in reversed(reasons.items())}
