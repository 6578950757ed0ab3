"""Text as dates and timestamps, in Spark's forms: a date may lack its day or month, a time its seconds, and a zone may follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError, OptionError
from clash.expressions.temporal import from_local
from clash.expressions.values import demand, numbers, with_nulls_of

_DATE = r"^(?P<year>[+-]?[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?P<clock>[ T].*)?)?)?$"
_CLOCK = (
    r"^(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<rest>[0-9]*))?)?)?(?P<zone>[^0-9.:].*)?)?$"
)
_HINT = "correct the data, or guard the cast with CASE WHEN … THEN … END"
_DAY = 86_400_000_000
_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

Whole = np.ndarray[Any, np.dtype[np.int64]]


def parsed(text: pa.Array, target: str, timezone: str) -> pa.Array:
    """Trimmed text as date, timestamp or timestamp_ntz (which ignores a zone)."""
    what = f"a text is not a {'date' if target == 'date' else 'timestamp'}"
    parts = _matched(text, _DATE, text, what)
    days, sound = _days(*(_number(parts.field(at), 1) for at in range(3)))
    _sound(sound, text, what)
    if target == "date":
        return with_nulls_of(days.astype(np.int32), text, pa.int32()).view(pa.date32())
    clock = _matched(pc.if_else(text.is_valid(), parts.field(3), None), _CLOCK, text, what)
    hour, minute, second = (_number(clock.field(at), 0) for at in range(3))
    _sound((hour < 24) & (minute < 60) & (second < 60), text, what)
    micros = _number(pc.utf8_rpad(pc.utf8_slice_codeunits(clock.field(3), 0, 6), 6, "0"), 0)
    local = with_nulls_of(days * _DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros, text, pa.int64()).view(
        pa.timestamp("us")
    )
    return local if target == "timestamp_ntz" else _placed(local, pc.utf8_trim(clock.field(4), characters=" "), timezone, what)


def _matched(values: pa.Array, pattern: str, text: pa.Array, what: str) -> pa.Array:
    parts = pc.extract_regex(values, pattern=pattern)
    demand(pc.or_(parts.is_valid(), values.is_null()), text, what, _HINT)
    return parts


def _number(field: pa.Array, default: int) -> Whole:
    found: Whole = numbers(pc.utf8_ltrim(pc.if_else(pc.equal(field, ""), str(default), field), characters="+").cast(pa.int64()))
    return found


def _sound(good: np.ndarray[Any, np.dtype[np.bool_]], text: pa.Array, what: str) -> None:
    demand(pc.or_(pa.array(good), text.is_null()), text, what, _HINT)


def _days(year: Whole, month: Whole, day: Whole) -> tuple[Whole, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Days since 1970 in the Gregorian calendar, and whether there is such a day."""
    inside = (month >= 1) & (month <= 12)
    month = np.where(inside, month, 1)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    good = inside & (day >= 1) & (day <= _DAYS[month - 1] + (leap & (month == 2)))
    shifted = year - (month <= 2)  # years begin in March, so that the leap day is the last one
    era, in_era = shifted // 400, shifted % 400
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + in_era * 365 + in_era // 4 - in_era // 100 + in_year - 719_468, good


def _placed(local: pa.Array, zones: pa.Array, timezone: str, what: str) -> pa.Array:
    """Few distinct zones: each one at once."""
    names = pc.unique(zones).to_pylist()
    try:
        if len(names) == 1:
            return from_local(local, names[0] or timezone)
        found = pa.nulls(len(local), pa.timestamp("us", tz="UTC"))
        for name in names:
            here = pc.equal(zones, name)
            found = pc.replace_with_mask(found, here, from_local(local.filter(here), name or timezone))
        return found
    except OptionError as error:
        raise DataError(what, f"its time zone is {error.detail}", _HINT) from None
