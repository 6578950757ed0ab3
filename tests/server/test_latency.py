"""Latency from arrival to commit, estimated from the times of batches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from clash.server.latency import Latencies

START = 1_800_000_000.0


def entry(committed: float, seconds: float, before_batch: int = 0, **results: int) -> dict[str, Any]:
    return {
        "timestamp": datetime.fromtimestamp(START + committed, UTC).isoformat(),
        "seconds": {"batch": seconds},
        "durationMs": {"latestOffset": before_batch, "triggerExecution": 99_999},
        "results": results,
    }


def test_a_batch_after_a_pause_takes_its_own_time() -> None:
    latencies = Latencies()
    latencies.add([entry(0, 0.5, paid=1), entry(10, 0.2, 100, paid=1)])
    assert latencies.of("paid", START + 10) == {"p50": pytest.approx(0.3), "p95": pytest.approx(0.5)}


def test_rows_wait_for_the_trigger_before_where_triggers_follow_each_other() -> None:
    """Batches of a second each: rows arrive at any time of the second before, so they wait half of it on average."""
    latencies = Latencies()
    latencies.add([entry(at, 1.0, paid=10) for at in range(40)])
    found = latencies.of("paid", START + 39)
    assert found is not None
    assert found["p50"] == pytest.approx(1.5, abs=0.11)
    assert found["p95"] == pytest.approx(1.9, abs=0.11)


def test_batches_count_by_their_results_and_only_for_a_minute() -> None:
    latencies = Latencies()
    latencies.add([entry(0, 9.0, paid=1000), entry(100, 0.1, paid=99), entry(110, 5.0, paid=1, sent=1)])
    assert latencies.of("paid", START + 111) == {"p50": pytest.approx(0.1), "p95": pytest.approx(0.1)}
    assert latencies.of("sent", START + 111) == {"p50": pytest.approx(5.0), "p95": pytest.approx(5.0)}
    assert latencies.of("other", START + 111) is None
    assert latencies.of("paid", START + 500) is None
