"""Checks a checkpoint or a backup without changing it: every checksum, and whether a start would accept it.

What only the program can tell is not checked: whether its streams and queries fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from clash.coordinator.checkpoint.batch_decision import read_decision
from clash.coordinator.control.folder_owner import ResultFolders
from clash.errors import CheckpointError, StateError
from clash.operations.backup_record import DAMAGED, Snapshot, is_snapshot, read_snapshot, snapshots
from clash.operations.durable_files import file_crc
from clash.operations.pinned_checkpoint import PinnedCheckpoint, newest_batch, of_one_batch
from clash.protocol.plan_files import plan_path
from clash.protocol.tables import paths_of
from clash.state.json_records import RESTORE
from clash.state.paths import absolute_location
from clash.state.storage import LocalStorage


@dataclass(frozen=True)
class Verified:
    """What was found whole."""

    location: str
    is_backup: bool
    batch: int
    containers: int
    bytes: int
    """Of containers."""
    results: int
    """Files of results and late rows."""


def find(path: str) -> list[Snapshot]:
    """The snapshots that a path names: one, or those in a folder of them; none if it names a checkpoint."""
    folder = Path(path).expanduser().absolute()
    return [read_snapshot(folder)] if is_snapshot(folder) else snapshots(folder)


def verify_checkpoint(location: str) -> Verified:
    """Running or not: it is only read."""
    return of_one_batch(absolute_location(location), _verify_found, with_next=True)


def verify_snapshot(snapshot: Snapshot) -> Verified:
    path, record = snapshot
    for name, stored in record.files.items():
        file = path / name
        if not file.is_file():
            raise StateError("a file of the backup is missing", str(file), DAMAGED)
        if file.stat().st_size != stored.bytes or file_crc(file) != stored.crc32:
            raise StateError("a file of the backup has changed", str(file), DAMAGED)
    pinned = of_one_batch(str(snapshot.checkpoint), _verify_halves, with_results=False)
    if (pinned.opened.identity, pinned.manifest.batch) != (record.identity, record.batch):
        raise CheckpointError("the backup is not of the checkpoint that it names", str(path), DAMAGED)
    results = sum(name.endswith(".parquet") for name in record.files)
    return _verified(pinned, str(path), True, results)


def _verify_halves(pinned: PinnedCheckpoint) -> PinnedCheckpoint:
    pinned.verify()
    return pinned


def _verify_found(pinned: PinnedCheckpoint) -> Verified:
    _verify_halves(pinned)
    opened, storage = pinned.opened, pinned.view
    decision = read_decision(storage, pinned.manifest.batch + 1)
    if decision is not None and plan_path(bytes(storage.read(decision.plan_path))) != decision.plan_path:
        raise StateError("a plan is corrupt", storage.label(decision.plan_path), RESTORE)
    generations = {pinned.manifest.generation, *(() if decision is None else (decision.generation,))}
    setups = [opened.log.read(number).setup for number in sorted(generations)]
    folders = ResultFolders(storage.uri, opened.identity, lambda: newest_batch(pinned.clash.origin), adopts=not opened.identity)
    streams = {name for setup in setups for name in setup.streams_by_name}
    folders.check_at_start((live for setup in setups for live in setup.queries), streams, pinned.manifest.published)
    return _verified(pinned, opened.location, False, _verify_result_files(pinned))


def _verify_result_files(pinned: PinnedCheckpoint) -> int:
    """How many there are; StateError if one was cut short. Remote ones are not read."""
    count = 0
    for held in pinned.folders:
        names = [name for name in held.names if name.endswith(".parquet")]
        count += len(names)
        if isinstance(held.folder.storage, LocalStorage):
            for name in names:
                _verify_footer(held.places(name))
    return count


def _verify_footer(places: tuple[Path, ...]) -> None:
    for path in places:
        try:
            pq.read_metadata(path)
        except FileNotFoundError:
            continue  # moved to its place, or taken away by a reader of results
        except (pa.ArrowInvalid, OSError) as error:
            raise StateError("a result file is damaged", f"{path}: {error}", RESTORE) from error
        return


def _verified(pinned: PinnedCheckpoint, location: str, is_backup: bool, results: int) -> Verified:
    containers, tables = pinned.manifest.containers, pinned.manifest.tables
    size = sum(record.bytes for record in containers) + sum(version.bytes for version in tables.values())
    return Verified(location, is_backup, pinned.manifest.batch, len(containers) + len(paths_of(tables)), size, results)
