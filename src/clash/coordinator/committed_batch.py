"""What a committed batch did, for whoever shows or hands over its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clash.coordinator.checkpoint.manifest import Manifest
from clash.coordinator.adaptive.generation_cost import Measured
from clash.coordinator.lifecycle.split_points import left
from clash.coordinator.lifecycle.relayout import trimmed
from clash.protocol.batch import ContainerRecord, Work


@dataclass(frozen=True)
class Committed:
    """`results`: per query, the full names of the batch's result files. `seconds` are summed over tasks."""

    batch: int
    results: Mapping[str, tuple[str, ...]]
    counts: Mapping[str, int]
    input: Mapping[str, int]
    late: Mapping[str, int]
    stores: Mapping[str, Mapping[str, int]]
    seconds: Mapping[str, float]
    watermarks: Mapping[str, int | None]
    generation: int = 0

    @staticmethod
    def of(manifest: Manifest, results: Mapping[str, tuple[str, ...]]) -> Committed:
        told, marks = manifest.told, {name: clock.mark for name, clock in manifest.clocks.items()}
        counts = {query: told["counts"].get(query, 0) for query in results}
        held = sizes(manifest.containers)
        return Committed(manifest.batch, results, counts, told["input"], told["late"], held, told["seconds"], marks, manifest.generation)


def sizes(containers: Iterable[ContainerRecord]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for record in containers:
        store = found.setdefault(record.store, {"rows": 0, "bytes": 0, "containers": 0})
        store["rows"] += round(left(record))  # of one that is being rewritten about as many as have not moved yet
        store["bytes"] += record.bytes
        store["containers"] += 1
    return found


def after(work: Work, rounds: Sequence[Mapping[str, Any]]) -> list[ContainerRecord]:
    """The containers after a batch; a store's are in order of age."""
    merged = {path for report in rounds for path in report["removed"]}  # of those that wrote them: what was adopted is never merged
    added = [ContainerRecord.from_json(record) for report in rounds for record in report["added"]]
    found = [rest for record in (*work.containers, *added) if (rest := trimmed(record, work.rewrite)) is not None]
    return [record for record in found if record.donor is not None or record.path not in merged]


def measured(before: Mapping[int, Measured], generation: int, told: Mapping[str, Any]) -> dict[int, Measured]:
    """What this generation and the last one before it that had a batch have cost, after the batch."""
    now = before.get(generation, Measured()).plus(sum(told["input"].values()), sum(told["seconds"].values()))
    last = max((number for number in before if number < generation), default=None)
    return {generation: now} if last is None else {last: before[last], generation: now}
