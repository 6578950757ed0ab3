"""Rows as Avro binary, column by column: what Spark's `to_avro(struct(*))` writes, without a header, and the schema to read it with.

Invariant: no loop over rows in Python. Every column may be NULL, so each is a union of its type and null, in this order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import OptionError

RECORD = "topLevelRecord"  # as Spark names it
_BYTES = pa.large_binary()
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = ((pa.types.is_boolean, "boolean"), (pa.types.is_int64, "long"), (pa.types.is_integer, "int"), (pa.types.is_float32, "float"),
          (pa.types.is_floating, "double"), (pa.types.is_string, "string"), (pa.types.is_binary, "bytes"))  # fmt: skip

Longs = np.ndarray[Any, np.dtype[np.int64]]


def avro_schema(columns: pa.Schema) -> str:
    """As JSON. OptionError if a column has a name or a type that Avro does not have."""
    return json.dumps(_record(RECORD, "", columns))


def avro_rows(batch: pa.RecordBatch) -> pa.Array:
    """One datum per row."""
    return _joined(*(_with_union(column) for column in batch.columns)) if batch.columns else pa.repeat(pa.scalar(b"", _BYTES), len(batch))


# ---- the schema --------------------------------------------------------------------------------------------------


def _record(name: str, space: str, fields: Sequence[pa.Field]) -> dict[str, Any]:
    wrong = next((field.name for field in fields if not _NAME.fullmatch(field.name)), None)
    if wrong is not None:
        hint = 'rename it in the query: SELECT … AS name, of letters, digits and _; or write format="json"'
        raise OptionError("a column's name is not possible in Avro", repr(wrong), hint)
    inner = f"{space}.{name}" if space else name
    named = {"namespace": space} if space else {}
    described = [{"name": field.name, "type": _nullable(field.type, field.name, inner)} for field in fields]
    return {"type": "record", "name": name, **named, "fields": described}


def _nullable(kind: pa.DataType, name: str, space: str) -> Any:
    return "null" if pa.types.is_null(kind) else [_described(kind, name, space), "null"]


def _described(kind: pa.DataType, name: str, space: str) -> Any:
    plain = next((described for matches, described in _PLAIN if matches(kind)), None)
    if plain is not None:
        return plain
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "local-timestamp-micros" if kind.tz is None else "timestamp-micros"}
    if pa.types.is_decimal(kind):
        logical = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return {"type": "fixed", "name": "fixed", "namespace": f"{space}.{name}", "size": _decimal_bytes(kind), **logical}
    if pa.types.is_struct(kind):
        return _record(name, space, list(kind))
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return {"type": "map", "values": _nullable(kind.item_type, name, space)}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type, name, space)}
    if pa.types.is_duration(kind):
        return {"type": "long", "spark.sql.catalyst.type": "interval day to second"}
    raise OptionError("a column's type is not possible in Avro", f"{name}: {kind}", 'maps need text as keys; or write format="json"')


def _decimal_bytes(kind: pa.DataType) -> int:
    """The fewest that hold all values of the precision."""
    largest: int = 10**kind.precision - 1
    return largest.bit_length() // 8 + 1


# ---- the data ----------------------------------------------------------------------------------------------------


def _with_union(values: pa.Array) -> pa.Array:
    """Each value after the number of its branch: 0 for the type, 1 for null; numbers are zigzag."""
    if pa.types.is_null(values.type):
        return pa.repeat(pa.scalar(b"", _BYTES), len(values))
    encoded = _joined(pa.scalar(b"\x00", _BYTES), _encoded(values))
    return encoded if values.null_count == 0 else pc.if_else(values.is_valid(), encoded, pa.scalar(b"\x02", _BYTES))


def _encoded(values: pa.Array) -> pa.Array:
    """Any bytes where the value is null."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return _fixed(_numpy(values, False).astype(np.uint8))
    if pa.types.is_integer(kind):
        return _varints(_numpy(values, 0).astype(np.int64))
    if pa.types.is_floating(kind):
        return _fixed(_numpy(values, 0.0).astype(f"<f{kind.bit_width // 8}", copy=False))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        content = values.cast(pa.binary()).fill_null(b"").cast(_BYTES)
        return _joined(_varints(_numpy(pc.binary_length(content), 0)), content)
    if pa.types.is_date(kind):
        return _varints(_numpy(values.view(pa.int32()), 0).astype(np.int64))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _varints(_numpy(values.view(pa.int64()), 0))
    if pa.types.is_decimal(kind):
        return _decimals(values)
    if pa.types.is_struct(kind):
        return _joined(*(_with_union(field) for field in values.flatten())) if len(kind) else pa.repeat(pa.scalar(b"", _BYTES), len(values))
    if pa.types.is_map(kind):
        return _blocks(values, _joined(_encoded(_children(values, values.keys)), _with_union(_children(values, values.items))))
    return _blocks(values, _with_union(_children(values, values.values)))


def _decimals(values: pa.Array) -> pa.Array:
    """Two's complement, the most significant byte first. Arrow has 16 bytes, the least significant first."""
    size = _decimal_bytes(values.type)
    raw = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, 16)[values.offset : values.offset + len(values)]
    return _fixed(np.ascontiguousarray(raw[:, :size][:, ::-1]))


def _blocks(values: pa.Array, items: pa.Array) -> pa.Array:
    """A list is a block with the number of its items before them, if it has any, and 0 at the end."""
    offsets = _numpy(values.offsets, 0).astype(np.int64)
    lengths = np.diff(offsets)
    content = pc.binary_join(pa.LargeListArray.from_arrays(pa.array(offsets - offsets[0]), items), pa.scalar(b"", _BYTES))
    block = _joined(_varints(lengths), content, pa.scalar(b"\x00", _BYTES))
    return pc.if_else(pa.array(lengths == 0), pa.scalar(b"\x00", _BYTES), block)


def _children(values: pa.Array, children: pa.Array) -> pa.Array:
    """The elements that belong to lists: a list may be a slice of a longer one."""
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return children.slice(first, last - first)


def _varints(numbers: Longs) -> pa.Array:
    """Zigzag, then seven bits per byte, the lowest first; all bytes but the last have the highest bit."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    lengths = np.ones(len(numbers), np.int64)
    for bits in range(7, 64, 7):
        lengths += zigzag >= np.uint64(1) << np.uint64(bits)
    offsets = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(offsets[-1], np.uint8)
    for position in range(lengths.max(initial=0)):
        at = np.flatnonzero(lengths > position)
        byte = (zigzag[at] >> np.uint64(7 * position)) & np.uint64(0x7F)
        data[offsets[at] + position] = byte.astype(np.uint8) | np.where(lengths[at] > position + 1, 0x80, 0).astype(np.uint8)
    return pa.Array.from_buffers(_BYTES, len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _fixed(values: np.ndarray[Any, Any]) -> pa.Array:
    """Rows of an array as so many bytes each."""
    size = values.itemsize * (values.shape[1] if values.ndim > 1 else 1)
    offsets = np.arange(len(values) + 1, dtype=np.int64) * size
    return pa.Array.from_buffers(_BYTES, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))])


def _numpy(values: pa.Array, null: Any) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = values.fill_null(null).to_numpy(zero_copy_only=False)
    return array


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", _BYTES))
