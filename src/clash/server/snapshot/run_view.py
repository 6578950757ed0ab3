"""What is kept of a run between two snapshots: its progress for a moment, its last batches, and what changes with the plan alone.

Several snapshots are taken one after the other, for any number of listeners; they share one reading of the run.
"""

from __future__ import annotations

import time
from collections import deque
from threading import Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary

from clash.explain.picture import picture_data
from clash.optimizer import replan
from clash.plan.logical import LogicalPlan
from clash.server.latency import Latencies

_FRESH = 0.4  # seconds for which a reading of the progress counts
_MAX_BATCHES = 600  # that are kept one by one


class RunView:
    def __init__(self, run: Any) -> None:
        self.run = run
        self.latencies = Latencies()
        self.batches: deque[dict[str, Any]] = deque(maxlen=_MAX_BATCHES)
        self._lock = Lock()
        self._progress: dict[str, Any] = {}
        self._read = -_FRESH
        self._picture: tuple[object, dict[str, Any]] = (None, {})
        self._independent: tuple[object, dict[str, Any] | None] = (None, None)

    def progress(self) -> dict[str, Any]:
        """The last batch, totals and lag; the batches since the last call are added to those that are kept."""
        with self._lock:
            if time.monotonic() - self._read >= _FRESH:
                self._progress = dict(self.run.progress)
                self._complete_last()
                added = self.run.progress_after(self.batches[-1]["batch"] if self.batches else -1)
                self.latencies.add(added)
                self.batches.extend(added)
                self._read = time.monotonic()
            return self._progress

    def _complete_last(self) -> None:
        """Spark reports how long a batch took it a moment after the batch."""
        if self.batches and not self.batches[-1]["durationMs"]:
            number = self.batches[-1]["batch"]
            again = self.run.progress_after(number - 1)
            if again and again[0]["batch"] == number:
                self.batches[-1] = again[0]

    def picture(self) -> dict[str, Any]:
        """The topology of the batch that was begun last, as data of a picture."""
        coordinator = self.run.coordinator
        generation, loaded = coordinator.generation, coordinator.loaded_plan
        # between two batches of different plans, the loaded one may still be that of the last
        topology = loaded.topology if {s.id for s in loaded.topology.stores} == {s.id for s in generation.topology.stores} else None
        key = (generation.number, loaded if topology is not None else None)
        with self._lock:
            if self._picture[0] != key:
                data = picture_data(generation.plan, topology or generation.topology)
                self._picture = key, {"generation": generation.number, **data}
            return self._picture[1]

    def independent(self) -> dict[str, Any] | None:
        """What the queries would cost and hold as jobs of their own; None until it has been planned, which happens beside."""
        generation = self.run.coordinator.generation
        with self._lock:
            key, found = self._independent
            if key != generation.number:
                self._independent = generation.number, None
                Thread(target=self._plan_independent, args=(generation.number, generation.plan), name="clash-page", daemon=True).start()
                return None
            return found

    def _plan_independent(self, number: int, plan: LogicalPlan) -> None:
        if not plan.queries:
            return
        alone = replan(plan, strategy="independent", time_limit=0.0)
        rows = sum(store.rows * len(store.layouts) for store in alone.stores)
        with self._lock:
            if self._independent[0] == number:
                self._independent = number, {"cost": alone.cost, "stores": len(alone.stores), "rows": rows}


_VIEWS: WeakKeyDictionary[Any, RunView] = WeakKeyDictionary()
_LOCK = Lock()


def view_of(run: Any) -> RunView:
    with _LOCK:
        if run not in _VIEWS:
            _VIEWS[run] = RunView(run)
        return _VIEWS[run]
