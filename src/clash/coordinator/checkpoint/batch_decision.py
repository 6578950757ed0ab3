"""What a batch runs under, recorded before its job starts.

Invariant: a batch that is run again, after whatever happened to it, finds this and decides nothing anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clash.coordinator.lifecycle.epochs import Epoch
from clash.coordinator.lifecycle.watermarks import Clock
from clash.protocol.batch import Moved
from clash.state.json_records import read_json, write_json
from clash.state.storage import Storage

FOLDER = "batches"


@dataclass(frozen=True)
class Record:
    """`plan`: the name of the topology. `rewrite`: rows of older generations that move; `backfill`: (store, first, upto) of arrivals that
    are probed once more."""

    now: int
    plan: str
    generation: int
    epoch: Epoch
    clocks: Mapping[str, Clock]
    rewrite: tuple[Moved, ...] = ()
    backfill: tuple[tuple[str, int, int], ...] = ()

    @property
    def watermarks(self) -> dict[str, int | None]:
        return {name: clock.mark for name, clock in self.clocks.items()}


def record_path(batch: int) -> str:
    return f"{FOLDER}/{batch:09d}.json"


def write_record(storage: Storage, batch: int, record: Record) -> None:
    told = {
        "now": record.now,
        "plan": record.plan,
        "generation": record.generation,
        "epoch": [*record.epoch],
        "clocks": {name: [clock.high, clock.mark, clock.seen] for name, clock in record.clocks.items()},
        "rewrite": [[*moved] for moved in record.rewrite],
        "backfill": [[*piece] for piece in record.backfill],
    }
    write_json(storage, record_path(batch), told)


def read_record(storage: Storage, batch: int) -> Record | None:
    if not storage.exists(record_path(batch)):
        return None
    told = read_json(storage, record_path(batch))
    return Record(
        now=told["now"],
        plan=told["plan"],
        generation=told["generation"],
        epoch=Epoch(*told["epoch"]),
        clocks={name: Clock(*clock) for name, clock in told["clocks"].items()},
        rewrite=tuple(Moved(*moved) for moved in told["rewrite"]),
        backfill=tuple((store, first, upto) for store, first, upto in told["backfill"]),
    )


def stale_records(storage: Storage, next_batch: int) -> list[str]:
    return [path for name in storage.list(FOLDER) if (path := f"{FOLDER}/{name}") != record_path(next_batch)]
