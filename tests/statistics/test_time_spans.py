"""Event times in a few spans: outliers do not stretch the spans of the usual tuples, in whatever order spans are merged."""

from __future__ import annotations

import numpy as np
import pytest

from clash.statistics.time_spans import MAX_SPANS, Span, clock, merge_spans, share_between, spans_of

FIRST, LAST = -(2**63), 2**63 - 1


def test_a_block_is_one_span() -> None:
    assert spans_of(np.arange(5_000, dtype=np.int64)) == (Span(5_000, 0, 4_999),)
    assert spans_of(np.full(10, 7, np.int64)) == (Span(10, 7, 7),)


@pytest.mark.parametrize("at", [0, 1, 4_999])
def test_times_far_off_have_spans_of_their_own(at: int) -> None:
    event_times = np.arange(5_000, dtype=np.int64)
    event_times[[at, 2_500]] = LAST, FIRST
    before, usual, after = spans_of(event_times)
    assert (before.low, before.high, after.low, after.high) == (FIRST, FIRST, LAST, LAST)
    assert 0 <= usual.low < usual.high <= 4_999
    assert usual.rows == pytest.approx(5_000, rel=0.02)
    assert clock([before, usual, after]) == usual.high
    assert share_between((before, usual, after), 0, 5_000) == pytest.approx(1, abs=0.02)


def test_outliers_stay_apart_when_spans_are_merged() -> None:
    """Many blocks, each with a different wrong event time: the usual spans are merged with one another."""
    rng = np.random.default_rng(1)
    spans: tuple[Span, ...] = ()
    for block in range(50):
        event_times = np.arange(1_000, dtype=np.int64) + 1_000 * block
        event_times[rng.integers(1_000)] = rng.integers(FIRST, LAST)
        spans = merge_spans(spans + spans_of(event_times))
        assert len(spans) <= MAX_SPANS
        assert share_between(spans, 0, 1_000 * (block + 1)) > 0.95
        assert 1_000 * block <= clock(spans) <= 1_000 * (block + 1)
