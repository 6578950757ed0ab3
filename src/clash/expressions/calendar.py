"""Arithmetic of the calendar: days and months added to dates and times, truncation, parts of dates, seconds since 1970.

A date is a number of days since 1970, a local time one of microseconds. What is about a `timestamp` is in the session's time zone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions import decimals
from clash.expressions.arrow_types import arrow_type
from clash.expressions.cast import cast_value
from clash.expressions.temporal import cast_temporal, midnight, move_local, to_local
from clash.expressions.text_to_time import days_since_1970
from clash.expressions.values import Value, as_arrays, as_int64, on_array, to_numpy, with_nulls_of
from clash.model.expressions import Call, Expr, Lit

Int64s = np.ndarray[Any, np.dtype[np.int64]]
_DAY = 86_400_000_000  # microseconds
_MICROS = {"MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": _DAY}
_WEEKDAYS = pa.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
_MONTHS = pa.array(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])


def _days(value: pa.Array) -> Int64s:
    """The days of a date array, with 0 for NULL."""
    numbers: Int64s = to_numpy(value.view(pa.int32())).astype(np.int64)
    return numbers


def _dates(days: Int64s, source: pa.Array) -> pa.Array:
    """Days as dates; 32 bits wrap around, as in Spark."""
    return with_nulls_of(days.astype(np.int32), source, pa.int32()).view(pa.date32())


def _months(days: Int64s) -> Int64s:
    """The months since 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_of_month(months: Int64s) -> Int64s:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _first_of_year(days: Int64s) -> Int64s:
    return _first_of_month(_months(days) // 12 * 12)


def _weekday(days: Int64s) -> Int64s:
    """0 is Monday."""
    return (days + 3) % 7


def _valid(*values: pa.Array) -> pa.Array:
    """An array that is NULL where one of the values is."""
    valid = values[0].is_valid()
    for value in values[1:]:
        valid = pc.and_(valid, value.is_valid())
    return pc.if_else(valid, True, None)


# ---- adding -------------------------------------------------------------------------------------------------


def _add_days(sign: int) -> Callable[[Call, list[Value], str], Value]:
    def add(call: Call, args: list[Value], timezone: str) -> Value:
        start, days = as_arrays(*args)
        return _dates(_days(start) + sign * to_numpy(days).astype(np.int64), _valid(start, days))

    return add


def _add_months(call: Call, args: list[Value], timezone: str) -> Value:
    """Months added to a date or a local time: a day that the month does not have becomes its last one."""
    start, count = as_arrays(*args)
    valid, added = _valid(start, count), to_numpy(count).astype(np.int64)
    if call.type == "date":
        days = _plus_months(_days(start), added)
        if np.any(np.abs(days) > 2**31 - 1):
            raise DataError("a date is out of range", "", "add fewer months")
        return _dates(days, valid)
    local = to_local(start, timezone) if call.type == "timestamp" else start
    micros = to_numpy(local.view(pa.int64()))
    moved = _plus_months(micros // _DAY, added)
    if np.any(np.abs(moved) >= (2**63 - 1) // _DAY):
        raise DataError("a timestamp is out of range", "", "add fewer months")
    result = with_nulls_of(moved * _DAY + micros % _DAY, valid, pa.int64()).view(pa.timestamp("us"))
    return move_local(start, result, timezone) if call.type == "timestamp" else result


def _plus_months(days: Int64s, added: Int64s) -> Int64s:
    months = _months(days)
    day = days - _first_of_month(months)
    first, following = _first_of_month(months + added), _first_of_month(months + added + 1)
    moved: Int64s = np.minimum(first + day, following - 1)
    return moved


def _difference(call: Call, args: list[Value], timezone: str) -> Value:
    end, start = as_arrays(*args)
    return with_nulls_of((_days(end) - _days(start)).astype(np.int32), _valid(end, start), pa.int32())


def _last_day(call: Call, args: list[Value], timezone: str) -> Value:
    return on_array(lambda a: _dates(_first_of_month(_months(_days(a)) + 1) - 1, a), args[0])


def _next_day(call: Call, args: list[Value], timezone: str) -> Value:
    """The first day after the date that is the given day of the week."""
    wanted = ("MO", "TU", "WE", "TH", "FR", "SA", "SU").index(_text(call.args[1])[:2].upper())
    return on_array(lambda a: _dates(_days(a) + 1 + (wanted - _weekday(_days(a)) - 1) % 7, a), args[0])


def _make_date(call: Call, args: list[Value], timezone: str) -> Value:
    parts = as_arrays(*args)
    valid = _valid(*parts)
    days, exists = days_since_1970(*(to_numpy(part, 1).astype(np.int64) for part in parts))
    good = pa.array(exists & (np.abs(days) < 2**31))
    if pc.any(pc.and_(pc.invert(good), valid.fill_null(False))).as_py():
        raise DataError("there is no such date", "", "correct the data, or guard the call with CASE WHEN … THEN … END")
    return _dates(days, valid)


# ---- truncating ---------------------------------------------------------------------------------------------


def _truncated_days(days: Int64s, unit: str) -> Int64s:
    if unit == "WEEK":
        return days - _weekday(days)
    months = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}[unit]
    return _first_of_month(_months(days) // months * months)


def _trunc(call: Call, args: list[Value], timezone: str) -> Value:
    return on_array(lambda a: _dates(_truncated_days(_days(a), _text(call.args[1])), a), args[0])


def _date_trunc(call: Call, args: list[Value], timezone: str) -> Value:
    """A timestamp at the beginning of its unit. Hours and minutes keep the offset of the moment where the clock shows them twice."""
    unit = _text(call.args[0])
    return on_array(lambda a: _truncated(a, unit, timezone), args[1])


def _truncated(moments: pa.Array, unit: str, timezone: str) -> pa.Array:
    if unit == "MICROSECOND":
        return moments
    if unit in ("MILLISECOND", "SECOND"):
        micros = to_numpy(moments.view(pa.int64()))
        return with_nulls_of(micros - micros % _MICROS[unit], moments, pa.int64()).view(moments.type)
    local = to_local(moments, timezone)
    micros = to_numpy(local.view(pa.int64()))
    if unit in _MICROS:
        begin = with_nulls_of(micros - micros % _MICROS[unit], moments, pa.int64()).view(pa.timestamp("us"))
        return move_local(moments, begin, timezone)
    return midnight(_dates(_truncated_days(micros // _DAY, unit), moments), timezone)


# ---- parts --------------------------------------------------------------------------------------------------


def _part(part: Callable[[Int64s], Int64s]) -> Callable[[Call, list[Value], str], Value]:
    """A number that depends on the date only."""

    def of_date(call: Call, args: list[Value], timezone: str) -> Value:
        return on_array(lambda a: with_nulls_of(part(_days(a)).astype(np.int32), a, pa.int32()), _as_dates(call, args[0], timezone))

    return of_date


def _name(names: pa.Array, number: Callable[[Int64s], Int64s]) -> Callable[[Call, list[Value], str], Value]:
    def of_date(call: Call, args: list[Value], timezone: str) -> Value:
        return on_array(lambda a: names.take(with_nulls_of(number(_days(a)), a, pa.int64())), _as_dates(call, args[0], timezone))

    return of_date


def _as_dates(call: Call, value: Value, timezone: str) -> Value:
    kind = call.args[0].type
    return value if kind == "date" else on_array(lambda a: cast_temporal(a, kind, "date", timezone), value)


def _thursday(days: Int64s) -> Int64s:
    """The Thursday of the ISO week, which decides to which year the week belongs."""
    return days - _weekday(days) + 3


def _second_fraction(call: Call, args: list[Value], timezone: str) -> Value:
    """The seconds of the minute with six decimal places; a zone's offset has whole seconds."""

    def of_times(times: pa.Array) -> pa.Array:
        local = to_local(times, timezone) if call.args[0].type == "timestamp" else times
        micros = to_numpy(local.view(pa.int64())) % 60_000_000
        return decimals.from_unscaled(micros, times.is_valid() if times.null_count else None, arrow_type(call.type))

    return on_array(of_times, args[0])


def _text(expr: Expr) -> str:
    assert isinstance(expr, Lit)
    return str(expr.value)


# ---- since 1970 ---------------------------------------------------------------------------------------------


def _since_1970(micros: int, floor: bool) -> Callable[[Call, list[Value], str], Value]:
    """Whole units of a timestamp since 1970; a date is its midnight. Rounded down, or towards zero."""

    def since(call: Call, args: list[Value], timezone: str) -> Value:
        kind = call.args[0].type
        moments = as_int64(cast_value(args[0], kind, "timestamp", timezone) if kind == "date" else args[0])
        if not floor:
            return pc.divide(moments, micros)
        return on_array(lambda a: with_nulls_of(to_numpy(a) // micros, a, pa.int64()), moments)

    return since


def _from_1970(micros: int) -> Callable[[Call, list[Value], str], Value]:
    def moment(call: Call, args: list[Value], timezone: str) -> Value:
        count = args[0].cast(pa.int64())
        return on_array(lambda a: pc.multiply_checked(a, pa.scalar(micros, pa.int64())).view(arrow_type("timestamp")), count)

    return moment


KERNELS = {
    "date_add": _add_days(1),
    "date_sub": _add_days(-1),
    "add_months": _add_months,
    "datediff": _difference,
    "last_day": _last_day,
    "next_day": _next_day,
    "make_date": _make_date,
    "trunc": _trunc,
    "date_trunc": _date_trunc,
    "quarter": _part(lambda days: _months(days) % 12 // 3 + 1),
    "dayofweek": _part(lambda days: (days + 4) % 7 + 1),
    "weekday": _part(_weekday),
    "dayofyear": _part(lambda days: days - _first_of_year(days) + 1),
    "weekofyear": _part(lambda days: (_thursday(days) - _first_of_year(_thursday(days))) // 7 + 1),
    "yearofweek": _part(lambda days: _months(_thursday(days)) // 12 + 1970),
    "dayname": _name(_WEEKDAYS, _weekday),
    "monthname": _name(_MONTHS, lambda days: _months(days) % 12),
    "second_fraction": _second_fraction,
    "unix_date": lambda call, args, timezone: on_array(lambda a: a.view(pa.int32()), args[0]),
    "date_from_unix_date": lambda call, args, timezone: on_array(lambda a: a.cast(pa.int32()).view(pa.date32()), args[0]),
    "unix_timestamp": _since_1970(1_000_000, floor=False),
    "unix_seconds": _since_1970(1_000_000, floor=True),
    "unix_millis": _since_1970(1_000, floor=True),
    "unix_micros": _since_1970(1, floor=True),
    "timestamp_seconds": _from_1970(1_000_000),
    "timestamp_millis": _from_1970(1_000),
    "timestamp_micros": _from_1970(1),
}
