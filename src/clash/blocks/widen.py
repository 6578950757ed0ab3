"""Columns brought to the type that a comparison happens in, the way Spark widens them implicitly; NULLs become arbitrary values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clash.blocks.views import validity, values

Int64s = NDArray[np.int64]
Doubles = NDArray[np.float64]

_EXACT_INTEGER = 2**53  # up to here a double holds every integer, ...
_EXACT_POWER = 22  # ... and up to here every power of ten: a quotient of two such is correctly rounded
_DAY = 86_400_000_000
_NUMBERS: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
_MICROSECONDS = pa.timestamp("us")


def integers(column: pa.Array) -> Int64s:
    return values(column, _NUMBERS[column.type]).astype(np.int64, copy=False)


def doubles(column: pa.Array) -> Doubles:
    """Any number as a double, correctly rounded."""
    if pa.types.is_decimal(column.type):
        return _doubles_of_decimals(column)
    return values(column, _NUMBERS[column.type]).astype(np.float64, copy=False)


def unscaled(column: pa.Array, scale: int) -> Int64s:
    """Integers and decimals as decimals of that scale: the lower and upper word of each, as an array of two columns."""
    if not pa.types.is_decimal128(column.type) or column.type.scale < scale:
        column = column.cast(pa.decimal128(38, scale))
    elif column.type.scale > scale:
        # Spark rounds half up; with twice the digits there is room for the carry
        wide = pc.round(column.cast(pa.decimal256(76, column.type.scale)), scale, "half_towards_infinity")
        column = wide.cast(pa.decimal256(76, scale)).cast(pa.decimal128(38, scale))
    return values(column, np.int64, 2).reshape(-1, 2)


def instants(column: pa.Array, timezone: str | None) -> Int64s:
    """Dates and times as microseconds since 1970: in UTC, if local ones are of `timezone`; on the clock on the wall, if that is None."""
    if pa.types.is_timestamp(column.type):
        if column.type.unit != "us":
            column = column.cast(pa.timestamp("us", column.type.tz))
        if (column.type.tz is None) == (timezone is None):
            return values(column, np.int64)
        if timezone is None:
            raise TypeError("an instant is never widened to a local time")
        return _to_utc(values(column, np.int64), timezone, start_of_day=False)
    midnights = values(column, np.int32).astype(np.int64) * _DAY
    return midnights if timezone is None else _to_utc(midnights, timezone, start_of_day=True)


def texts(column: pa.Array) -> pa.Array:
    """Strings and binaries with 32-bit offsets."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column
    return column.cast(pa.binary() if pa.types.is_large_binary(column.type) else pa.string())


def _doubles_of_decimals(column: pa.Array) -> Doubles:
    """Java rounds the decimal number itself, not the quotient of two rounded ones: where that could differ, we go through its text."""
    scale = column.type.scale
    parts = unscaled(column, scale)
    low = parts[:, 0]
    large = (parts[:, 1] != low >> 63) | (low > _EXACT_INTEGER) | (low < -_EXACT_INTEGER)
    valid = validity(column)
    if valid is not None:
        large &= valid
    quotients = low / float(10 ** min(scale, _EXACT_POWER))
    if scale > _EXACT_POWER:
        large = low != 0
    if large.any():
        rows = np.flatnonzero(large)
        quotients[rows] = values(column.take(pa.array(rows)).cast(pa.string()).cast(pa.float64()), np.float64)
    return quotients


def _to_utc(local: Int64s, timezone: str, start_of_day: bool) -> Int64s:
    """Of two equal local times the earlier; one that the clock skips is moved on by what is skipped, a midnight to where the day starts."""
    if timezone in ("UTC", "Z"):
        return local
    times = pa.Array.from_buffers(_MICROSECONDS, local.size, [None, pa.py_buffer(local)])
    if start_of_day:
        return values(pc.assume_timezone(times, timezone, ambiguous="earliest", nonexistent="latest"), np.int64)
    before = pc.assume_timezone(times, timezone, ambiguous="earliest", nonexistent="earliest")
    utc: Int64s = values(before, np.int64) + (local - values(pc.local_timestamp(before), np.int64))
    return utc
