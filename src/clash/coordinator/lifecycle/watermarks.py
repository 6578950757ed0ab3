"""Watermarks: computed from earlier batches only, recorded with the batch, never falling.

A stream's watermark is its largest event time so far less its lateness. A stream that has been idle for longer than its `idle` time has its
watermark raised to the smallest of those that are not idle; tuples below it are late when the stream has tuples again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from clash.model.stream import Stream


@dataclass(frozen=True, slots=True)
class StreamClock:
    """What is known of a stream's event time."""

    max_event_time: int | None = None
    watermark: int | None = None
    """None while nothing is late."""
    last_seen: int | None = None
    """The time of the last batch with tuples of the stream, or of the first batch that read it."""


Clocks = Mapping[str, StreamClock]


def advance_clocks(streams: Iterable[Stream], clocks: Clocks, now: int) -> dict[str, StreamClock]:
    """The clocks at the start of a batch."""
    advanced: dict[str, StreamClock] = {}
    idle = set()
    for stream in streams:
        clock = clocks.get(stream.name, StreamClock())
        last_seen = now if clock.last_seen is None else clock.last_seen
        if stream.idle is not None and now - last_seen > stream.idle:
            idle.add(stream.name)
        own = None if stream.lateness is None or clock.max_event_time is None else clock.max_event_time - stream.lateness
        advanced[stream.name] = StreamClock(clock.max_event_time, _later(clock.watermark, own), last_seen)
    active = [clock.watermark for name, clock in advanced.items() if name not in idle]
    watermarks = [watermark for watermark in active if watermark is not None]
    if watermarks and len(watermarks) == len(active):
        for name in idle:
            raised = _later(advanced[name].watermark, min(watermarks))
            advanced[name] = replace(advanced[name], watermark=raised)
    return advanced


def observe_batch(clocks: Clocks, max_event_times: Mapping[str, int], rows: Mapping[str, int], now: int) -> dict[str, StreamClock]:
    """The clocks after a batch."""
    return {
        name: StreamClock(
            _later(clock.max_event_time, max_event_times.get(name)), clock.watermark, now if rows.get(name) else clock.last_seen
        )
        for name, clock in clocks.items()
    }


def _later(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)
