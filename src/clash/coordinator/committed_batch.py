"""What a committed batch did, for those who show or hand over its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clash.coordinator.adaptive.generation_cost import GenerationCost
from clash.coordinator.checkpoint.manifest import BatchSummary, Manifest
from clash.coordinator.lifecycle.split_points import remaining_rows
from clash.protocol.batch import BatchSpec
from clash.protocol.containers import ContainerRecord, after_relayout
from clash.protocol.reports import ProbeCount, RoundReport


@dataclass(frozen=True)
class CommittedBatch:
    batch: int
    generation: int
    results: Mapping[str, tuple[str, ...]]
    """By query, the full names of the batch's result files."""
    counts: Mapping[str, int]
    """By query, the number of results."""
    input: Mapping[str, int]
    """By stream, the number of tuples."""
    late: Mapping[str, int]
    stores: Mapping[str, Mapping[str, int]]
    """By store: rows, bytes and containers."""
    seconds: Mapping[str, float]
    """By activity, summed over tasks."""
    watermarks: Mapping[str, int | None]
    event_times: Mapping[str, int]
    """By stream, the largest event time so far."""
    driver_seconds: Mapping[str, float] = field(default_factory=dict)
    """By step of the batch loop: `decide`, `job` (until all tasks have reported), `project` (where results are computed of joined rows),
    `commit`."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """By stream, records that are no tuples."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """By stream, records that the source did not have any more."""
    plan_path: str = ""
    """The physical plan that it ran under, to which the edges below belong; empty for a batch that is only published again."""
    probes: Mapping[str, ProbeCount] = field(default_factory=dict)
    """By edge label."""
    worker_seconds: tuple[float, ...] = ()
    """By worker, how long it was busy; one number where one task did the work of all of them."""

    @staticmethod
    def of(manifest: Manifest, results: Mapping[str, tuple[str, ...]]) -> CommittedBatch:
        summary = manifest.summary
        return CommittedBatch(
            batch=manifest.batch,
            generation=manifest.generation,
            results=results,
            counts={query: summary.results.get(query, 0) for query in results},
            input=summary.input,
            late=summary.late,
            rejected=summary.rejected,
            lost=summary.lost,
            stores=store_sizes(manifest.containers),
            seconds=summary.seconds,
            watermarks={name: clock.watermark for name, clock in manifest.clocks.items()},
            event_times={name: clock.max_event_time for name, clock in manifest.clocks.items() if clock.max_event_time is not None},
        )

    @property
    def task_seconds(self) -> float:
        """How long all tasks ran, added up; the other activities are parts of these."""
        return sum(self.seconds.get(activity, 0.0) for activity in ("source", "ingest", "round"))


def store_sizes(containers: Iterable[ContainerRecord]) -> dict[str, dict[str, int]]:
    """By store: rows, bytes and containers."""
    sizes: dict[str, dict[str, int]] = {}
    for record in containers:
        size = sizes.setdefault(record.store, {"rows": 0, "bytes": 0, "containers": 0})
        size["rows"] += round(remaining_rows(record))  # of one whose rows are being moved, about those that have not
        size["bytes"] += record.bytes
        size["containers"] += 1
    return sizes


def containers_after(spec: BatchSpec, rounds: Sequence[RoundReport]) -> list[ContainerRecord]:
    """The containers after a batch; those of a store are in order of age."""
    merged = {
        path for report in rounds for path in report.stores.removed
    }  # of the stores that wrote them: bootstrapped ones are not merged
    added = [record for report in rounds for record in report.stores.added]
    remaining = [rest for record in (*spec.containers, *added) if (rest := after_relayout(record, spec.relayout)) is not None]
    return [record for record in remaining if record.writer is not None or record.path not in merged]


def costs_after(before: Mapping[int, GenerationCost], generation: int, summary: BatchSummary) -> dict[int, GenerationCost]:
    """What this generation, and the last one before it that had a batch, have cost after the batch."""
    now = before.get(generation, GenerationCost()).plus(sum(summary.input.values()), sum(summary.seconds.values()))
    last = max((number for number in before if number < generation), default=None)
    return {generation: now} if last is None else {last: before[last], generation: now}
