"""Columns of texts as times and decimals, with the positions of the texts that are none, instead of the error of a cast."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions.temporal import from_local
from clash.expressions.text_to_value import parse_text
from clash.records.wording import type_name

Parsed = tuple[pa.Array, list[int]]

DECIMAL = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?$"  # without white space, which Spark's readers do not allow

_WITHOUT_ZONE = (
    r"^[\x00-\x20\x7f]*[+-]?[0-9]{4,7}(-[0-9]{1,2}(-[0-9]{1,2}([ T][0-9]{1,2}(:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]*)?)?)?)?)?)?[\x00-\x20\x7f]*$"
)
_SHORTEST = len("2024-02-29T12:34:56Z")  # after an hour or a minute Arrow accepts a zone, too, and everywhere other zones than Z
_LONG_YEAR = r"^[\x00-\x20\x7f]*[+-]?[0-9]{6}"


def parse_column(texts: pa.Array, kind: pa.DataType, timezone: str) -> Parsed:
    """Strings as a time or decimal, as Spark's CAST reads them. A text that is none gives NULL, and its position is in the list."""
    if pa.types.is_timestamp(kind):
        return _parse_timestamps(texts, kind, timezone)
    if pa.types.is_date(kind):
        with suppress(pa.ArrowInvalid):  # Arrow reads yyyy-MM-dd only, in which it agrees with Spark
            return texts.cast(kind), []
    return _split(texts, lambda part: parse_text(part, type_name(kind), timezone), kind)


def _parse_timestamps(texts: pa.Array, kind: pa.DataType, timezone: str) -> Parsed:
    """Arrow reads the usual forms, in which it agrees with Spark, several times faster."""
    local = pa.timestamp("us")
    in_utc = pc.any(pc.ends_with(texts, "Z")).as_py()  # asked first: a cast that fails takes long, because it looks at all values
    if not in_utc:
        with suppress(pa.ArrowInvalid):
            times = texts.cast(local)
            return (times if kind == local else from_local(times, timezone)), []
    elif kind != local and pc.all(pc.ends_with(texts, "Z")).as_py() and pc.min(pc.binary_length(texts)).as_py() >= _SHORTEST:
        with suppress(pa.ArrowInvalid):
            return texts.cast(kind), []
    refused = pc.match_substring_regex(texts, _LONG_YEAR)  # near the limits of 64 bits, where a zone could make the difference
    if kind == local:  # a cast ignores a zone, which the readers of JSON and CSV refuse
        refused = pc.or_(refused, pc.invert(pc.match_substring_regex(texts, _WITHOUT_ZONE)))
    refused = refused.fill_null(False)
    times, bad = _split(pc.if_else(refused, None, texts), lambda part: parse_text(part, type_name(kind), timezone), kind)
    return times, sorted([*bad, *np.flatnonzero(refused.to_numpy(zero_copy_only=False)).tolist()])


def _split(texts: pa.Array, parse: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> Parsed:
    """Parse all at once; where that fails, each half by itself, down to the texts that cannot be parsed."""
    try:
        return parse(texts), []
    except DataError:
        if len(texts) == 1:
            return pa.nulls(1, kind), [0]
    middle = len(texts) // 2
    (left, bad_left), (right, bad_right) = _split(texts[:middle], parse, kind), _split(texts[middle:], parse, kind)
    return pa.concat_arrays([left, right]), bad_left + [position + middle for position in bad_right]
