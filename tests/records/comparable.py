"""Columns as texts, for comparing those of two engines."""

from __future__ import annotations

import pyarrow as pa


def plain(values: pa.Array) -> list[str]:
    """Texts that can be compared: times as numbers, because Python's end with the year 9999."""
    return [str(value) for value in values.cast(_with_numbers(values.type)).to_pylist()]


def _with_numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_map(kind):
        return pa.map_(_with_numbers(kind.key_type), _with_numbers(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_numbers(field.type)) for field in kind])
    return pa.list_(_with_numbers(kind.value_type)) if pa.types.is_list(kind) else kind
