"""Spark type names as Arrow types. Each name maps to exactly one Arrow type, so arrays of one Spark type can always be concatenated."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from clash.errors import OptionError
from clash.model.types import split_at_commas, split_field

_ATOMIC = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval": pa.duration("us"),
    "void": pa.null(),
}
_HINT = "atomic types, array<…>, map<…, …> and struct<name: …> are known"


@lru_cache(maxsize=4096)
def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a Spark type given by its `simpleString`.

    The time zone of an Arrow timestamp is only a label, which is always UTC here. Raises OptionError if the type is not supported.
    """
    atomic = _ATOMIC.get(name)
    if atomic is not None:
        return atomic
    if name.startswith("decimal(") and name.endswith(")"):
        precision, _, scale = name[len("decimal(") : -1].partition(",")
        if precision.strip().isdigit() and scale.strip().isdigit() and 0 <= int(scale) <= int(precision) <= 38 and int(precision) > 0:
            return pa.decimal128(int(precision), int(scale))
    if name.startswith(("varchar(", "char(")):
        return pa.string()
    if name.startswith("interval day"):
        return pa.duration("us")
    outer, opened, inner = name.partition("<")
    if opened and inner.endswith(">"):
        nested = _nested(outer, split_at_commas(inner[:-1]))
        if nested is not None:
            return nested
    raise OptionError("this type is not supported", name, _HINT)


def _nested(outer: str, parts: list[str]) -> pa.DataType | None:
    """An array, map or struct of the given element types or fields; None if `outer` is none of these or the number of parts is wrong."""
    if outer == "array" and len(parts) == 1:
        return pa.list_(pa.field("element", arrow_type(parts[0].strip())))
    if outer == "map" and len(parts) == 2:
        return pa.map_(arrow_type(parts[0].strip()), arrow_type(parts[1].strip()))
    if outer == "struct":
        return pa.struct([_field(part) for part in parts])
    return None


def _field(part: str) -> pa.Field:
    name, kind = split_field(part)
    if not kind:
        raise OptionError("this type is not supported", part.strip(), _HINT)
    return pa.field(name, arrow_type(kind))
