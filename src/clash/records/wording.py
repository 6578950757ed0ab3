"""Reasons for which records are rejected: one line each, with the offending text cut to a length that fits a log."""

from __future__ import annotations

import pyarrow as pa

_LONGEST = 60
_ATOMIC = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def misfit(field: str, kind: pa.DataType, text: str, note: str = "") -> str:
    """The reason for a value that its declared type does not have. `text` is the value as it is in the record.

    >>> misfit("n", pa.int8(), "200")
    'field n is tinyint and has 200'
    """
    return f"field {field} is {type_name(kind)} and has {shorten(text)}" + (f" ({note})" if note else "")


def shorten(text: str) -> str:
    """One line of at most 60 characters; what cannot be printed is escaped."""
    cut = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in cut)


def type_name(kind: pa.DataType) -> str:
    """The name under which a user declares the type; of a nested one only the outermost word."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return "map"
    if pa.types.is_list(kind):
        return "array"
    if pa.types.is_struct(kind):
        return "struct"
    return _ATOMIC.get(kind, str(kind))
