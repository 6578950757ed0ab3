"""The progress of a run: its last batches, and totals since it started, as plain data that JSON can hold."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from clash.coordinator.committed_batch import CommittedBatch
from clash.model.time_text import instant_text
from clash.spark.progress_text import BatchProgress, RecentProgress

Durations = Mapping[int, Mapping[str, int]]
_MAX_BATCHES = 1000  # that are listed one by one; the totals of a query are kept as long as one of them has it


class Progress:
    """Written by the thread that runs batches, read by others. `last`: the last batch that was committed before the run, -1 if none was."""

    def __init__(self, last: int) -> None:
        self.last = last
        self._lock = Lock()
        # Batches and their entries as JSON: as hundreds of small objects each, they would fragment Python's memory.
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=_MAX_BATCHES)
        self._latest: dict[str, Any] = {}
        self._batches = 0  # of this run, as are the totals below
        self._input: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._results: Counter[str] = Counter()
        self._last_seen: dict[str, int] = {}  # by query, the number of its last batch, counted from the start
        self._other_results = 0  # of queries that none of the listed batches has
        self._event_times: dict[str, float] = {}  # the largest so far, in seconds

    def add(self, committed: CommittedBatch, seconds: float, timed: Collection[str]) -> None:
        """Adds a committed batch that took `seconds`. `timed`: the streams whose event times are instants."""
        now = time.time()
        with self._lock:
            self._event_times = {stream: micros / 1e6 for stream, micros in committed.event_times.items() if stream in timed}
            self._batches += 1
            self._input.update(committed.input)
            self._late.update(committed.late)
            self._rejected.update(committed.rejected)
            self._lost.update(committed.lost)
            self._results.update(committed.counts)
            self._last_seen.update(dict.fromkeys(committed.counts, self._batches))
            self._forget_queries()
            self._latest = {
                "batch": committed.batch,
                "generation": committed.generation,
                "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "input": dict(committed.input),
                "input_per_second": {stream: rows / seconds for stream, rows in committed.input.items()},
                "late": dict(committed.late),
                "rejected": dict(committed.rejected),
                "lost": dict(committed.lost),
                "results": dict(committed.counts),
                "stores": {store: dict(size) for store, size in committed.stores.items()},
                "watermarks": {stream: None if micros is None else instant_text(micros) for stream, micros in committed.watermarks.items()},
                "delay": self._delays(now),
                "seconds": {**committed.seconds, **committed.driver_seconds, "batch": seconds},
            }
            self._recent.append((committed.batch, json.dumps(self._latest).encode()))

    def _forget_queries(self) -> None:
        """A run may see any number of queries: of those that ended long ago, only the sum of their results is kept."""
        for query in [query for query, batch in self._last_seen.items() if batch <= self._batches - _MAX_BATCHES]:
            del self._last_seen[query]
            self._other_results += self._results.pop(query)

    def _delays(self, now: float) -> dict[str, float]:
        return {stream: round(now - newest, 3) for stream, newest in self._event_times.items()}

    def recent(self, durations: Durations, after: int = -1) -> RecentProgress:
        """The last batches after the batch `after`, oldest first. `durations`: by batch, the milliseconds that Spark reports."""
        with self._lock:
            recent = [(batch, entry) for batch, entry in self._recent if batch > after]
        return RecentProgress({**json.loads(entry), "durationMs": durations.get(batch, {})} for batch, entry in recent)

    def latest(self, durations: Durations, backlog: Mapping[str, Mapping[str, int]]) -> BatchProgress:
        """The last batch, the totals, and the delay and backlog of now: a run that hangs falls behind. Before the first batch of the run,
        all values of the batch but its number are empty."""
        with self._lock:
            empty: dict[str, Any] = {
                "batch": self.last, "generation": None, "timestamp": None, "input": {}, "input_per_second": {}, "late": {}, "rejected": {},
                "lost": {}, "results": {}, "stores": {}, "watermarks": {}, "delay": {}, "seconds": {},
            }  # fmt: skip
            entry = self._latest or empty
            totals = {
                "batches": self._batches,
                "input": dict(self._input),
                "late": dict(self._late),
                "rejected": dict(self._rejected),
                "lost": dict(self._lost),
                "results": dict(self._results),
                "other_results": self._other_results,
            }
            lag = {"delay": self._delays(time.time()), "backlog": {stream: dict(unread) for stream, unread in backlog.items()}}
            return BatchProgress({**entry, **lag, "durationMs": durations.get(entry["batch"], {}), "totals": totals})


def read_durations(reports: Any, known: int) -> dict[int, dict[str, int]]:
    """By batch, the milliseconds of the reports of Spark's that are newer than those of the batch `known`, which is read again: Spark may
    report a batch more than once, and the last report counts."""
    durations: dict[int, dict[str, int]] = {}
    for at in range(len(reports) - 1, -1, -1):
        report = reports[at]
        batch = report.batchId()
        if batch < known:
            break
        if batch not in durations:
            durations[batch] = json.loads(report.json())["durationMs"]
    return durations
