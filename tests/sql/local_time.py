"""Local time by Python's own zones, with Java's rules for times that a zone skips or has twice; independent of what is tested."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)


def to_local(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def from_local(local: datetime, zone: str) -> datetime:
    """By the offset before the change, for a time that is skipped or that occurs twice."""
    return local.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)


def plus(moment: datetime, interval: timedelta, zone: str) -> datetime:
    """Whole days of the calendar, then the rest; a time that occurs twice keeps its offset."""
    days = abs(interval) // DAY * (-1 if interval < timedelta() else 1)
    local, elapsed = to_local(moment, zone) + days * DAY, moment + days * DAY
    start = elapsed if to_local(elapsed, zone) == local else from_local(local, zone)
    return start + (interval - days * DAY)
