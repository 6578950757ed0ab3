"""Durations as users write them ("5 seconds"), represented as whole microseconds."""

from __future__ import annotations

import math
import re
from threading import TIMEOUT_MAX

from clash.errors import OptionError

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_ABBREVIATIONS = {"us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "min": "minute", "m": "minute",
          "h": "hour", "d": "day", "w": "week"}  # fmt: skip
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*,?", re.IGNORECASE | re.ASCII)
LONGEST = 10_000 * 365 * _UNITS["day"]  # 10,000 years: from 1970 on, beyond every event time of a Spark timestamp


def unit_micros(unit: str) -> int | None:
    """Microseconds of one unit, by its name, plural or abbreviation, in any case; None for an unknown unit."""
    unit = unit.lower()
    unit = _ABBREVIATIONS.get(unit, unit)
    return _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))


def parse_duration(text: str, where: str) -> int:
    """Microseconds of a duration; `where` names the argument in errors.

    >>> parse_duration("1 minute 30 seconds", "the window")
    90000000
    """
    hint = 'write a duration such as "5 seconds" or "1 hour 30 minutes"'
    if not isinstance(text, str):
        raise OptionError(f"{where} is not a duration", repr(text), hint)
    at, total = 0, 0.0
    while match := _PART.match(text, at):
        micros = unit_micros(match[2])
        if micros is None:
            raise OptionError(f"{where} has an unknown unit of time", f"{match[2]!r} in {text!r}", hint)
        total += float(match[1]) * micros
        at = match.end()
    if at == 0 or text[at:].strip():
        raise OptionError(f"{where} is not a duration", repr(text), hint)
    if total > LONGEST:
        raise OptionError(f"{where} is too long", repr(text), "leave it out for an unbounded window")
    return round(total)


def parse_timeout(value: float | str | None, where: str) -> float | None:
    """How long a call waits, in seconds, given as a number of seconds or as a duration; None waits without limit."""
    hint = 'write seconds, such as 1.5, a duration such as "1 second", or None to wait for as long as it takes'
    if isinstance(value, str):
        return min(parse_duration(value, where) / 1_000_000, TIMEOUT_MAX)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0):
        raise OptionError(f"{where} is not a time to wait", repr(value), hint)
    return None if value is None else min(float(value), TIMEOUT_MAX)


def show_duration(micros: int | None) -> str:
    """The duration in the largest unit of which it is a whole multiple.

    >>> show_duration(90_000_000)
    '90 seconds'
    """
    if micros is None:
        return "unbounded"
    if micros == 0:
        return "0 seconds"
    for unit, size in reversed(_UNITS.items()):
        if micros % size == 0:
            count = micros // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    raise AssertionError("a microsecond divides every duration")
