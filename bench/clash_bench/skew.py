"""What the busiest worker has to do where a join key is skewed: four workers in process, counted and not timed.

Both streams draw their keys from a Zipf distribution, and half-way other keys become the frequent ones. The engine adapts, in one arm by
statistics without frequent keys, so that a store is hashed or replicated as a whole; in the other by all statistics. Work is the tuples
that a worker looks up and the rows that it finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from clash.coordinator.adaptive.replanner import Policy
from clash.inprocess.engine import InProcessEngine
from clash.inprocess.transport import Partition
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import Report, RoundReport
from clash.workers.whole_batch import run_whole_batch
from clash_bench.tables import note, write

WORKERS = 4
KEYS = 10_000
ROWS = 400  # of a stream in a batch, which is a second and an epoch
WINDOW = 4  # seconds
SETTLED = WINDOW + 3  # batches after a change of the keys: the window has the new ones alone, and the plan is for them
STREAMS = [
    Stream.of(name, {"a": "bigint", column: "bigint", "ts": "timestamp"}, time="ts", window=f"{WINDOW} seconds", lateness="0 seconds")
    for name, column in (("R", "v"), ("S", "w"))
]
QUERY = {"q": "SELECT R.v, S.w FROM R JOIN S ON R.a = S.a"}
_NOW = Policy(estimate_interval=0, estimate_interval_if_drifted=0, solver_pause=0, solver_pause_if_drifted=0, solver_seconds=0)


@dataclass(frozen=True)
class BusiestWorker:
    statistics: str
    keys: str
    """Which keys are frequent: the first ones, or those after the change."""
    layouts: str
    """Of the stores, in the last batch."""
    work: float
    """Of the busiest worker, in multiples of the mean, over the settled batches."""
    stored: float
    """The rows that it stores, likewise, in the last batch."""
    results: int
    generations: int


class SkewedRun:
    """An adaptive run over skewed keys."""

    def __init__(self, with_frequent: bool, skew: float, uri: str | None = None) -> None:
        self.skew, self.random = skew, np.random.default_rng(7)
        self.work: list[Counter[int]] = []
        self.results: list[int] = []
        self.engine = _Engine(self.work, uri)
        self.engine.coordinator.replanner.policy = _NOW
        if not with_frequent:
            estimate = self.engine.coordinator.collector.estimate

            def without_frequent(queries: tuple[Query, ...], streams: Mapping[str, Stream]) -> Statistics | None:
                found = estimate(queries, streams)
                return None if found is None else replace(found, frequent={})

            self.engine.coordinator.collector.estimate = without_frequent  # type: ignore[method-assign]

    def play(self, batches: int, shift: int) -> list[dict[str, pa.Table]]:
        """So many batches, in which the most frequent key is `shift`; their tables."""
        played = []
        for _ in range(batches):
            batch = self.engine.coordinator.last + 1
            played.append({name: self._table(batch, column, shift) for name, column in (("R", "v"), ("S", "w"))})
            self.results.append(self.engine.batch(played[-1]).counts["q"])
            self.engine.coordinator.replanner.wait()
        return played

    def busiest(self, batches: int) -> float:
        """The share of the busiest worker in the last batches, in multiples of the mean."""
        total = sum(self.work[-batches:], Counter[int]())
        return WORKERS * max(total.values()) / sum(total.values())

    def stored(self) -> float:
        by_worker: Counter[int] = Counter()
        for record in self.engine.coordinator.manifest.containers:
            by_worker[record.slot] += record.rows
        return WORKERS * max(by_worker.values()) / sum(by_worker.values())

    def layouts(self) -> str:
        stores = self.engine.coordinator.loaded_plan.topology.stores
        return " ".join(f"{store.stream}[{layout}]" for store in stores for layout in store.layouts)

    def _table(self, batch: int, column: str, shift: int) -> pa.Table:
        shares = 1 / np.arange(1, KEYS + 1) ** self.skew
        keys = self.random.choice(KEYS, ROWS, p=shares / shares.sum()) + shift
        times = pa.array(np.full(ROWS, batch * 1_000_000), pa.timestamp("us", "UTC"))
        return pa.table({"a": pa.array(keys), column: pa.array(np.arange(batch * ROWS, (batch + 1) * ROWS)), "ts": times})


class _Engine(InProcessEngine):
    """One task per worker, whose probes and matches are counted."""

    def __init__(self, work: list[Counter[int]], uri: str | None) -> None:
        super().__init__(STREAMS, QUERY, workers=WORKERS, adaptive=True, uri=uri)
        self.work = work

    def run_tasks(self, spec: BatchSpec, partitions: list[Partition]) -> list[Report]:
        reports = run_whole_batch(replace(spec, is_one_task=False), partitions)
        done: Counter[int] = Counter()
        for report in reports:
            if isinstance(report, RoundReport):
                done[report.worker] += int(sum(count.probes + count.matches for count in report.probes.values()))
        self.work.append(done)
        return reports


def run(out: Path, skew: float = 1.5, batches: int = 16) -> None:
    rows = []
    for name, with_frequent in (("without frequent keys", False), ("all", True)):
        arm = SkewedRun(with_frequent, skew)
        for keys, shift in (("first", 0), ("others", 5 * KEYS)):
            arm.play(batches, shift)
            settled = max(1, batches - SETTLED)
            found = BusiestWorker(
                name, keys, arm.layouts(), arm.busiest(settled), arm.stored(), sum(arm.results[-batches:]), len(arm.engine.generations)
            )
            rows.append(found)
            note(str(found))
    write(out / "skew.csv", BusiestWorker, rows)
