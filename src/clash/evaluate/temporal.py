"""Dates, timestamps and what lies between them: the session's time zone.

Local times that a zone skips move on by the length of the gap, those that it has twice are the earlier one, as in Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import OptionError
from clash.evaluate.values import Value, on_array
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
    return pc.local_timestamp(instants.cast(pa.timestamp("us", tz=name)))


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
    return pc.assume_timezone(local, name, ambiguous="earliest", nonexistent="latest").cast(_INSTANT)


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
