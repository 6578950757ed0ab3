"""What the tasks of a batch have reported: everything that the coordinator learns of a batch, in one place.

Invariant: the reports of every round of every worker, or of the one task that did the work of all of them, are there, and those of rounds
are in one order, whichever task was done first: what a manifest says does not depend on that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clash.coordinator.checkpoint.manifest import BatchSummary
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import IngestReport, ProbeCount, Report, ResultFile, RoundReport
from clash.protocol.result_files import is_joined
from clash.workers.loaded_plan import LoadedPlan


@dataclass(frozen=True)
class BatchReports:
    ingest: tuple[IngestReport, ...]
    rounds: tuple[RoundReport, ...]
    projected: tuple[ResultFile, ...] = ()
    """Results that Spark has computed of joined rows."""

    @staticmethod
    def of(spec: BatchSpec, reports: Sequence[Report]) -> BatchReports:
        ingest = [report for report in reports if isinstance(report, IngestReport)]
        rounds = sorted((report for report in reports if isinstance(report, RoundReport)), key=lambda r: (r.round, r.worker))
        found = [(report.round, report.worker) for report in rounds]
        numbers = range(1, spec.rounds + 1)
        if found not in ([(number, worker) for number in numbers for worker in range(tasks)] for tasks in (1, spec.workers)):
            raise AssertionError(f"reports of {found}, of {spec.rounds} rounds of {spec.workers} workers")
        return BatchReports(tuple(ingest), tuple(rounds))

    @property
    def all(self) -> tuple[Report, ...]:
        return (*self.ingest, *self.rounds)

    @property
    def files(self) -> tuple[ResultFile, ...]:
        """Of results, and of late and rejected rows."""
        written = (file for report in self.all for file in report.files if not is_joined(file.destination))
        return (*written, *self.projected)

    @property
    def joined(self) -> tuple[ResultFile, ...]:
        """The files of joined rows, which are not results."""
        return tuple(file for report in self.all for file in report.files if is_joined(file.destination))

    @property
    def removed(self) -> list[str]:
        """Containers that were merged away, also those that an earlier round of the batch had written."""
        return [path for report in self.rounds for path in report.stores.removed]

    @property
    def numbers(self) -> int:
        """The arrival numbers that the partition with most of them used."""
        return max((report.numbers for report in self.ingest), default=0)

    @property
    def max_event_times(self) -> dict[str, int]:
        """By stream."""
        times: dict[str, int] = {}
        for report in self.ingest:
            for stream, time in report.max_event_times.items():
                times[stream] = max(time, times.get(stream, time))
        return times

    @property
    def probes(self) -> dict[str, ProbeCount]:
        """By edge label, over all workers."""
        sums: dict[str, ProbeCount] = {}
        for report in self.rounds:
            for label, count in report.probes.items():
                before = sums.get(label)
                sums[label] = count if before is None else ProbeCount(before.probes + count.probes, before.matches + count.matches)
        return sums

    @property
    def worker_seconds(self) -> tuple[float, ...]:
        """By worker, how long it was busy; one number where one task did the work of all of them."""
        seconds: dict[int, float] = {}
        for report in self.rounds:
            seconds[report.worker] = seconds.get(report.worker, 0.0) + report.seconds.get("round", 0.0)
        return tuple(seconds[worker] for worker in sorted(seconds))

    def probing_rows(self, plan: LoadedPlan) -> dict[str, int]:
        """By store, the rows that probed it, in all tasks together."""
        tasks = len({report.worker for report in self.rounds})
        rows = dict.fromkeys((store for store, _ in plan.copies), 0.0)
        for label, count in self.probes.items():
            step = plan.steps[label]
            rows[step.store] += count.probes * (tasks if step.broadcast else 1)  # a row that every task probes with is counted once
        return {store: round(count) for store, count in rows.items()}

    def summary(self) -> BatchSummary:
        """The sums that the manifest keeps."""
        results, seconds, rows, late, rejected, lost = (Counter[str]() for _ in range(6))
        for file in self.files:
            results[file.destination] += file.rows
        for report in self.all:
            seconds.update(report.seconds)
        for ingest in self.ingest:
            rows.update(ingest.rows)
            late.update(ingest.late)
            rejected.update(ingest.rejected)
            lost.update(ingest.lost)
        rounded = {name: round(value, 6) for name, value in seconds.items()}
        return BatchSummary(dict(results), dict(rows), dict(late), rounded, dict(rejected), dict(lost))
