"""Dates and timestamps as text, in the forms that Spark reads: month, day and parts of the time may be missing, a zone may follow.

One grammar for literals, which the SQL front end reads, and for columns, which workers cast: both must mean the same.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

WHITE_SPACE = "".join(map(chr, range(33))) + "\x7f"  # what Spark ignores before and after a text that it casts
DATE = r"(?P<year>[+-]?[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?P<clock>[ T].*)?)?)?"
CLOCK = r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<rest>[0-9]*))?(?P<zone>[^0-9.:].*)?)?)?)?"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?|:([0-9]))?", re.ASCII)
_ZERO = ("Z", "UTC", "GMT", "UT", "Etc/UTC")
_SHORT = {"EST": -5, "MST": -7, "HST": -10}  # which Java takes for offsets, and zone databases for places with a history
_MICROS_PER_SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_text(micros: int) -> str:
    """Event time as ISO 8601; outside the years 1 to 9999 of `datetime`, as its number of microseconds.

    >>> instant_text(1_500_000), instant_text(1 << 62)
    ('1970-01-01T00:00:01.500000+00:00', '4611686018427387904')
    """
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat()
    except OverflowError:
        return str(micros)


def fixed_offset(zone: str) -> int | None:
    """Microseconds by which the local time of a zone is ahead of UTC, for zones that are nothing but an offset; None for a region.

    >>> fixed_offset("+05:30") == fixed_offset("UTC+0530") == 19_800_000_000, fixed_offset("Z"), fixed_offset("Europe/Berlin")
    (True, 0, None)
    """
    if zone in _ZERO:
        return 0
    if zone in _SHORT:
        return _SHORT[zone] * 3600 * _MICROS_PER_SECOND
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    hours, minutes, seconds = int(match[2]), int(match[3] or match[5] or 0), int(match[4] or 0)
    total = (hours * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or total > 18 * 3600:
        return None
    return (-total if match[1] == "-" else total) * _MICROS_PER_SECOND
