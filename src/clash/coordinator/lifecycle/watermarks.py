"""Watermarks: from earlier batches only, recorded with the batch, never falling.

A stream's watermark is its largest event time so far less its lateness. A stream that has been idle for longer than its `idle` time
has its watermark lifted to the smallest of those that are not, and then counts like any other: rows below it are late when it wakes up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from clash.model.stream import Stream


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of a stream's time: the largest event time, the watermark, and when it last had a row."""

    high: int | None = None
    mark: int | None = None
    seen: int | None = None


Clocks = Mapping[str, Clock]


def advance(streams: Iterable[Stream], clocks: Clocks, now: int) -> dict[str, Clock]:
    """The clocks at the start of a batch."""
    found: dict[str, Clock] = {}
    idle = set()
    for stream in streams:
        clock = clocks.get(stream.name, Clock())
        seen = now if clock.seen is None else clock.seen
        if stream.idle is not None and now - seen > stream.idle:
            idle.add(stream.name)
        mark = None if stream.lateness is None or clock.high is None else clock.high - stream.lateness
        found[stream.name] = Clock(clock.high, _later(clock.mark, mark), seen)
    busy = [clock.mark for name, clock in found.items() if name not in idle]
    marks = [mark for mark in busy if mark is not None]
    if marks and len(marks) == len(busy):
        for name in idle:
            found[name] = replace(found[name], mark=_later(found[name].mark, min(marks)))
    return found


def observe(clocks: Clocks, highs: Mapping[str, int], rows: Mapping[str, int], now: int) -> dict[str, Clock]:
    """The clocks after a batch."""
    return {
        name: Clock(_later(clock.high, highs.get(name)), clock.mark, now if rows.get(name) else clock.seen)
        for name, clock in clocks.items()
    }


def _later(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)
