"""What a batch runs under, recorded before its job starts.

Invariant: a batch that is run again, whatever happened to it, finds this and decides nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clash.codec import Codec
from clash.coordinator.checkpoint.spark_seal import SparkSeal
from clash.coordinator.lifecycle.epochs import Epoch
from clash.coordinator.lifecycle.watermarks import StreamClock
from clash.protocol.containers import BackfillRange, RelayoutRange
from clash.protocol.tables import TableVersion
from clash.state.json_records import read_record, write_record
from clash.state.storage import Storage

FOLDER = "batches"


@dataclass(frozen=True)
class BatchDecision:
    now: int
    """The time of the batch in microseconds."""
    plan_path: str
    """Its physical plan."""
    generation: int
    epoch: Epoch
    clocks: Mapping[str, StreamClock]
    """By stream, as of the start of the batch."""
    relayout: tuple[RelayoutRange, ...] = ()
    backfill: tuple[BackfillRange, ...] = ()
    tables: Mapping[str, TableVersion] = field(default_factory=dict)
    """By declared table, the version whose rows the batch joins."""
    seal: SparkSeal | None = None
    """Of Spark's half of the checkpoint when the batch began; None without Spark."""

    @property
    def watermarks(self) -> dict[str, int | None]:
        return {name: clock.watermark for name, clock in self.clocks.items()}


_CODEC: Codec[BatchDecision] = Codec(BatchDecision)


def decision_path(batch: int) -> str:
    return f"{FOLDER}/{batch:09d}.json"


def write_decision(storage: Storage, batch: int, decision: BatchDecision) -> None:
    write_record(storage, decision_path(batch), _CODEC, decision)


def read_decision(storage: Storage, batch: int) -> BatchDecision | None:
    return read_record(storage, decision_path(batch), _CODEC) if storage.exists(decision_path(batch)) else None


def obsolete_decisions(storage: Storage, next_batch: int) -> list[str]:
    return [path for name in storage.list(FOLDER) if (path := f"{FOLDER}/{name}") != decision_path(next_batch)]
