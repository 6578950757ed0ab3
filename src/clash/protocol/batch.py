"""The descriptor of a batch: what its tasks need to know; small, complete, and the same for all of them.

Invariant: tasks decide nothing that two attempts, or two tasks, could decide differently: everything that a batch runs under is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clash.codec import Codec
from clash.protocol.containers import BackfillRange, ContainerRecord, LayoutVersion, RelayoutRange
from clash.protocol.tables import TableFile


@dataclass(frozen=True)
class Tuning:
    """Sizes that change speed and memory, never a result."""

    block_rows: int = 1 << 18
    """Rows of an intermediate block."""
    ingest_rows: int = 1 << 15
    """Rows of a stream that are routed together."""
    message_bytes: int = 400_000
    """Of one message."""
    file_bytes: int = 64 << 20
    """Bytes of a result file before the next one is begun."""
    merge_rows: int = 1 << 26
    """Rows of a merged container, at most."""
    container_cost: int = 100_000
    """Nanoseconds to open and probe a container, however few rows probe it: what merging it saves in every batch."""
    queue_bytes: int = 512 << 20
    """Of blocks that are queued in memory; more of them are queued on disk."""
    relayout_rows: int = 1 << 19
    """Rows of older layouts that a batch moves into today's layout, about; and rows that a batch probes once more to backfill."""
    old_layouts: int = 4
    """Older layouts that a store whose rows expire may keep."""


@dataclass(frozen=True)
class BatchSpec:
    uri: str
    """The storage of the checkpoint."""
    checkpoint: str
    """The checkpoint's identity, which is part of the names of result files."""
    plan_path: str
    """The physical plan in it."""
    generation: int
    timezone: str
    """The session's time zone, in which expressions are evaluated."""
    batch: int
    attempt: str
    """A name that no other attempt of the batch has; files are named after it."""
    partitions: int
    """The number of ingest tasks."""
    workers: int
    rounds: int
    now: int
    """The time of the batch in microseconds: the event time of tuples whose stream has none."""
    first_number: int
    """The first arrival number of the batch; an arrival is a number shifted by `NUMBER_BITS`."""
    watermarks: Mapping[str, int | None]
    """By stream; None where nothing is late."""
    containers: tuple[ContainerRecord, ...]
    sinks: Mapping[str, tuple[str, str]]
    """By query, the storage of its result files and the folder in it."""
    layouts: Mapping[str, tuple[LayoutVersion, ...]] = field(default_factory=dict)
    """By store, the layouts under which its containers were written, today's last."""
    relayout: tuple[RelayoutRange, ...] = ()
    backfill: tuple[BackfillRange, ...] = ()
    probing: Mapping[str, int] = field(default_factory=dict)
    """By store, the rows that probed it in the batch before, in all tasks together; it decides what is merged, never a result."""
    tables: Mapping[str, tuple[TableFile, ...]] = field(default_factory=dict)
    """By table that the plan reads, the files of the version that the batch joins."""
    tuning: Tuning = field(default_factory=Tuning)
    is_one_task: bool = False
    """One task does the work of all workers: it reads the containers of all of them, and writes containers that all of them share."""

    @property
    def tasks(self) -> int:
        """Of each round."""
        return 1 if self.is_one_task else self.workers


BATCH_SPEC: Codec[BatchSpec] = Codec(BatchSpec)
