"""Fields of CSV as Arrow columns, with the meaning of Spark's `from_csv`. An empty field is NULL, also of a string."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.records.json_numbers import as_double, as_float
from clash.records.json_tokens import Number
from clash.records.text_columns import DECIMAL, Parsed, parse_column

_INTEGER = r"^[+-]?[0-9]+$"
_FLOATING = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SPACE = "".join(map(chr, range(33)))  # what Java ignores before and after a double, and before and after nothing else
_LONGEST = 1000  # digits of an integer, as in JSON
_SPECIAL = pa.array(["NaN", "Inf", "Infinity", "+Infinity", "-Inf", "-Infinity"])
_SPECIAL_VALUES = pa.array([float("nan"), *[float("inf")] * 3, *[float("-inf")] * 2])


def to_column(fields: pa.Array, kind: pa.DataType, timezone: str) -> Parsed:
    """The fields as a column of the type, and the positions of those that do not fit, which are NULL."""
    texts = pc.if_else(pc.equal(fields, ""), None, fields)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return texts.cast(kind), []
    if pa.types.is_boolean(kind):
        lower = pc.ascii_lower(texts)
        texts, bad = _only(texts, pc.or_(pc.equal(lower, "true"), pc.equal(lower, "false")))
        return pc.equal(pc.ascii_lower(texts), "true"), bad
    if pa.types.is_integer(kind):
        return _integers(texts, kind)
    if pa.types.is_floating(kind):
        return _floats(pc.utf8_trim(texts, characters=_SPACE), kind)
    if pa.types.is_decimal(kind):
        texts, bad = _only(texts, pc.match_substring_regex(texts, DECIMAL))
        array, too_large = parse_column(texts, kind, timezone)
        return array, sorted([*bad, *too_large])
    return parse_column(texts, kind, timezone)


def _only(texts: pa.Array, good: pa.Array) -> Parsed:
    """The good texts, NULL for the others, and the positions of these."""
    bad = pc.invert(good).fill_null(False)
    return pc.if_else(bad, None, texts), np.flatnonzero(bad.to_numpy(zero_copy_only=False)).tolist()


def _integers(texts: pa.Array, kind: pa.DataType) -> Parsed:
    texts, bad = _only(texts, pc.match_substring_regex(texts, _INTEGER))
    texts = pc.utf8_ltrim(texts, characters="+")
    try:
        return texts.cast(kind), bad
    except pa.ArrowInvalid:
        limit = 2 ** (kind.bit_width - 1)
    numbers = [None if text is None else int(text) if len(text) <= _LONGEST else 2 * limit for text in texts.to_pylist()]
    fitting = [number if number is not None and -limit <= number < limit else None for number in numbers]
    too_large = [position for position, number in enumerate(numbers) if number is not None and fitting[position] is None]
    return pa.array(fitting, kind), sorted([*bad, *too_large])


def _floats(texts: pa.Array, kind: pa.DataType) -> Parsed:
    """Arrow reads the usual numbers; what it refuses among numbers of the right form is too large or too small, which is no error."""
    special = pc.index_in(texts, value_set=_SPECIAL, skip_nulls=True)
    plain, bad = _only(texts, pc.or_(pc.match_substring_regex(texts, _FLOATING), special.is_valid()))
    plain = pc.if_else(special.is_valid(), None, plain)
    try:
        numbers = plain.cast(kind)
    except pa.ArrowInvalid:
        convert = as_float if pa.types.is_float32(kind) else as_double
        numbers = pa.array([None if text is None else convert(Number(text)) for text in plain.to_pylist()], kind)
    return pc.coalesce(_SPECIAL_VALUES.cast(kind).take(special), numbers), bad
