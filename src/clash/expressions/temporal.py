"""Dates, timestamps and what lies between them: the session's time zone.

Local times that a zone skips move on by the length of the gap, those that it has twice are the earlier one, as in Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import OptionError
from clash.expressions.values import Value, numbers, on_array, with_nulls_of
from clash.model.expressions import Call

_LOCAL, _INSTANT = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d{1,2}))?", re.ASCII)


@lru_cache(maxsize=64)
def zone(name: str) -> str:
    """The zone as Arrow spells it; Spark knows more ways to write an offset."""
    if name in ("Z", "UTC", "GMT", "UT", "Etc/UTC"):
        return "UTC"
    if match := _OFFSET.fullmatch(name):
        return f"{match[1]}{int(match[2]):02}:{int(match[3] or 0):02}"
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("us", tz=name)))
    except pa.ArrowInvalid:
        raise OptionError("this time zone is not known", name, "use a region such as Europe/Berlin, or an offset such as +02:00") from None
    return name


def to_local(instants: pa.Array, timezone: str) -> pa.Array:
    name = zone(timezone)
    if name == "UTC":
        return instants.view(pa.int64()).view(_LOCAL)
    return _repeating(instants, name, _LOCAL, lambda moments: pc.local_timestamp(moments.cast(pa.timestamp("us", tz=name))))


def from_local(local: pa.Array, timezone: str) -> pa.Array:
    name = zone(timezone)
    if name == "UTC":
        return local.view(pa.int64()).view(_INSTANT)
    instants = _assumed(local, name)
    skipped = pc.not_equal(to_local(instants, timezone), local)
    if not pc.any(skipped).as_py():
        return instants
    # `instants` is the end of the gap there; the offset before it is what Java goes on with
    before = pc.subtract(instants, pa.scalar(1, pa.duration("us")))
    offset = pc.subtract(to_local(before, timezone).view(pa.int64()), before.view(pa.int64()))
    moved = pc.subtract(local.view(pa.int64()), offset).view(_INSTANT)
    return pc.if_else(skipped, moved, instants)


def midnight(dates: pa.Array, timezone: str) -> pa.Array:
    """The first moment of the day: the end of the gap if the zone skips midnight."""
    name = zone(timezone)
    local = dates.cast(_LOCAL)
    return local.view(pa.int64()).view(_INSTANT) if name == "UTC" else _assumed(local, name)


def _assumed(local: pa.Array, name: str) -> pa.Array:
    def assume(times: pa.Array) -> pa.Array:
        return pc.assume_timezone(times, name, ambiguous="earliest", nonexistent="latest").cast(_INSTANT)

    return _repeating(local, name, _INSTANT, assume)


def _repeating(values: pa.Array, name: str, target: pa.DataType, work: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Arrow knows changes of the clock up to 2037 only; later years are taken for an earlier one with the same weekdays."""
    latest = pc.max(values.view(pa.int64())).as_py()
    if name[0] in "+-" or latest is None or latest < _LAST:
        return work(values)
    micros = numbers(values.view(pa.int64()))
    days = (micros // _DAY).astype("datetime64[D]")
    year, early = days.astype("datetime64[Y]"), days.astype("datetime64[M]").astype(np.int64) % 12 < 2
    # the leap day is between the two, so that either part of any year is that of a common year
    first = (year.astype("datetime64[M]") + np.where(early, 0, 2)).astype("datetime64[D]").astype(np.int64)
    known = np.where(early, _JANUARY[first % 7], _MARCH[first % 7])
    shift = np.where(micros >= _LAST, (first - known) * _DAY, 0)
    moved = with_nulls_of(micros - shift, values, pa.int64()).view(values.type)
    return pc.add(work(moved).view(pa.int64()), pa.array(shift)).view(target)


def _by_weekday(month: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each weekday a first of the month, as days since 1970, in a common year as late as Arrow knows."""
    found = np.zeros(7, dtype=np.int64)
    for year in (2027, 2029, 2030, 2031, 2033, 2034, 2037):
        day = (date(year, month, 1) - date(1970, 1, 1)).days
        found[day % 7] = day
    return found


_DAY = 86_400_000_000
_LAST = (date(2038, 1, 1) - date(1970, 1, 1)).days * _DAY
_JANUARY, _MARCH = _by_weekday(1), _by_weekday(3)


def between(values: pa.Array, source: str, target: str, timezone: str) -> pa.Array:
    """Casts among date, timestamp and timestamp_ntz."""
    if target == "timestamp":
        return midnight(values, timezone) if source == "date" else from_local(values, timezone)
    if source == "timestamp":
        values = to_local(values, timezone)
    return values.cast(_LOCAL if target == "timestamp_ntz" else pa.date32())


def _part(kernel: Callable[[pa.Array], pa.Array]) -> Callable[[Call, list[Value], str], Value]:
    def part(call: Call, args: list[Value], timezone: str) -> Value:
        local = on_array(lambda a: to_local(a, timezone), args[0]) if call.args[0].type == "timestamp" else args[0]
        return kernel(local).cast(pa.int32())

    return part


KERNELS = {name: _part(getattr(pc, name)) for name in ("year", "month", "day", "hour", "minute", "second")}
