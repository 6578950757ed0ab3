"""Casts of strings to dates and timestamps in Spark's forms: month, day and parts of the time may be missing, a zone may follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError, OptionError
from clash.expressions.temporal import from_local
from clash.expressions.values import require, to_numpy, with_nulls_of
from clash.model.time_text import CLOCK, DATE

_HINT = "correct the data, or guard the cast with CASE WHEN … THEN … END"
_DAY = 86_400_000_000  # microseconds
_LAST_DAY, _LAST_IN_DAY = divmod(2**63 - 1, _DAY)  # of the times that 64 bits have
_DAYS_OF_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

Int64s = np.ndarray[Any, np.dtype[np.int64]]


def parse_time(text: pa.Array, target: str, timezone: str) -> pa.Array:
    """Trimmed strings as date, timestamp or timestamp_ntz (for which a zone is only checked); raises if one is malformed."""
    what = f"a text is not a {'date' if target == 'date' else 'timestamp'}"
    parts = _match(text, f"^{DATE}$", text, what)
    days, exists = days_since_1970(*(_number(parts.field(part), 1) for part in range(3)))
    _require(exists, text, what)
    if target == "date":
        _require(np.abs(days) < 2**31, text, what)
        return with_nulls_of(days.astype(np.int32), text, pa.int32()).view(pa.date32())
    clock = _match(pc.if_else(text.is_valid(), parts.field(3), None), f"^{CLOCK}$", text, what)
    hour, minute, second = (_number(clock.field(part), 0) for part in range(3))
    _require((hour < 24) & (minute < 60) & (second < 60), text, what)
    micros = _number(pc.utf8_rpad(pc.utf8_slice_codeunits(clock.field(3), 0, 6), 6, "0"), 0)
    in_day = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros
    _require((np.abs(days) <= _LAST_DAY) & ((days < _LAST_DAY) | (in_day <= _LAST_IN_DAY)), text, what)
    since_1970 = days * _DAY + in_day
    local = with_nulls_of(since_1970, text, pa.int64()).view(pa.timestamp("us"))
    instants = _instants(local, pc.utf8_trim(clock.field(4), characters=" "), timezone, what)
    return local if target == "timestamp_ntz" else instants


def _match(values: pa.Array, pattern: str, text: pa.Array, what: str) -> pa.Array:
    """The groups of the pattern; raises, with the whole text, if a value does not match."""
    parts = pc.extract_regex(values, pattern=pattern)
    require(pc.or_(parts.is_valid(), values.is_null()), text, what, _HINT)
    return parts


def _number(field: pa.Array, default: int) -> Int64s:
    digits = pc.utf8_ltrim(pc.if_else(pc.equal(field, ""), str(default), field), characters="+")
    numbers: Int64s = to_numpy(digits.cast(pa.int64()))
    return numbers


def _require(good: np.ndarray[Any, np.dtype[np.bool_]], text: pa.Array, what: str) -> None:
    require(pc.or_(pa.array(good), text.is_null()), text, what, _HINT)


def days_since_1970(year: Int64s, month: Int64s, day: Int64s) -> tuple[Int64s, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Days since 1970 in the Gregorian calendar, and whether the day exists."""
    is_month = (month >= 1) & (month <= 12)
    month = np.where(is_month, month, 1)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    exists = is_month & (day >= 1) & (day <= _DAYS_OF_MONTH[month - 1] + (leap & (month == 2)))
    shifted = year - (month <= 2)  # years that start in March, so that the leap day is their last day
    era, in_era = shifted // 400, shifted % 400
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + in_era * 365 + in_era // 4 - in_era // 100 + in_year - 719_468, exists


def _instants(local: pa.Array, zones: pa.Array, timezone: str, what: str) -> pa.Array:
    """Local times in the zone of each row, or in `timezone` where a row has none. There are few distinct zones: one call for each."""
    names = pc.unique(zones).to_pylist()
    try:
        if len(names) == 1:
            return from_local(local, names[0] or timezone)
        instants = pa.nulls(len(local), pa.timestamp("us", tz="UTC"))
        for name in names:
            in_zone = pc.equal(zones, name)
            instants = pc.replace_with_mask(instants, in_zone, from_local(local.filter(in_zone), name or timezone))
        return instants
    except OptionError as error:
        raise DataError(what, f"its time zone is {error.detail}", _HINT) from None
