"""What the slack of a time band rests on."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from clash.sql.time_bands import OFFSET_RANGE


def test_no_zone_has_ever_had_offsets_further_apart() -> None:
    moments = [datetime(1, 1, 2), *(datetime(year, month, 15) for year in range(1840, 2041) for month in (1, 7))]
    for name in available_timezones():
        zone = ZoneInfo(name)
        offsets = [moment.replace(tzinfo=zone).utcoffset() or timedelta() for moment in moments]
        assert max(offsets) - min(offsets) <= timedelta(microseconds=OFFSET_RANGE), name
