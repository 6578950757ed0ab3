"""Watermarks: from earlier batches only, never falling, raised where a stream is idle."""

from __future__ import annotations

from clash.coordinator.lifecycle.watermarks import StreamClock, advance_clocks, observe_batch
from clash.model.stream import Stream

R = Stream("R", (("ts", "timestamp"),), time="ts", lateness=10)
S = Stream("S", (("ts", "timestamp"),), time="ts", lateness=0, idle=100)


def test_a_watermark_lies_behind_the_largest_time_of_earlier_batches() -> None:
    clocks = advance_clocks([R, S], {}, now=0)
    assert [clocks[s].watermark for s in "RS"] == [None, None]
    clocks = observe_batch(clocks, {"R": 50, "S": 70}, {"R": 1, "S": 1}, now=0)
    assert [clocks[s].watermark for s in "RS"] == [None, None]  # this batch is not late by its own rows
    clocks = advance_clocks([R, S], clocks, now=1)
    assert [clocks[s].watermark for s in "RS"] == [40, 70]


def test_a_watermark_never_falls() -> None:
    clocks = advance_clocks([R], {"R": StreamClock(50, 40, 0)}, now=1)
    clocks = observe_batch(clocks, {"R": 20}, {"R": 1}, now=1)
    assert advance_clocks([R], clocks, now=2)["R"].watermark == 40


def test_an_idle_stream_follows_the_others() -> None:
    clocks = {"R": StreamClock(500, 400, 200), "S": StreamClock(10, 10, 50)}
    assert advance_clocks([R, S], clocks, now=150)["S"].watermark == 10
    raised = advance_clocks([R, S], clocks, now=151)
    assert raised["S"].watermark == 490
    assert raised["R"].watermark == 490


def test_a_stream_without_lateness_holds_idle_ones_down() -> None:
    free = Stream("T", (("ts", "timestamp"),), time="ts")
    clocks = advance_clocks(
        [R, S, free], {"R": StreamClock(500, None, 0), "S": StreamClock(10, 10, 0), "T": StreamClock(900, None, 0)}, now=1000
    )
    assert clocks["S"].watermark == 10
    assert clocks["T"].watermark is None


def test_a_stream_that_was_never_seen_counts_from_the_first_batch() -> None:
    clocks = observe_batch(advance_clocks([R, S], {}, now=1000), {"R": 50}, {"R": 1}, now=1000)
    assert advance_clocks([R, S], clocks, now=1100)["S"].watermark is None
    assert advance_clocks([R, S], clocks, now=1101)["S"].watermark == 40
