"""Instants, local times and texts around the moments at which zones change their clocks, and expressions that depend on them."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa

from clash.expressions import arrow_type

from .harness import STREAM, table

# zone -> changes of its clock, in UTC: an hour, half an hour, over midnight, a whole day that is skipped
CHANGES = {
    "Europe/Berlin": ("2024-03-31 01:00", "2024-10-27 01:00"),
    "America/New_York": ("2024-03-10 07:00", "2024-11-03 06:00"),
    "Australia/Lord_Howe": ("2024-04-06 15:00", "2024-10-05 15:30"),
    "America/Sao_Paulo": ("2018-02-18 02:00", "2018-11-04 03:00"),
    "Pacific/Apia": ("2011-12-30 10:00", "2012-03-31 14:00"),
    "America/Havana": ("2024-03-10 05:00", "2024-11-03 05:00"),
}
_HOURS = (-49, -48, -26, -25, -24, -23, -2, -1, -0.5, 0, 0.25, 0.5, 1, 2, 23, 24, 25, 49)

DIFFERENCES = [
    "ts - tz", "-(ts - tz)", "ts - tz + INTERVAL 1 DAY", "ts + (tz - ts)", "ts - tz > INTERVAL 1 HOUR", "ts - tz <= INTERVAL 1 DAY",
    "ts - tz = INTERVAL 24 HOURS", "INTERVAL 1 DAY < ts - tz", "nt - CAST(ts AS timestamp_ntz)", "ts - CAST(nt AS timestamp)",
]  # fmt: skip
SUMS = [f"ts {sign} INTERVAL {length}" for sign, length in itertools.product(
    "+-", ("1 DAY", "24 HOURS", "23 HOURS", "25 HOURS", "'1 day 30 minutes'", "2 DAYS", "1 WEEK", "'1 day -1 hour'", "-1 DAY",
    "'-25 hours'"))]  # fmt: skip
SUMS += [
    "INTERVAL 1 DAY + ts", "ts + INTERVAL 23 HOURS + INTERVAL 1 HOUR", "ts + INTERVAL 1 DAY + INTERVAL 1 DAY",
    "ts + (INTERVAL 1 DAY + INTERVAL 1 HOUR)",
    "ts + INTERVAL 1 DAY - INTERVAL 1 DAY", "ts - INTERVAL 20 HOURS - INTERVAL 20 HOURS", "nt + INTERVAL 1 DAY", "nt - INTERVAL 25 HOURS",
    "ts <= tz + INTERVAL 1 DAY", "ts - INTERVAL 1 DAY <= tz", "ts BETWEEN tz - INTERVAL 1 DAY AND tz + INTERVAL 1 DAY",
    "ts + INTERVAL 20 HOURS <= tz - INTERVAL 20 HOURS", "ts = tz + INTERVAL 1 DAY", "ts <> tz - INTERVAL 24 HOURS",
    "ts <= tz + INTERVAL 23 HOURS", "ts - INTERVAL 59 MINUTES < tz",
]  # fmt: skip
CONVERSIONS = [
    "CAST(ts AS date)", "CAST(ts AS timestamp_ntz)", "CAST(ts AS string)", "CAST(nt AS timestamp)", "CAST(nt AS date)",
    "CAST(day AS timestamp)",
    "CAST(s AS timestamp)", "CAST(s AS date)", "CAST(s AS timestamp_ntz)", "CAST(CAST(ts AS string) AS timestamp)",
    "CAST(CAST(ts AS timestamp_ntz) AS timestamp)", "CAST(CAST(ts AS date) AS timestamp)", "CAST(CAST(day AS timestamp) AS date)",
    "CAST(ts AS bigint)", "hour(ts)", "minute(ts)", "day(ts)", "month(ts)", "year(ts)", "second(ts)", "hour(nt)",
    "ts < day", "ts = day", "day < nt", "day <=> nt", "nt < ts", "nt = ts", "nt <> ts", "greatest(day, ts)", "least(nt, ts)",
    "coalesce(nt, ts)",
    "CASE WHEN b THEN day ELSE ts END", "CASE WHEN b THEN nt ELSE ts END", "day IN (ts, nt)", "NULLIF(ts, day)",
]  # fmt: skip


def literals(zone: str) -> list[str]:
    """Local times around the zone's changes as literals and as text."""
    texts = sorted({text for _, text in _local_times(zone)})
    found = []
    for text in random.Random(7).sample(texts, 6):
        found += [f"TIMESTAMP '{text}' <= ts", f"ts = '{text}'", f"ts > CAST('{text}' AS timestamp)", f"day = '{text}'", f"nt < '{text}'"]
        found += [f"TIMESTAMP '{text}' + INTERVAL 1 DAY", f"TIMESTAMP '{text}' - ts", f"CAST('{text}' AS date)", f"ts IN ('{text}')"]
    return found


def _instants(zone: str) -> list[datetime]:
    changes = [datetime.fromisoformat(change).replace(tzinfo=UTC) for change in CHANGES[zone]]
    around = [change + timedelta(hours=hours) for change in changes for hours in _HOURS]
    return [*around, *(change + timedelta(microseconds=micros) for change in changes for micros in (-1, 1))]


def _local_times(zone: str) -> list[tuple[datetime, str]]:
    """Local times of the zone, and those that it skips: what the clock would show had it not been changed."""
    shown = set()
    for change in CHANGES[zone]:
        moment = datetime.fromisoformat(change).replace(tzinfo=UTC)
        for side in (-1, 1):
            offset = (moment + timedelta(microseconds=side)).astimezone(ZoneInfo(zone)).utcoffset()
            assert offset is not None
            shown |= {(moment + offset + timedelta(hours=hours)).replace(tzinfo=None) for hours in _HOURS}
    return [(local, local.isoformat(" ")) for local in sorted(shown)]


def clock_table(zone: str, rows: int) -> pa.Table:
    """A table in which all times lie around the zone's changes, in random combinations."""
    random_ = random.Random(zone)
    instants, local = _instants(zone), _local_times(zone)
    columns = {
        "ts": random_.choices(instants, k=rows),
        "tz": random_.choices(instants, k=rows),
        "nt": [moment for moment, _ in random_.choices(local, k=rows)],
        "day": [moment.date() for moment, _ in random_.choices(local, k=rows)],
        "s": [text for _, text in random_.choices(local, k=rows)],
    }
    data = table(rows, seed=3)
    for name, values in columns.items():
        values[0] = None  # type: ignore[call-overload]
        kind = arrow_type(STREAM.type_of(name) or "")
        data = data.set_column(data.column_names.index(name), name, pa.array(values, kind))
    return data
