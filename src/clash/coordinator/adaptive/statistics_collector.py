"""What batches report of their data, collected into epochs: the planner's statistics.

Invariant: nothing here can hold up a batch or change a result. Batches only leave their reports; merging and estimating run beside the
stream, in the replanner's thread. What is known is written to the checkpoint now and then, so that a restart does not begin with nothing;
if that file is lost, or older than the state, plans may be worse for a while.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from clash.coordinator.adaptive.drift_detector import EpochProfile, has_drifted, profile_epoch
from clash.coordinator.adaptive.stability import Stability
from clash.coordinator.adaptive.table_statistics import TableStatistics
from clash.errors import StateError
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.topology import ProbeRule, Topology
from clash.protocol.reports import IngestReport, ProbeCount, Report
from clash.state.json_records import read_json, write_json
from clash.state.storage import Storage
from clash.statistics import Collected, ProbeStep, StatisticsHistory, build_collection_spec, estimate, merge
from clash.statistics.history import HISTORY

_FILE = "statistics.json"
_WRITE_INTERVAL = 30  # seconds between two writes
_PROFILES = 8  # epochs that a new one is compared with
_MAX_UNMERGED = 64  # reports of tasks

Streams = Mapping[str, Stream]


@dataclass
class _EpochReports:
    """The reports of an epoch; those of tasks are merged before they are many."""

    unmerged: list[Collected] = field(default_factory=list)
    probes: dict[ProbeStep, ProbeCount] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)

    def add(self, report: Report, steps: Mapping[str, ProbeStep]) -> None:
        if isinstance(report, IngestReport):
            self.rows.update(report.rows)
            self.unmerged.append(report.statistics)
            if len(self.unmerged) >= _MAX_UNMERGED:
                self.unmerged = [self.collected()]
            return
        for label, count in report.probes.items():
            if (step := steps.get(label)) is not None:
                before = self.probes.get(step, ProbeCount(0, 0))
                self.probes[step] = ProbeCount(before.probes + int(count.probes), before.matches + int(count.matches))

    def collected(self) -> Collected:
        return merge(self.unmerged)


@dataclass(frozen=True)
class _EndedEpoch:
    reports: _EpochReports
    queries: tuple[Query, ...]
    streams: Streams


class _Steps:
    """The probe steps of a topology by edge label, worked out once per topology."""

    def __init__(self) -> None:
        self._topology: Topology | None = None
        self._steps: dict[str, ProbeStep] = {}

    def of(self, topology: Topology) -> dict[str, ProbeStep]:
        if topology is not self._topology:
            self._topology, self._steps = topology, complete_probes(topology)
        return self._steps


class StatisticsCollector:
    def __init__(self, storage: Storage, tables: TableStatistics) -> None:
        self.storage, self._tables = storage, tables
        self.write_interval: float = _WRITE_INTERVAL
        self.stability = Stability()
        self._lock = Lock()  # held briefly: commits take it
        self._folding = Lock()  # held while epochs are merged
        self._steps = _Steps()
        self._history = self._read()
        self._open = _EpochReports()
        self._ended: list[_EndedEpoch] = []
        self._profiles: deque[EpochProfile] = deque(maxlen=_PROFILES)  # of the last epochs
        self._profiles_at_estimate: list[EpochProfile] = []  # of the epochs before the last estimate
        self._written = time.monotonic()

    def _read(self) -> StatisticsHistory:
        try:
            return HISTORY.decode(read_json(self.storage, _FILE)) if self.storage.exists(_FILE) else StatisticsHistory()
        except (StateError, ValueError):
            return StatisticsHistory()  # of another version, or torn: only plans depend on it

    def add(self, reports: Iterable[Report], topology: Topology) -> None:
        """The reports of a committed batch."""
        with self._lock:
            steps = self._steps.of(topology)
            for report in reports:
                self._open.add(report, steps)

    def end_epoch(self, queries: tuple[Query, ...], streams: Streams) -> bool:
        """What comes from now on belongs to the next epoch. Returns whether the one that ends differs from those before the last
        estimate."""
        with self._lock:
            self._ended.append(_EndedEpoch(self._open, queries, streams))
            now = profile_epoch(self._open.rows, self._open.probes)
            self._profiles.append(now)
            drifted = has_drifted(self._profiles_at_estimate, now)
            self.stability = self.stability.after_epoch(self._open.rows.total(), drifted)
            self._open = _EpochReports()
            return drifted

    def fold(self) -> None:
        """Merges the epochs that have ended into the history, which takes a while."""
        with self._folding:
            with self._lock:
                ended, self._ended = self._ended, []
            for epoch in ended:
                _add_epoch(self._history, epoch)
            if ended:
                self._write()

    def estimate(self, queries: tuple[Query, ...], streams: Streams) -> Statistics | None:
        """Statistics for these queries from the epochs that have ended; None before the first."""
        with self._lock:
            self._profiles_at_estimate = [*self._profiles]
        self.fold()
        with self._folding:
            return self._estimate(self._history, queries, streams)

    def estimate_so_far(self, queries: tuple[Query, ...], streams: Streams) -> Statistics | None:
        """The same with the epoch that has not ended yet, for users."""
        self.fold()
        with self._folding:
            with self._lock:
                history = self._history.copy()
                _add_epoch(history, _EndedEpoch(self._open, queries, streams))
            return self._estimate(history, queries, streams)

    def _estimate(self, history: StatisticsHistory, queries: tuple[Query, ...], streams: Streams) -> Statistics | None:
        if not history.epochs:
            return None
        return estimate(history, queries, streams, tables=self._tables.collected(build_collection_spec(queries, streams)))

    def _write(self) -> None:
        if time.monotonic() - self._written >= self.write_interval:
            self._written = time.monotonic()
            with suppress(StateError):  # the next commit reports a full disk
                write_json(self.storage, _FILE, HISTORY.encode(self._history))


def _add_epoch(history: StatisticsHistory, epoch: _EndedEpoch) -> None:
    collected = epoch.reports.collected()
    if collected.streams:
        labels = {step: str(at) for at, step in enumerate(epoch.reports.probes)}
        matches = {labels[step]: (int(count.probes), int(count.matches)) for step, count in epoch.reports.probes.items()}
        spec = build_collection_spec(epoch.queries, epoch.streams)
        history.add_epoch(collected, spec, epoch.streams, matches, {label: step for step, label in labels.items()})


def complete_probes(topology: Topology) -> dict[str, ProbeStep]:
    """By edge label, the probes that find all their results: not those of branches, and not those of tuples that are probed once more."""
    steps: dict[str, ProbeStep] = {}
    complete: set[str] = {origin.label for origin in topology.origins if origin.backfills is None}
    for edge in topology.edges:  # parents come first
        rule = topology.rule[edge.store, edge.label]
        if (
            isinstance(rule, ProbeRule)
            and edge.carries is not None
            and edge.source.name in complete
            and not rule.since
            and rule.before is None
        ):
            complete.add(edge.label)
            steps[edge.label] = ProbeStep(rule.origin, edge.carries, rule.adds, rule.bound, edge.label)
    return steps
