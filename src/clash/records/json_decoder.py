"""JSON records: msgspec decodes all values, and what it cannot decide is decoded again, completely, record by record.

A value is read as Spark's `from_json` reads it, or the record is rejected. Objects become columns one column at a time: nearly always all
values of a column are of the one Python type that fits, and Arrow converts them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import pyarrow as pa

from clash.expressions.arrow_types import arrow_type
from clash.records.json_columns import to_column
from clash.records.json_tokens import LONGEST_NUMBER, NotJsonError, Number, is_deep, is_long_number, parse_tokens

Columns = dict[str, pa.Array]


def decode_json(columns: tuple[tuple[str, str], ...], values: Sequence[bytes], timezone: str) -> tuple[Columns, dict[int, str]]:
    """All declared columns, with one value per record (of any content where it is rejected), and the reasons of the rejected records."""
    kinds = {name: arrow_type(kind) for name, kind in columns}
    rows, undecided = _quick_rows(columns, values)
    arrays = {}
    for number, (name, kind) in enumerate(kinds.items()):
        column = to_column(list(map(attrgetter(f"f{number}"), rows)), kind, name, timezone)
        arrays[name] = column.array
        undecided |= column.misfits.keys()
    if not undecided:
        return arrays, {}
    again = sorted(undecided)
    complete, rejected = decode_completely(kinds, [values[position] for position in again], timezone)
    return _replaced(arrays, complete, again, len(values)), {again[position]: reason for position, reason in rejected.items()}


def _quick_rows(columns: tuple[tuple[str, str], ...], values: Sequence[bytes]) -> tuple[list[Any], set[int]]:
    """One row per value, and the positions of those that have to be decoded completely."""
    decode, empty = _quick_decoder(columns)
    rows: list[Any] = []
    undecided: set[int] = set()
    remaining = iter(values)
    while len(rows) < len(values):
        try:
            rows.extend(map(decode, remaining))  # which keeps the rows before one that fails
        except (ValueError, RecursionError):
            undecided.add(len(rows))
            rows.append(empty)
    if not _is_utf8(values):  # msgspec does not look into strings of fields that are not declared
        undecided.update(position for position, value in enumerate(values) if not _is_utf8([value]))
    if max(map(len, values)) > LONGEST_NUMBER:
        undecided.update(position for position, value in enumerate(values) if is_long_number(value) or is_deep(value))
    return rows, undecided


@lru_cache(maxsize=64)
def _quick_decoder(columns: tuple[tuple[str, str], ...]) -> tuple[Callable[[bytes], Any], Any]:
    """A decoder of objects with the declared fields, any of which may be missing, and a row without values."""
    import msgspec

    fields = [(f"f{number}", Any, None) for number in range(len(columns))]
    names = {f"f{number}": name for number, (name, _) in enumerate(columns)}
    row = msgspec.defstruct("Row", fields, rename=names, gc=False)
    exact = any("decimal(" in kind for _, kind in columns)  # a decimal is read from the text of the number
    return msgspec.json.Decoder(row, float_hook=Number if exact else None).decode, row()


def _is_utf8(values: Sequence[bytes]) -> bool:
    text = b"\n".join(values)
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def decode_completely(kinds: dict[str, pa.DataType], values: list[bytes], timezone: str) -> tuple[Columns, dict[int, str]]:
    """As `decode_json`, one record after the other: slower, and it keeps the text of numbers and all keys of objects."""
    objects: list[dict[str, Any]] = []
    rejected: dict[int, str] = {}
    for position, value in enumerate(values):
        try:
            objects.append(dict(parse_tokens(value)))
        except NotJsonError as error:
            rejected[position] = str(error)
            objects.append({})
    arrays = {}
    for name, kind in kinds.items():
        column = to_column([value.get(name) for value in objects], kind, name, timezone)
        arrays[name] = column.array
        for position, misfit in column.misfits.items():
            rejected.setdefault(position, misfit.reason())
    return arrays, rejected


def _replaced(arrays: Columns, complete: Columns, positions: list[int], length: int) -> Columns:
    """The columns in which the values at the positions are the ones that were decoded completely."""
    order = list(range(length))
    for number, position in enumerate(positions):
        order[position] = length + number
    taken = pa.array(order, pa.int64())
    return {name: pa.concat_arrays([array, complete[name]]).take(taken) for name, array in arrays.items()}
