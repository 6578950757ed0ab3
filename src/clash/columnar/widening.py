"""Columns brought to the type that a comparison happens in, the way Spark widens them implicitly; NULLs become arbitrary values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clash.columnar.arrow_views import validity, values
from clash.expressions.decimals import rescaled
from clash.expressions.temporal import from_local, midnight

Int64s = NDArray[np.int64]
Doubles = NDArray[np.float64]

_EXACT_INTEGER = 2**53  # up to here a double holds every integer, ...
_EXACT_POWER = 22  # ... and up to here every power of ten: a quotient of two such is correctly rounded
_NUMBERS: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


def integers(column: pa.Array) -> Int64s:
    return values(column, _NUMBERS[column.type]).astype(np.int64, copy=False)


def doubles(column: pa.Array) -> Doubles:
    """Any number as a double, correctly rounded."""
    if pa.types.is_decimal(column.type):
        return _doubles_of_decimals(column)
    return values(column, _NUMBERS[column.type]).astype(np.float64, copy=False)


def unscaled(column: pa.Array, scale: int) -> Int64s:
    """Integers and decimals as decimals of that scale: the lower and upper word of each, as an array of two columns."""
    if not pa.types.is_decimal128(column.type):
        column = column.cast(pa.decimal128(38, scale))
    elif column.type.scale != scale:
        column = rescaled(column, pa.decimal128(38, scale))
    return values(column, np.int64, 2).reshape(-1, 2)


def instants(column: pa.Array, timezone: str | None) -> Int64s:
    """Dates and times as microseconds since 1970: in UTC, if local ones are of `timezone`; on the clock on the wall, if that is None."""
    if pa.types.is_date32(column.type):
        return values(column.cast(pa.timestamp("us")) if timezone is None else midnight(column, timezone), np.int64)
    if column.type.unit != "us":
        column = column.cast(pa.timestamp("us", column.type.tz))
    if column.type.tz is None and timezone is not None:
        column = from_local(column, timezone)
    return values(column, np.int64)


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
    quotients = low / float(10 ** min(scale, _EXACT_POWER))
    exact = (parts[:, 1] == low >> 63) & (low <= _EXACT_INTEGER) & (low >= -_EXACT_INTEGER) & (scale <= _EXACT_POWER)
    valid = validity(column)
    rest = np.flatnonzero(~exact if valid is None else valid & ~exact)
    if rest.size:
        quotients[rest] = values(column.take(pa.array(rest)).cast(pa.string()).cast(pa.float64()), np.float64)
    return quotients
