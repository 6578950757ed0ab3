"""What batches tell of their data, gathered into epochs: the planner's statistics.

Invariant: nothing here can hold a batch up or change a result. Batches only leave their reports; merging and estimating run beside the
stream, in the planner's thread. What is known is written to the checkpoint now and then, so that a restart does not begin with nothing;
if that file is lost, or older than the state, plans may be worse for a while.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

from clash.coordinator.control.setup import Setup
from clash.coordinator.adaptive.drift_detector import Signs, signs, stirred
from clash.errors import StateError
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.state.json_records import read_json, write_json
from clash.state.storage import Storage
from clash.statistics import Gathered, History, Probed, estimate, merge, collection_spec
from clash.statistics.collected import add_up
from clash.topology import Topology
from clash.plan.topology import ProbeRule

_FILE = "statistics.json"
_EVERY = 30  # seconds between two writes
_REMEMBERED = 8  # epochs whose signs a new one is compared with
_RAW = 64  # reports of tasks that wait to be merged


class _Epoch:
    """Reports of an epoch; raw ones are merged before they are many."""

    def __init__(self) -> None:
        self.raw: list[Mapping[str, Any]] = []
        self.merged: list[Gathered] = []
        self.matches: dict[Probed, tuple[int, int]] = {}
        self.rows: Counter[str] = Counter()

    def add(self, report: Mapping[str, Any], probed: Mapping[str, Probed]) -> None:
        if "seen" in report:
            self.rows.update(report["rows"])
            self.raw.append(report["seen"])
            if len(self.raw) >= _RAW:
                self.merged, self.raw = [self.gathered()], []
        for label, (asked, found) in report.get("matches", {}).items():
            if (what := probed.get(label)) is not None:
                before = self.matches.get(what, (0, 0))
                self.matches[what] = before[0] + int(asked), before[1] + int(found)

    def gathered(self) -> Gathered:
        return add_up([*self.merged, merge(self.raw)])


class Watch:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._lock = Lock()  # short: commits take it
        self._folding = Lock()  # as long as merging takes
        self._open = _Epoch()
        self._ended: list[tuple[_Epoch, tuple[Query, ...], Setup]] = []
        self._written = time.monotonic()
        self._history = self._read()
        self._topology: Topology | None = None
        self._probed: dict[str, Probed] = {}
        self._signs: deque[Signs] = deque(maxlen=_REMEMBERED)  # of the last epochs
        self._looked: list[Signs] = []  # of the epochs before the last look

    def _read(self) -> History:
        try:
            return History.from_json(read_json(self.storage, _FILE)) if self.storage.exists(_FILE) else History()
        except (StateError, KeyError, TypeError, ValueError):
            return History()  # of another version, or torn: it is only worth a better plan

    def add(self, reports: Iterable[Mapping[str, Any]], topology: Topology) -> None:
        """The reports of a committed batch."""
        with self._lock:
            if topology is not self._topology:
                self._topology, self._probed = topology, probes_of(topology)
            for report in reports:
                self._open.add(report, self._probed)

    def end_epoch(self, queries: tuple[Query, ...], setup: Setup) -> bool:
        """What comes from now on belongs to the next one. Does the one that ends look different from those before the last look?"""
        with self._lock:
            self._ended.append((self._open, queries, setup))
            now = signs(self._open.rows, self._open.matches)
            self._signs.append(now)
            self._open = _Epoch()
            return stirred(self._looked, now)

    def fold(self) -> None:
        """Takes in the epochs that have ended; it takes a while."""
        with self._folding:
            with self._lock:
                ended, self._ended = self._ended, []
            for epoch, queries, setup in ended:
                _take_in(self._history, epoch, queries, setup)
            if ended:
                self._write()

    def statistics(self, queries: tuple[Query, ...], setup: Setup) -> Statistics | None:
        """What the epochs that have ended tell of these queries; None before the first."""
        with self._lock:
            self._looked = [*self._signs]
        self.fold()
        with self._folding:
            return estimate(self._history, queries, setup.by_name) if self._history.epochs else None

    def so_far(self, queries: tuple[Query, ...], setup: Setup) -> Statistics | None:
        """The same with the epoch that has not ended yet, for people."""
        self.fold()
        with self._folding, self._lock:
            history = History.from_json(self._history.to_json())
            _take_in(history, self._open, queries, setup)
        return estimate(history, queries, setup.by_name) if history.epochs else None

    def _write(self) -> None:
        if time.monotonic() - self._written >= _EVERY:
            self._written = time.monotonic()
            with suppress(StateError):  # a full disk will be told of by the next commit
                write_json(self.storage, _FILE, self._history.to_json())


def _take_in(history: History, epoch: _Epoch, queries: tuple[Query, ...], setup: Setup) -> None:
    gathered = epoch.gathered()
    if gathered.streams:
        labels = {what: str(at) for at, what in enumerate(epoch.matches)}
        matches = {labels[what]: counts for what, counts in epoch.matches.items()}
        history.add_epoch(gathered, collection_spec(queries, setup.by_name), setup.by_name, matches, {at: what for what, at in labels.items()})


def probes_of(topology: Topology) -> dict[str, Probed]:
    """What the edges' probes find, where they find all of it: not in branches, and not for tuples that are probed once more."""
    found: dict[str, Probed] = {}
    whole: set[str] = {origin.label for origin in topology.origins if origin.replay is None}
    for edge in topology.edges:  # parents come first
        rule = topology.rule[edge.store, edge.label]
        if (
            isinstance(rule, ProbeRule)
            and edge.carries is not None
            and edge.source.name in whole
            and not rule.since
            and rule.before is None
        ):
            whole.add(edge.label)
            found[edge.label] = Probed(rule.origin, edge.carries, rule.adds, rule.bound, edge.label)
    return found
