"""How many tuples travelled on each edge of the topology lately, and how evenly the workers were busy.

Written by the thread that runs batches, with what the reports of tasks carry anyway; summed up when somebody looks.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from clash.coordinator.committed_batch import CommittedBatch
from clash.protocol.reports import ProbeCount

_MAX_BATCHES = 200
_SPAN = 10.0  # seconds


class _Entry(NamedTuple):
    time: float
    plan_path: str
    probes: Mapping[str, ProbeCount]
    input: Mapping[str, int]
    results: Mapping[str, int]
    worker_seconds: tuple[float, ...]


@dataclass(frozen=True)
class RecentRates:
    """Per second, over the last seconds."""

    seconds: float = 0.0
    """The time that the rates are of, those of probes since the plan changed at most; 0 before the first batch."""
    plan_path: str = ""
    """The physical plan whose edges these are."""
    probes: Mapping[str, ProbeCount] = field(default_factory=dict)
    """By edge label."""
    input: Mapping[str, float] = field(default_factory=dict)
    """By stream."""
    results: Mapping[str, float] = field(default_factory=dict)
    """By query."""
    worker_shares: tuple[float, ...] = ()
    """By worker, its share of the time that all of them were busy; empty where one task did the work of all of them."""


class ProbeRates:
    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: deque[_Entry] = deque(maxlen=_MAX_BATCHES)
        self._began = time.monotonic()

    def add(self, committed: CommittedBatch) -> None:
        entry = _Entry(time.monotonic(), committed.plan_path, committed.probes, committed.input, committed.counts, committed.worker_seconds)
        with self._lock:
            self._entries.append(entry)

    def recent(self, span: float = _SPAN) -> RecentRates:
        """The rates of the last `span` seconds, of edges under the plan of the last batch. Without batches in that time they are zero."""
        now = time.monotonic()
        with self._lock:
            entries = list(self._entries)
        if not entries:
            return RecentRates()
        before = [entry.time for entry in entries if now - entry.time > span]
        latest = [entry for entry in entries if now - entry.time <= span]
        began = max(before[-1], now - span) if before else max(self._began, now - span)
        seconds = max(now - began, 1e-3)
        plan_path = entries[-1].plan_path
        others = [entry.time for entry in entries if entry.plan_path != plan_path]
        under_plan = min(seconds, max(now - others[-1], 1e-3)) if others else seconds
        probes, matches, rows, results = (Counter[str]() for _ in range(4))
        for entry in latest:
            rows.update(entry.input)
            results.update(entry.results)
            if entry.plan_path == plan_path:
                for label, count in entry.probes.items():
                    probes[label] += count.probes  # type: ignore[assignment]  # a broadcast tuple counts in parts
                    matches[label] += count.matches  # type: ignore[assignment]
        return RecentRates(
            seconds=seconds,
            plan_path=plan_path,
            probes={label: ProbeCount(probes[label] / under_plan, matches[label] / under_plan) for label in probes},
            input={name: number / seconds for name, number in rows.items()},
            results={name: number / seconds for name, number in results.items()},
            worker_shares=_shares([entry.worker_seconds for entry in latest if len(entry.worker_seconds) > 1]),
        )


def _shares(busy: list[tuple[float, ...]]) -> tuple[float, ...]:
    if not busy:
        return ()
    of_today = [seconds for seconds in busy if len(seconds) == len(busy[-1])]  # there may have been another number of workers
    sums = [sum(column) for column in zip(*of_today, strict=True)]
    total = sum(sums)
    return tuple(value / total for value in sums) if total > 0 else ()
