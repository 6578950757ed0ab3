"""The manifest of a batch: the only truth after a crash.

It lists the containers that make up the state after the batch, and the result files that the batch has added. A batch is
committed exactly when its manifest is there; whatever no manifest names is rubbish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from clash.coordinator.lifecycle.epochs import Epoch
from clash.coordinator.lifecycle.retention import Entry
from clash.coordinator.adaptive.generation_cost import Measured
from clash.coordinator.lifecycle.watermarks import Clock
from clash.protocol.batch import ContainerRecord
from clash.model.relation import Relation
from clash.state.json_records import read_json, write_json
from clash.state.storage import Storage

FOLDER = "manifests"


@dataclass(frozen=True)
class Manifest:
    """`first`: the arrival number that the next batch starts with. `told`: what is shown of the batch. `gone`: per base store, the largest
    event time that it has lost; `kept`: per stream, what was kept of it, see `clash.coordinator.lifecycle.retention`. `missing`: per query, what may be missing
    for it; `complete`: from which batch on nothing is. `measured`: what this generation and the one before have cost.
    `filled`: how far intermediate stores are filled in, see `clash.coordinator.lifecycle.backfill`."""

    batch: int = -1
    now: int = 0
    first: int = 0
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    containers: tuple[ContainerRecord, ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    told: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    epoch: Epoch | None = None
    gone: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    missing: Mapping[str, Mapping[Relation, int]] = field(default_factory=dict)
    complete: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[int, Measured] = field(default_factory=dict)
    filled: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "now": self.now,
            "first": self.first,
            "clocks": {name: asdict(clock) for name, clock in self.clocks.items()},
            "containers": [record.to_json() for record in self.containers],
            "files": [dict(file) for file in self.files],
            "told": dict(self.told),
            "generation": self.generation,
            "epoch": None if self.epoch is None else [*self.epoch],
            "gone": dict(self.gone),
            "kept": {stream: [entry.to_json() for entry in log] for stream, log in self.kept.items()},
            "missing": {query: [[*relation, tau] for relation, tau in sorted(lacks.items())] for query, lacks in self.missing.items()},
            "complete": dict(self.complete),
            "measured": {str(number): [*sums] for number, sums in self.measured.items()},
            "filled": {store: [*at] for store, at in self.filled.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Manifest:
        read = {
            "clocks": {name: Clock(**clock) for name, clock in data["clocks"].items()},
            "containers": tuple(map(ContainerRecord.from_json, data["containers"])),
            "files": tuple(data["files"]),
            "epoch": None if data["epoch"] is None else Epoch(*data["epoch"]),
            "kept": {stream: tuple(map(Entry.from_json, log)) for stream, log in data["kept"].items()},
            "missing": {query: {Relation(s, n): tau for s, n, tau in lacks} for query, lacks in data["missing"].items()},
            "measured": {int(number): Measured.from_json(sums) for number, sums in data["measured"].items()},
            "filled": {store: tuple(at) for store, at in data["filled"].items()},
        }
        return Manifest(**{**data, **read})


def write_manifest(storage: Storage, manifest: Manifest) -> None:
    write_json(storage, manifest_path(manifest.batch), manifest.to_json())


def read_last_manifest(storage: Storage) -> Manifest:
    """The newest one, or an empty one."""
    names = [name for name in storage.list(FOLDER) if name.endswith(".json")]
    if not names:
        return Manifest()
    return Manifest.from_json(read_json(storage, f"{FOLDER}/{max(names)}"))


def stale_manifests(storage: Storage, last: int) -> list[str]:
    return [f"{FOLDER}/{name}" for name in storage.list(FOLDER) if f"{FOLDER}/{name}" != manifest_path(last)]


def manifest_path(batch: int) -> str:
    return f"{FOLDER}/{batch:09d}.json"
