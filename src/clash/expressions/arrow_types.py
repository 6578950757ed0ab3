"""Spark's names of types as Arrow types: one answer for every name, so that arrays of one type can always be put together."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from clash.errors import OptionError

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
    """Of a `simpleString`; the time zone of a timestamp is a label, always UTC here."""
    found = _ATOMIC.get(name)
    if found is not None:
        return found
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
        nested = _nested(outer, _parts(inner[:-1]))
        if nested is not None:
            return nested
    raise OptionError("this type is not supported", name, _HINT)


def _nested(outer: str, parts: list[str]) -> pa.DataType | None:
    if outer == "array" and len(parts) == 1:
        return pa.list_(pa.field("element", arrow_type(parts[0].strip())))
    if outer == "map" and len(parts) == 2:
        return pa.map_(arrow_type(parts[0].strip()), arrow_type(parts[1].strip()))
    if outer == "struct":
        return pa.struct([_field(part) for part in parts])
    return None


def _field(part: str) -> pa.Field:
    part = part.strip()
    end = part.find("`", 1) + 1 if part.startswith("`") else part.find(":")
    if end <= 0 or part[end : end + 1] != ":":
        raise OptionError("this type is not supported", part, _HINT)
    return pa.field(part[:end].strip("`"), arrow_type(part[end + 1 :].strip()))


def _parts(inner: str) -> list[str]:
    """Cut at the commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(inner):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append(inner[begin:at])
            begin = at + 1
    return [*parts, inner[begin:]] if inner.strip() else []
