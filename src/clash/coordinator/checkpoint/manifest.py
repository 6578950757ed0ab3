"""The manifest of a batch: the only truth after a crash.

It lists the containers that make up the state after the batch, and the result files that the batch has added. A batch is committed exactly
when its manifest is there; what no manifest lists is left over from an attempt that failed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from clash.codec import Codec
from clash.coordinator.adaptive.generation_cost import GenerationCost
from clash.coordinator.checkpoint.spark_seal import SparkSeal
from clash.coordinator.lifecycle.backfill import BackfillProgress
from clash.coordinator.lifecycle.epochs import Epoch
from clash.coordinator.lifecycle.retention import UNKNOWN_TIME, RetentionEntry
from clash.coordinator.lifecycle.store_bootstrap import Bootstrap, RetainedState, bootstrap
from clash.coordinator.lifecycle.watermarks import StreamClock
from clash.errors import StateError
from clash.model.relation import Relation
from clash.protocol.containers import ContainerRecord
from clash.protocol.reports import ResultFile
from clash.protocol.tables import TableVersion
from clash.state.json_records import RESTORE, read_record, record_numbers, write_new_record
from clash.state.storage import Storage

FOLDER = "manifests"


@dataclass(frozen=True)
class BatchSummary:
    """What is shown of a batch."""

    results: Mapping[str, int] = field(default_factory=dict)
    """Rows by destination: a query, `late/<stream>` or `rejected/<stream>`."""
    input: Mapping[str, int] = field(default_factory=dict)
    """Tuples by stream."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Late tuples by stream."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By activity, summed over tasks."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Rejected records by stream."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Records by stream that the source had lost."""


class PublishedFiles(NamedTuple):
    """How many files a destination has got in its place so far."""

    location: str
    """The URL of the folder."""
    files: int


@dataclass(frozen=True)
class Manifest:
    batch: int = -1
    now: int = 0
    """The time of the batch in microseconds."""
    next_number: int = 0
    """The arrival number that the next batch starts with."""
    clocks: Mapping[str, StreamClock] = field(default_factory=dict)
    containers: tuple[ContainerRecord, ...] = ()
    files: tuple[ResultFile, ...] = ()
    """The files of results, and of late and rejected rows, that the batch has added."""
    summary: BatchSummary = field(default_factory=BatchSummary)
    generation: int = 0
    epoch: Epoch | None = None
    lost_until: Mapping[str, int] = field(default_factory=dict)
    """By base store, the largest event time that it has lost."""
    retention: Mapping[str, tuple[RetentionEntry, ...]] = field(default_factory=dict)
    """By stream, what was retained of its tuples (`retention`)."""
    missing: Mapping[str, Mapping[Relation, int]] = field(default_factory=dict)
    """By query and relation, the largest event time that may be missing for it."""
    complete_from: Mapping[str, int] = field(default_factory=dict)
    """By query, the batch from which on nothing is missing."""
    costs: Mapping[int, GenerationCost] = field(default_factory=dict)
    """What this generation and the one before have cost."""
    backfilled: Mapping[str, BackfillProgress] = field(default_factory=dict)
    """How far intermediate stores are filled."""
    published: Mapping[str, PublishedFiles] = field(default_factory=dict)
    """By destination, with the files of this batch: a copy of a folder that has fewer is short."""
    tables: Mapping[str, TableVersion] = field(default_factory=dict)
    """By declared table, the version whose rows the batch joined."""
    seal: SparkSeal | None = None
    """Of Spark's half of the checkpoint, as the batch's decision has it."""

    @property
    def retained(self) -> RetainedState:
        return RetainedState(self.containers, self.lost_until, self.retention)

    def bootstrapped(self, batch: int, bootstraps: Collection[Bootstrap]) -> Manifest:
        """The state that the generation beginning with `batch` starts from: its new stores begin with what others have."""
        if not bootstraps or self.batch + 1 != batch:
            return self
        containers, lost_until, log = bootstrap(self.retained, bootstraps)
        return replace(self, containers=containers, lost_until=lost_until, retention=log)

    def with_other_times(self, streams: Collection[str]) -> Manifest:
        """The state under which these streams, of which nothing is stored, have another column as event time: that of earlier tuples is not
        known, and their watermarks begin anew."""
        if not streams:
            return self
        clocks = {name: clock for name, clock in self.clocks.items() if name not in streams}
        unknown = {n: tuple(RetentionEntry(e.retained, UNKNOWN_TIME) for e in self.retention.get(n, ())) for n in streams}
        return replace(self, clocks=clocks, retention={**self.retention, **unknown})


_CODEC: Codec[Manifest] = Codec(Manifest)


def write_manifest(storage: Storage, manifest: Manifest) -> None:
    """Commits a batch; StateError if another run has committed it."""
    write_new_record(storage, manifest_path(manifest.batch), _CODEC, manifest)


def read_last_manifest(storage: Storage) -> Manifest:
    """The newest manifest, or an empty one."""
    batches = record_numbers(storage, FOLDER)
    if not batches:
        return Manifest()
    path = manifest_path(batches[-1])
    manifest = read_record(storage, path, _CODEC)
    if manifest_path(manifest.batch) != path:
        detail = f"{storage.label(path)}: it is of batch {manifest.batch}"
        raise StateError("a record is not the one that its name says", detail, RESTORE)
    return manifest


def obsolete_manifests(storage: Storage, last: int) -> list[str]:
    return [f"{FOLDER}/{name}" for name in storage.list(FOLDER) if f"{FOLDER}/{name}" != manifest_path(last)]


def manifest_path(batch: int) -> str:
    return f"{FOLDER}/{batch:09d}.json"
