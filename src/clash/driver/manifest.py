"""The manifest of a batch: the only truth after a crash.

It lists the containers that make up the state after the batch, and the result files that the batch has added. A batch is
committed exactly when its manifest is there; whatever no manifest names is rubbish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from clash.driver.watermarks import Clock
from clash.driver.work import ContainerRecord
from clash.state.jsonfile import read_json, write_json
from clash.state.storage import Storage

FOLDER = "manifests"


@dataclass(frozen=True)
class Manifest:
    """`first`: the arrival number that the next batch starts with. `told`: what is shown of the batch."""

    batch: int = -1
    now: int = 0
    first: int = 0
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    containers: tuple[ContainerRecord, ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    told: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "now": self.now,
            "first": self.first,
            "clocks": {name: asdict(clock) for name, clock in self.clocks.items()},
            "containers": [record.to_json() for record in self.containers],
            "files": [dict(file) for file in self.files],
            "told": dict(self.told),
        }


def write_manifest(storage: Storage, manifest: Manifest) -> None:
    write_json(storage, manifest_path(manifest.batch), manifest.to_json())


def read_last_manifest(storage: Storage) -> Manifest:
    """The newest one, or an empty one."""
    names = [name for name in storage.list(FOLDER) if name.endswith(".json")]
    if not names:
        return Manifest()
    data = read_json(storage, f"{FOLDER}/{max(names)}")
    return Manifest(
        data["batch"],
        data["now"],
        data["first"],
        {name: Clock(**clock) for name, clock in data["clocks"].items()},
        tuple(map(ContainerRecord.from_json, data["containers"])),
        tuple(data["files"]),
        data["told"],
    )


def stale_manifests(storage: Storage, last: int) -> list[str]:
    return [f"{FOLDER}/{name}" for name in storage.list(FOLDER) if f"{FOLDER}/{name}" != manifest_path(last)]


def manifest_path(batch: int) -> str:
    return f"{FOLDER}/{batch:09d}.json"
