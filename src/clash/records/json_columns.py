"""JSON tokens as Arrow columns, with the meaning of Spark's `from_json`: one column at a time, and every value that does not fit is named.

The tokens come from the quick decoder (float, dict) or from the complete one (`Number`, `Pairs`). A token that only the complete decoder
keeps in full counts as a misfit when it comes from the quick one; the record is then decoded again.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.records.json_numbers import as_double, as_float, in_the_middle
from clash.records.json_text import shown, text_of
from clash.records.json_tokens import Number, Pairs
from clash.records.text_columns import DECIMAL, parse_column
from clash.records.wording import misfit

_NONE = type(None)
_INSTANT = pa.timestamp("us", tz="UTC")
_DECIMAL = re.compile(DECIMAL)
_SECONDS = 2**63 // 1_000_000  # the largest number of seconds that a timestamp has; Spark takes larger ones modulo 2^64


@dataclass(frozen=True)
class Misfit:
    """A value that its declared type does not have."""

    field: str  # dotted, from the column down
    kind: pa.DataType
    token: Any
    note: str = ""

    def reason(self) -> str:
        return misfit(self.field, self.kind, shown(self.token), self.note or _note(self.kind, shown(self.token)))


def _note(kind: pa.DataType, text: str) -> str:
    """Why a string column refuses a token, though it takes nearly all."""
    if not pa.types.is_string(kind):
        return ""
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "half of a surrogate pair"
    return "which text Spark makes of such a number depends on the version of Java; declare it as double or decimal"


@dataclass(frozen=True)
class JsonColumn:
    """One value per token, NULL for those that do not fit; these by position."""

    array: pa.Array
    misfits: dict[int, Misfit]


def to_column(tokens: list[Any], kind: pa.DataType, field: str, timezone: str) -> JsonColumn:
    """The tokens as a column of the type. None is NULL."""
    if pa.types.is_struct(kind):
        return _structs(tokens, kind, field, timezone)
    if pa.types.is_map(kind):
        return _maps(tokens, kind, field, timezone)
    if pa.types.is_list(kind):
        return _lists(tokens, kind, field, timezone)
    array, bad = _atomic(tokens, kind, timezone)
    return JsonColumn(array, {position: Misfit(field, kind, tokens[position]) for position in bad})


def _atomic(tokens: list[Any], kind: pa.DataType, timezone: str) -> tuple[pa.Array, list[int]]:
    types = set(map(type, tokens))
    if pa.types.is_boolean(kind):
        return _values(tokens, types <= {bool, _NONE}, lambda token: token if type(token) is bool else _BAD, kind)
    if pa.types.is_integer(kind):
        return _integers(tokens, types, kind)
    if pa.types.is_float64(kind):
        return _values(tokens, types <= {float, _NONE}, as_double, kind)
    if pa.types.is_float32(kind):
        return _floats(tokens) if types <= {float, _NONE} else _values(tokens, False, as_float, kind)
    if pa.types.is_string(kind):
        return _strings(tokens, types)
    if pa.types.is_binary(kind):
        return _values(tokens, types <= {_NONE}, _from_base64, kind)
    if pa.types.is_decimal(kind):
        return _texts([_decimal_text(token) for token in tokens], tokens, kind, timezone)
    return _times(tokens, types, kind, timezone)


_BAD = object()


def _values(tokens: list[Any], plain: bool, convert: Callable[[Any], Any], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """The tokens as they are if they are plain; otherwise each is converted, which raises ValueError or gives _BAD for a misfit."""
    if plain:
        return pa.array(tokens, kind), []
    values, bad = [], []
    for position, token in enumerate(tokens):
        try:
            value = None if token is None else convert(token)
        except ValueError:
            value = _BAD
        if value is _BAD:
            bad.append(position)
        values.append(None if value is _BAD else value)
    return pa.array(values, kind), bad


def _floats(tokens: list[Any]) -> tuple[pa.Array, list[int]]:
    """Doubles of the quick decoder as floats; those for which rounding needs the text of the number are misfits."""
    doubles = pa.array(tokens, pa.float64())
    middle = in_the_middle(doubles.to_numpy(zero_copy_only=False))
    return doubles.cast(pa.float32(), safe=False), np.flatnonzero(middle).tolist()


def _integers(tokens: list[Any], types: set[type], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    if types <= {int, _NONE}:
        try:
            return pa.array(tokens, kind), []
        except (OverflowError, pa.ArrowInvalid):
            pass  # one of them does not fit, and is looked for
    limit = 2 ** (kind.bit_width - 1)
    return _values(tokens, False, lambda token: token if type(token) is int and -limit <= token < limit else _BAD, kind)


def _strings(tokens: list[Any], types: set[type]) -> tuple[pa.Array, list[int]]:
    if types <= {str, _NONE}:
        try:
            return pa.array(tokens, pa.string()), []
        except UnicodeEncodeError:
            pass  # half of a surrogate pair
    return _values(tokens, False, _string, pa.string())


def _string(token: Any) -> str:
    text = token if type(token) is str else text_of(token)
    text.encode()  # which raises a ValueError
    return text


def _from_base64(token: Any) -> Any:
    """Padded to four characters, without white space: the padding that Python ignores, Spark refuses."""
    if type(token) is not str or len(token) % 4:
        return _BAD
    try:
        return b64decode(token, validate=True)
    except binascii.Error:
        return _BAD


def _decimal_text(token: Any) -> str | None:
    """The text of a number, or of a string that is one."""
    if type(token) is int:
        return str(token)
    return str(token) if type(token) in (Number, str) and _DECIMAL.fullmatch(token) else None


def _times(tokens: list[Any], types: set[type], kind: pa.DataType, timezone: str) -> tuple[pa.Array, list[int]]:
    if types <= {str, _NONE}:
        return _texts(tokens, tokens, kind, timezone)
    texts, bad = _texts([token if type(token) is str else None for token in tokens], tokens, kind, timezone)
    if kind != _INSTANT:
        return texts, bad
    seconds = [token if type(token) is int and abs(token) <= _SECONDS else None for token in tokens]
    micros = pa.array([None if second is None else second * 1_000_000 for second in seconds], pa.int64())
    return pc.coalesce(texts, micros.view(kind)), [position for position in bad if seconds[position] is None]


def _texts(texts: list[str | None], tokens: list[Any], kind: pa.DataType, timezone: str) -> tuple[pa.Array, list[int]]:
    """Texts as times or decimals; a token for which there is no text is a misfit."""
    missing = [position for position, text in enumerate(texts) if text is None and tokens[position] is not None] if None in texts else []
    try:
        column = pa.array(texts, pa.string())
    except UnicodeEncodeError:
        column = pa.array([None if text is None else text.encode(errors="replace").decode() for text in texts], pa.string())
    array, bad = parse_column(column, kind, timezone)
    return array, sorted([*bad, *missing])


def _structs(tokens: list[Any], kind: pa.DataType, field: str, timezone: str) -> JsonColumn:
    objects: list[dict[str, Any] | None] = [
        token if type(token) is dict else dict(token) if type(token) is Pairs else None for token in tokens
    ]
    misfits = _outer_misfits(tokens, objects, kind, field)
    parts: list[pa.Array] = []
    inner: dict[int, Misfit] = {}
    for part in kind:
        column = to_column(
            [None if value is None else value.get(part.name) for value in objects], part.type, f"{field}.{part.name}", timezone
        )
        parts.append(column.array)
        inner |= column.misfits
    mask = pa.array([value is None for value in objects], pa.bool_())
    return JsonColumn(pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask), inner | misfits)


def _lists(tokens: list[Any], kind: pa.DataType, field: str, timezone: str) -> JsonColumn:
    lists = [token if type(token) is list else None for token in tokens]
    misfits = _outer_misfits(tokens, lists, kind, field)
    column = to_column(list(chain.from_iterable(value for value in lists if value)), kind.value_type, f"{field}[]", timezone)
    array = pa.ListArray.from_arrays(_offsets(lists), column.array, type=kind)
    return JsonColumn(array, _of_owners(column.misfits, lists) | misfits)


def _maps(tokens: list[Any], kind: pa.DataType, field: str, timezone: str) -> JsonColumn:
    """Keys of a map must differ, which the quick decoder cannot tell."""
    maps = [token if type(token) is Pairs else None for token in tokens]
    misfits = _outer_misfits(tokens, maps, kind, field)
    for position, value in enumerate(maps):
        if value is not None and len(dict(value)) < len(value):
            misfits[position] = Misfit(field, kind, tokens[position], "a key occurs twice")
    entries = list(chain.from_iterable(value for value in maps if value))
    keys = to_column([key for key, _ in entries], kind.key_type, field, timezone)
    items = to_column([item for _, item in entries], kind.item_type, f"{field}[]", timezone)
    array = pa.MapArray.from_arrays(_offsets(maps), keys.array.fill_null(""), items.array).cast(kind)
    return JsonColumn(array, _of_owners(keys.misfits | items.misfits, maps) | misfits)


def _outer_misfits(tokens: list[Any], values: Iterable[Any], kind: pa.DataType, field: str) -> dict[int, Misfit]:
    pairs = enumerate(zip(tokens, values, strict=True))
    return {position: Misfit(field, kind, token) for position, (token, value) in pairs if value is None and token is not None}


def _offsets(values: list[Any]) -> pa.Array:
    """Where each list begins; NULL for a list that is NULL."""
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)])
    return pa.array(ends, pa.int32(), mask=np.array([*(value is None for value in values), False]))


def _of_owners(misfits: dict[int, Misfit], values: list[Any]) -> dict[int, Misfit]:
    """Misfits by position of an element, as misfits by position of its list."""
    if not misfits:
        return {}
    owners = np.repeat(np.arange(len(values)), [0 if value is None else len(value) for value in values])
    return {int(owners[position]): misfit for position, misfit in reversed(misfits.items())}
