"""What a start verifies before it changes anything: that all files that make up the state are there, whole, and of one time.

Invariant: a checkpoint that passes is the state after its last manifest. Files after that manifest can only be of the one batch that was in
work: anything later says that the manifest, or the record of the checkpoint, was lost or is of an older copy.
"""

from __future__ import annotations

import re

from clash.coordinator.checkpoint import batch_decision
from clash.coordinator.checkpoint.batch_decision import BatchDecision
from clash.coordinator.checkpoint.generation_log import GenerationLog
from clash.coordinator.checkpoint.manifest import Manifest, manifest_path
from clash.coordinator.checkpoint.source_registry import PATH
from clash.coordinator.table_files import verify_versions
from clash.errors import StateError
from clash.protocol.containers import ContainerRecord, is_described
from clash.state.container import read_container
from clash.state.json_records import RESTORE, record_numbers
from clash.state.storage import Storage

_BATCH = re.compile(r"(?:.*/)?b(\d{9})-[^/]*")  # of a container, in its name


def verify_files(storage: Storage, manifest: Manifest, log: GenerationLog, decided: BatchDecision | None, is_new: bool) -> None:
    """StateError if the files are not those of one state. `is_new`: whether there is no record of the checkpoint."""
    containers = storage.list("state", recursive=True)
    decisions = record_numbers(storage, batch_decision.FOLDER)
    if is_new and (manifest.batch >= 0 or decisions or containers):
        raise _missing(storage, PATH, "there are records of batches")
    newest = max([-1, *(int(match[1]) for match in map(_BATCH.fullmatch, containers) if match)])
    newest = max([newest, *decisions])
    if newest > manifest.batch + 1:
        raise _missing(storage, manifest_path(newest - 1), f"there are files of batch {newest}")
    generation = manifest.generation if decided is None else decided.generation
    later = [number for number in log.numbers() if number > generation]
    if len(later) > 1:  # one may be left over from a process that was killed before it recorded the batch
        raise _missing(storage, manifest_path(manifest.batch + 1), f"there are generations up to {later[-1]}, and no batch under them")
    for number in {record.generation for record in manifest.containers}:
        log.read(number)  # it says how the containers are laid out
    for record in manifest.containers:
        verify_container(storage, record)
    verify_versions(storage, [*manifest.tables.values(), *(() if decided is None else decided.tables.values())])


def verify_container(storage: Storage, record: ContainerRecord) -> None:
    """StateError if the container is damaged, or is not the one that the record is of."""
    container = read_container(storage, record.path, verify=True)
    is_same = container.bytes == record.bytes and container.batch.num_rows == record.rows
    if container.description is not None:
        is_same = is_same and is_described(record, container.description)
    if not is_same:
        detail = f"{storage.label(record.path)}: the container is not what the manifest says of it"
        raise StateError("a container is not the one that was committed", detail, RESTORE)


def _missing(storage: Storage, path: str, why: str) -> StateError:
    return StateError("a file of the state is missing", f"{storage.label(path)}: {why}", RESTORE)
