"""Columns cast to the type in which a comparison takes place, as Spark widens them implicitly. NULLs become arbitrary values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clash.columnar.arrow_views import fixed_width, validity
from clash.expressions.decimals import rescale
from clash.expressions.temporal import from_local, midnight

Int64s = NDArray[np.int64]
Doubles = NDArray[np.float64]

# A double represents every integer up to the first and every power of ten up to the second exactly, so a quotient of such is correctly
# rounded.
_MAX_EXACT_INTEGER = 2**53
_MAX_EXACT_POWER = 22
_NUMPY_TYPES: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


def integers(column: pa.Array) -> Int64s:
    """Integers of any width as 64-bit integers."""
    return fixed_width(column, _NUMPY_TYPES[column.type]).astype(np.int64, copy=False)


def doubles(column: pa.Array) -> Doubles:
    """Any number as a double, correctly rounded."""
    if pa.types.is_decimal(column.type):
        return _doubles_of_decimals(column)
    return fixed_width(column, _NUMPY_TYPES[column.type]).astype(np.float64, copy=False)


def unscaled(column: pa.Array, scale: int) -> Int64s:
    """Integers and decimals, times 10**scale: the lower and upper 64-bit word of each, as an array of two columns."""
    if not pa.types.is_decimal128(column.type):
        column = column.cast(pa.decimal128(38, scale))
    elif column.type.scale != scale:
        column = rescale(column, pa.decimal128(38, scale))
    return fixed_width(column, np.int64, 2).reshape(-1, 2)


def instants(column: pa.Array, timezone: str | None) -> Int64s:
    """Dates and times as microseconds since 1970.

    With a time zone they are instants, and dates and local times count as local times of that zone. If it is None they are local times.
    """
    if pa.types.is_date32(column.type):
        return fixed_width(column.cast(pa.timestamp("us")) if timezone is None else midnight(column, timezone), np.int64)
    if column.type.unit != "us":
        column = column.cast(pa.timestamp("us", column.type.tz))
    if column.type.tz is None and timezone is not None:
        column = from_local(column, timezone)
    return fixed_width(column, np.int64)


def short_offset_strings(column: pa.Array) -> pa.Array:
    """Strings and binaries with 32-bit offsets."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column
    return column.cast(pa.binary() if pa.types.is_large_binary(column.type) else pa.string())


def _doubles_of_decimals(column: pa.Array) -> Doubles:
    """Correctly rounded, as in Java. Where the quotient of two doubles may be rounded twice, the number is converted by way of text."""
    scale = column.type.scale
    parts = unscaled(column, scale)
    low = parts[:, 0]
    quotients = low / float(10 ** min(scale, _MAX_EXACT_POWER))
    exact = (parts[:, 1] == low >> 63) & (low <= _MAX_EXACT_INTEGER) & (low >= -_MAX_EXACT_INTEGER) & (scale <= _MAX_EXACT_POWER)
    valid = validity(column)
    inexact = np.flatnonzero(~exact if valid is None else valid & ~exact)
    if inexact.size:
        quotients[inexact] = fixed_width(column.take(pa.array(inexact)).cast(pa.string()).cast(pa.float64()), np.float64)
    return quotients
