"""Event times in a few spans: the usual tuples are in theirs, whatever lies far off, and however they are added up."""

from __future__ import annotations

import numpy as np
import pytest

from clash.statistics.time_spans import MOST, Span, clock, share, spans_of, united

FIRST, LAST = -(2**63), 2**63 - 1


def test_a_block_is_one_span() -> None:
    assert spans_of(np.arange(5_000, dtype=np.int64)) == (Span(5_000, 0, 4_999),)
    assert spans_of(np.full(10, 7, np.int64)) == (Span(10, 7, 7),)


@pytest.mark.parametrize("at", [0, 1, 4_999])
def test_times_far_off_have_spans_of_their_own(at: int) -> None:
    tau = np.arange(5_000, dtype=np.int64)
    tau[[at, 2_500]] = LAST, FIRST
    before, usual, after = spans_of(tau)
    assert (before.low, before.high, after.low, after.high) == (FIRST, FIRST, LAST, LAST)
    assert 0 <= usual.low < usual.high <= 4_999
    assert usual.rows == pytest.approx(5_000, rel=0.02)
    assert clock([before, usual, after]) == usual.high
    assert share((before, usual, after), 0, 5_000) == pytest.approx(1, abs=0.02)


def test_added_up_they_stay_apart() -> None:
    """Many blocks, each with a time of its own that is off: the usual ones are united with one another."""
    rng = np.random.default_rng(1)
    spans: tuple[Span, ...] = ()
    for block in range(50):
        tau = np.arange(1_000, dtype=np.int64) + 1_000 * block
        tau[rng.integers(1_000)] = rng.integers(FIRST, LAST)
        spans = united(spans + spans_of(tau))
        assert len(spans) <= MOST
        assert share(spans, 0, 1_000 * (block + 1)) > 0.95
        assert 1_000 * block <= clock(spans) <= 1_000 * (block + 1)
