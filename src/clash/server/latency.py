"""How long rows wait for their results, from their arrival to the commit, by query.

Runs know when a batch was committed and how long it took, not when each of its rows arrived. A trigger of Spark's takes all rows that have
arrived by its start, so a row of a batch arrived before that start and, where triggers follow each other without a pause, after the start
of the trigger before: on average in the middle between. Rows of a backlog have waited longer than that; the delay of their stream tells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

_BATCHES = 300  # that percentiles are of, at most
_SPAN = 60.0  # seconds that they are of, at most
_NO_PAUSE = 0.1  # seconds between two triggers that follow each other without a pause
_POINTS = 5  # of the time between two triggers, at which rows are taken to have arrived
_BEFORE_BATCH = ("latestOffset", "getBatch", "queryPlanning", "walCommit")  # what Spark does of a trigger before the batch, in its words


class BatchLatency(NamedTuple):
    """Of the rows of a batch: from the start of its trigger to its commit, and how long they may have waited for the trigger."""

    committed: float
    """Seconds since 1970."""
    took: float
    waited: float
    results: Mapping[str, int]


class Latencies:
    """The last batches of a run. Used by one thread at a time."""

    def __init__(self) -> None:
        self._batches: deque[BatchLatency] = deque(maxlen=_BATCHES)
        self._last_start: float | None = None
        self._last_end: float | None = None

    def add(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Batches as `run.recent_progress` lists them, oldest first, each once."""
        for entry in entries:
            committed = datetime.fromisoformat(entry["timestamp"]).timestamp()
            took = entry["seconds"]["batch"] + sum(entry["durationMs"].get(part, 0) for part in _BEFORE_BATCH) / 1000
            began = committed - took
            follows = self._last_end is not None and began - self._last_end < _NO_PAUSE
            waited = max(0.0, began - self._last_start) if follows and self._last_start is not None else 0.0
            self._last_start, self._last_end = began, committed
            self._batches.append(BatchLatency(committed, took, waited, dict(entry["results"])))

    def of(self, query: str, now: float) -> dict[str, float] | None:
        """Median and 95th percentile over the results of the last minute, in seconds; None without results."""
        weights: list[tuple[float, float]] = []
        for batch in self._batches:
            count = batch.results.get(query, 0)
            if count and now - batch.committed <= _SPAN:
                weights += [(batch.took + batch.waited * (at + 0.5) / _POINTS, count / _POINTS) for at in range(_POINTS)]
        if not weights:
            return None
        weights.sort()
        return {"p50": _quantile(weights, 0.5), "p95": _quantile(weights, 0.95)}


def _quantile(weights: list[tuple[float, float]], share: float) -> float:
    """Of values with weights, in order.

    >>> _quantile([(1.0, 1), (2.0, 1), (9.0, 1)], 0.5)
    2.0
    """
    left = share * sum(weight for _, weight in weights)
    for value, weight in weights:
        left -= weight
        if left <= 0:
            return round(value, 4)
    return round(weights[-1][0], 4)
