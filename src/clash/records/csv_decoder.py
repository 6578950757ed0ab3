"""CSV records: one line of fields per value, with the meaning of Spark's `from_csv`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import methodcaller

import pyarrow as pa

from clash.expressions.arrow_types import arrow_type
from clash.records.csv_columns import to_column
from clash.records.wording import misfit

Columns = dict[str, pa.Array]

_BYTE_ORDER_MARK = "\ufeff"


class NotCsvError(ValueError):
    """The value cannot be split into fields; the message is the reason."""


def decode_csv(
    columns: tuple[tuple[str, str], ...], separator: str, values: Sequence[bytes], timezone: str
) -> tuple[Columns, dict[int, str]]:
    """All declared columns, with one value per record (of any content where it is rejected), and the reasons of the rejected records."""
    rejected: dict[int, str] = {}
    by_column = _plain_fields(values, separator, len(columns))
    if by_column is None:
        rows, rejected = _rows(values, separator, len(columns))
        by_column = [[row[number] for row in rows] for number in range(len(columns))]
    arrays = {}
    for (name, kind), fields in zip(columns, by_column, strict=True):
        arrays[name], bad = to_column(pa.array(fields, pa.string()), arrow_type(kind), timezone)
        for position in bad:
            rejected.setdefault(position, misfit(name, arrow_type(kind), f'"{fields[position]}"'))
    return arrays, rejected


def _plain_fields(values: Sequence[bytes], separator: str, width: int) -> list[list[str]] | None:
    """The fields by column, if all values can be split at once: no quotes, no line breaks, and as many fields as are declared."""
    joined = b"\n".join(values)
    if b'"' in joined or joined.count(b"\n") != len(values) - 1:
        return None
    try:
        text = joined.decode()
    except UnicodeDecodeError:
        return None
    lines = text.split("\n")
    if set(map(methodcaller("count", separator), lines)) != {width - 1} or _BYTE_ORDER_MARK in text or (width == 1 and "" in lines):
        return None
    fields = text.replace("\n", separator).split(separator)
    return [fields[number::width] for number in range(width)]


def _rows(values: Sequence[bytes], separator: str, width: int) -> tuple[list[list[str]], dict[int, str]]:
    """The fields of each value, and the reasons of those that cannot be split; these have as many empty fields."""
    split = _splitter(separator)
    rows, rejected = [], {}
    for position, value in enumerate(values):
        try:
            rows.append(_checked(split(value), width))
        except NotCsvError as error:
            rejected[position] = str(error)
            rows.append([""] * width)
    return rows, rejected


def _checked(fields: list[str], width: int) -> list[str]:
    if len(fields) != width:
        raise NotCsvError(f"{width} fields are declared and it has {len(fields)}")
    return fields


@lru_cache(maxsize=16)
def _splitter(separator: str) -> Callable[[bytes], list[str]]:
    """A function that splits a value into its fields.

    A quoted field may have separators, and quotes after a backslash. A quote in the middle of an unquoted field is a character like any
    other. Doubled quotes are refused: Spark does not read them as one.
    """
    end = rf"(?:{re.escape(separator)}|\Z)"
    field = re.compile(rf'"((?:[^"\\]|\\.)*)"{end}|((?!")[^{re.escape(separator)}]*){end}', re.DOTALL)

    def split(value: bytes) -> list[str]:
        if not value:
            raise NotCsvError("empty value")
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            raise NotCsvError(f"not UTF-8: byte 0x{value[error.start]:02x} at byte {error.start}") from None
        if text.startswith(_BYTE_ORDER_MARK):
            raise NotCsvError("it begins with a byte order mark")
        if '"' not in text:
            return text.split(separator)
        fields: list[str] = []
        begin = 0
        while True:
            match = field.match(text, begin)
            if match is None:
                raise NotCsvError(rf"the quotes of field {len(fields) + 1} do not end with it; a quote inside of quotes is written \"")
            fields.append(_unescaped(match[1]) if match[1] is not None else match[2])
            if match.end() == len(text) and not match[0].endswith(separator):
                return fields
            begin = match.end()

    return split


def _unescaped(text: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", text) if "\\" in text else text
