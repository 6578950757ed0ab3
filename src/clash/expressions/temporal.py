"""Dates, local times and instants, and conversions between them in the session's time zone.

As in Java, a local time that a zone skips is moved forward by the length of the gap, and one that occurs twice is the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import OptionError
from clash.expressions.values import Value, on_array, to_numpy, with_nulls_of
from clash.model.expressions import Call
from clash.model.time_text import fixed_offset

_LOCAL, _INSTANT = pa.timestamp("us"), pa.timestamp("us", tz="UTC")


@lru_cache(maxsize=64)
def _region(name: str) -> str:
    """A region's name, which Arrow must know."""
    try:
        if not name or name[0] in "+-":
            raise pa.ArrowInvalid(name)
        pc.local_timestamp(pa.array([0], pa.timestamp("us", tz=name)))
    except pa.ArrowInvalid:
        raise OptionError("this time zone is not known", name, "use a region such as Europe/Berlin, or an offset such as +02:00") from None
    return name


def to_local(instants: pa.Array, timezone: str) -> pa.Array:
    """Instants (timestamp) as local times of the zone (timestamp_ntz)."""
    offset = fixed_offset(timezone)
    if offset is not None:
        return _shifted(instants, offset, _LOCAL)
    name = _region(timezone)
    return _map_into_known_years(instants, _LOCAL, lambda moments: pc.local_timestamp(moments.cast(pa.timestamp("us", tz=name))))


def from_local(local: pa.Array, timezone: str) -> pa.Array:
    """Local times of the zone (timestamp_ntz) as instants (timestamp)."""
    offset = fixed_offset(timezone)
    if offset is not None:
        return _shifted(local, -offset, _INSTANT)
    instants = _assume_zone(local, _region(timezone))
    skipped = pc.not_equal(to_local(instants, timezone), local)
    if not pc.any(skipped).as_py():
        return instants
    # for a skipped time `instants` is the end of the gap; Java uses the offset that is valid before the gap
    before = pc.subtract(instants, pa.scalar(1, pa.duration("us")))
    before_gap = pc.subtract(to_local(before, timezone).view(pa.int64()), before.view(pa.int64()))
    moved = pc.subtract(local.view(pa.int64()), before_gap).view(_INSTANT)
    return pc.if_else(skipped, moved, instants)


def midnight(dates: pa.Array, timezone: str) -> pa.Array:
    """The first instant of each day: the end of the gap if the zone skips midnight."""
    local, offset = dates.cast(_LOCAL), fixed_offset(timezone)
    return _assume_zone(local, _region(timezone)) if offset is None else _shifted(local, -offset, _INSTANT)


def _shifted(values: pa.Array, micros: int, target: pa.DataType) -> pa.Array:
    moments = values.view(pa.int64())
    return (pc.add_checked(moments, pa.scalar(micros, pa.int64())) if micros else moments).view(target)


def _assume_zone(local: pa.Array, name: str) -> pa.Array:
    """Local times as instants; one that the zone skips becomes the end of the gap."""

    def assume(times: pa.Array) -> pa.Array:
        return pc.assume_timezone(times, name, ambiguous="earliest", nonexistent="latest").cast(_INSTANT)

    return _map_into_known_years(local, _INSTANT, assume)


def _map_into_known_years(values: pa.Array, target: pa.DataType, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply `convert`, with times after 2037 moved to an earlier year with the same weekdays and back: Arrow has no later rules."""
    latest = pc.max(values.view(pa.int64())).as_py()
    if latest is None or latest < _END_OF_KNOWN_YEARS:
        return convert(values)
    micros = to_numpy(values.view(pa.int64()))
    days = (micros // _DAY).astype("datetime64[D]")
    year, early = days.astype("datetime64[Y]"), days.astype("datetime64[M]").astype(np.int64) % 12 < 2
    # the year is split at the end of February: without the leap day both parts equal those of a common year
    first = (year.astype("datetime64[M]") + np.where(early, 0, 2)).astype("datetime64[D]").astype(np.int64)
    known_first = np.where(early, _JANUARY[first % 7], _MARCH[first % 7])
    shift = np.where(micros >= _END_OF_KNOWN_YEARS, (first - known_first) * _DAY, 0)
    moved = with_nulls_of(micros - shift, values, pa.int64()).view(values.type)
    return pc.add(convert(moved).view(pa.int64()), pa.array(shift)).view(target)


def _by_weekday(month: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each weekday a first of the month, as days since 1970, in the latest common year for which Arrow has rules."""
    first_days = np.zeros(7, dtype=np.int64)
    for year in (2027, 2029, 2030, 2031, 2033, 2034, 2037):
        day = (date(year, month, 1) - date(1970, 1, 1)).days
        first_days[day % 7] = day
    return first_days


_DAY = 86_400_000_000  # microseconds
_END_OF_KNOWN_YEARS = (date(2038, 1, 1) - date(1970, 1, 1)).days * _DAY
_JANUARY, _MARCH = _by_weekday(1), _by_weekday(3)


def cast_temporal(values: pa.Array, source: str, target: str, timezone: str) -> pa.Array:
    """Casts among date, timestamp and timestamp_ntz."""
    if target == "timestamp":
        return midnight(values, timezone) if source == "date" else from_local(values, timezone)
    if source == "timestamp":
        values = to_local(values, timezone)
    return values.cast(_LOCAL if target == "timestamp_ntz" else pa.date32())


def move_local(instants: pa.Array, local: pa.Array, timezone: str) -> pa.Array:
    """Instants moved to other local times, as Java does it.

    A local time that the zone skips is moved forward; one that occurs twice keeps the offset of the instant, if that is one of the two.
    """
    moved = pc.subtract(local.view(pa.int64()), to_local(instants, timezone).view(pa.int64()))
    same_offset = pc.add_checked(instants.view(pa.int64()), moved).view(_INSTANT)
    kept = pc.equal(to_local(same_offset, timezone), local)
    return pc.if_else(kept, same_offset, from_local(local, timezone))


def add_interval(instants: pa.Array, micros: pa.Array, timezone: str) -> pa.Array:
    """Instants plus intervals, as in Spark: whole days keep the local time of the zone, the rest of the interval is elapsed time."""
    if fixed_offset(timezone) is not None:
        return pc.add_checked(instants.view(pa.int64()), micros).view(_INSTANT)
    days = pc.multiply(pc.divide(micros, _DAY), _DAY)  # towards zero, as Java divides
    rest = pc.subtract(micros, days)
    if pc.any(pc.not_equal(days, 0)).as_py():
        start = to_local(instants, timezone).view(pa.int64())
        instants = move_local(instants, pc.add_checked(start, days).view(_LOCAL), timezone)
    return pc.add_checked(instants.view(pa.int64()), rest).view(_INSTANT)


def local_difference(end: pa.Array, start: pa.Array, timezone: str) -> pa.Array:
    """The difference of two instants in microseconds of local time, as in Spark: a day over a change of the clock is 24 hours too."""
    return pc.subtract_checked(to_local(end, timezone).view(pa.int64()), to_local(start, timezone).view(pa.int64()))


def _date_part(kernel: Callable[[pa.Array], pa.Array]) -> Callable[[Call, list[Value], str], Value]:
    """YEAR to SECOND: a part of the local time."""

    def part(call: Call, args: list[Value], timezone: str) -> Value:
        local = on_array(lambda a: to_local(a, timezone), args[0]) if call.args[0].type == "timestamp" else args[0]
        return kernel(local).cast(pa.int32())

    return part


KERNELS = {name: _date_part(getattr(pc, name)) for name in ("year", "month", "day", "hour", "minute", "second")}
