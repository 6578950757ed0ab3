"""Columns as Spark writes them, `order_id long, ts timestamp`, read without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clash.errors import OptionError
from clash.hints import did_you_mean
from clash.model.types import is_atomic, is_decimal, normalise

_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*(?::\s*|\s+)(.+?)\s*", re.DOTALL)
_SUFFIX = re.compile(r"\s+NOT\s+NULL\b.*|\s+COMMENT\s+'.*", re.IGNORECASE | re.DOTALL)
_NESTED = re.compile(r"(array|map|struct)\s*<.*>", re.IGNORECASE | re.DOTALL)
_OTHERS = ("timestamp_ltz", "void", "variant", "interval")
_KNOWN = (
    "long",
    "bigint",
    "int",
    "integer",
    "short",
    "byte",
    "double",
    "float",
    "string",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)
_HINT = 'write columns and types, such as "order_id long, total decimal(10,2), ts timestamp"'


def parse_columns(text: str) -> dict[str, str]:
    """Types by name.

    >>> parse_columns("a long, `b c`: decimal(10, 2) NOT NULL, s struct<x: int, y: string>")
    {'a': 'bigint', 'b c': 'decimal(10,2)', 's': 'struct<x: int, y: string>'}
    """
    columns: dict[str, str] = {}
    for part in _parts(text):
        match = _COLUMN.fullmatch(part)
        if match is None:
            raise OptionError("the schema cannot be read", repr(part.strip()) if part.strip() else "an empty column", _HINT)
        name = match[1].replace("``", "`") if match[1] else match[2]
        kind = _type(_SUFFIX.sub("", match[3]))
        if name.lower() in (other.lower() for other in columns):
            raise OptionError("two columns of one name", name, "give one of them another name")
        columns[name] = kind
    return columns


def _type(text: str) -> str:
    kind = "timestamp" if text.lower() == "timestamp_ltz" else normalise(text)
    if not (is_atomic(kind) or is_decimal(kind) or _NESTED.fullmatch(kind) or kind in _OTHERS) or kind == "unknown":
        raise OptionError("unknown type", repr(text), did_you_mean(text, _KNOWN, _HINT))
    return kind


def _parts(text: str) -> Iterator[str]:
    """Split at commas outside of brackets and quotes."""
    depth, start, quote = 0, 0, ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]
