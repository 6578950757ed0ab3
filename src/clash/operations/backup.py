"""Takes a snapshot of a job that may be running: its state after one batch, with the results up to that batch.

Invariant: a snapshot shares no file with the job, so that damage to one does not damage the other; it may share files with earlier
snapshots in its folder, which have names of their own for each content. A folder whose name does not begin with a dot is a complete
snapshot; a killed backup leaves one that the next backup removes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from clash.errors import CheckpointError, OptionError
from clash.operations.backup_record import (
    CHECKPOINT,
    FORMAT,
    BackupRecord,
    Snapshot,
    StoredFile,
    StoredFolder,
    folder_path,
    newest_snapshot,
    read_snapshot,
    write_snapshot_record,
)
from clash.operations.durable_files import content_of, flush, flush_folders, link_file, naming, write_file
from clash.operations.held_folders import STOP_AND_COPY, HeldFolder
from clash.operations.opened_checkpoint import open_checkpoint
from clash.operations.pinned_checkpoint import PinnedCheckpoint, of_one_batch
from clash.protocol.tables import paths_of
from clash.state.storage import LocalStorage, open_storage

_INCOMPLETE = ".incomplete-"
_LOCK = ".lock"


class _Item(NamedTuple):
    """A file of a snapshot."""

    path: str
    """In the snapshot."""
    held: memoryview | None
    """Its content, or None for a result file that stays where it is."""
    places: tuple[Path, ...]
    """Where a result file may be."""
    is_immutable: bool
    """Whether no other content has ever had this name."""


@dataclass
class Copied:
    """What a backup has done."""

    files: int = 0
    bytes: int = 0
    linked_files: int = 0
    linked_bytes: int = 0
    stored: dict[str, StoredFile] = field(default_factory=dict)


def take_backup(checkpoint: str, folder: Path, version: str) -> tuple[Snapshot, Copied]:
    """A new snapshot in a folder of backups. `version`: of clash."""
    location = open_checkpoint(checkpoint).location
    if not isinstance(open_storage(f"{location}/clash"), LocalStorage):
        raise OptionError("only local folders can be backed up", checkpoint, STOP_AND_COPY)
    folder = Path(folder).expanduser().absolute()
    _refuse_overlap(folder, [Path(location)])  # before a folder is made there
    with _locked(folder):
        return _write(of_one_batch(location, _verified), folder, version)


def _verified(pinned: PinnedCheckpoint) -> PinnedCheckpoint:
    """A damaged state is not worth a backup."""
    if pinned.manifest.batch < 0:
        hint = "wait for the first batch"
        raise CheckpointError("there is nothing to back up yet", f"{pinned.opened.location}: no batch is committed", hint)
    aggregating = [live.name for live in pinned.opened.log.read(pinned.manifest.generation).setup.queries if live.request.outer is not None]
    if aggregating:
        raise CheckpointError(
            "outer queries cannot be backed up",
            f"{pinned.opened.location}: query {aggregating[0]} has aggregates or DISTINCT, whose state is Spark's",
            "stop the job and copy the whole checkpoint with its result folders; it can be used in the same place only",
        )
    pinned.verify()
    return pinned


def _write(pinned: PinnedCheckpoint, folder: Path, version: str) -> tuple[Snapshot, Copied]:
    opened = pinned.opened
    outside = [held for held in pinned.folders if _is_outside(held, opened.location)]
    _refuse_overlap(folder, [Path(opened.location), *(Path(held.folder.shown) for held in outside)])
    now = datetime.now(UTC)
    temporary = folder / f"{_INCOMPLETE}{os.getpid()}"
    _remove_incomplete(folder)
    previous = newest_snapshot(folder, opened.identity, opened.location)
    try:
        copied = _copy(pinned, outside, temporary, previous)
        record = BackupRecord(
            format=FORMAT,
            version=version,
            identity=opened.identity,
            batch=pinned.manifest.batch,
            time=now.isoformat(),
            checkpoint=opened.location,
            folders=tuple(StoredFolder(held.folder.query, held.folder.shown) for held in outside),
            files=copied.stored,
        )
        write_snapshot_record(temporary, record)
        flush_folders(temporary)
        final = folder / f"{record.batch:09d}-{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z"
        with naming("written", final):
            temporary.rename(final)
    except Exception:
        shutil.rmtree(temporary, ignore_errors=True)  # the disk may be full
        raise
    flush([folder])
    return read_snapshot(final), copied


def _copy(pinned: PinnedCheckpoint, outside: list[HeldFolder], target: Path, previous: Snapshot | None) -> Copied:
    copied = Copied()
    with naming("written", target):
        target.mkdir(mode=0o700)  # as private as a checkpoint
    for item in _items(pinned, outside):
        _store(item, target, previous, copied)
    return copied


def _items(pinned: PinnedCheckpoint, outside: list[HeldFolder]) -> Iterator[_Item]:
    containers = {record.path for record in pinned.manifest.containers} | paths_of(pinned.manifest.tables)
    for half, storage in (("clash", pinned.clash), ("spark", pinned.spark)):
        for path, content in storage.files.items():
            yield _Item(f"{CHECKPOINT}/{half}/{path}", memoryview(content), (), half == "clash" and path in containers)
    for held in pinned.folders:
        target = folder_path(outside.index(held)) if held in outside else f"{CHECKPOINT}/clash/{held.folder.folder}"
        for name in held.names:
            yield _Item(f"{target}/{name}", held.contents.get(name), held.places(name), name.endswith(".parquet"))


def _store(item: _Item, target: Path, previous: Snapshot | None, copied: Copied) -> None:
    """Puts a file into a snapshot: as another name of the file in the previous one, if that is the same."""
    content = item.held if item.held is not None else _read(item.places)
    if content is None:
        return
    path = target / item.path
    before = None if previous is None else previous.record.files.get(item.path)
    if previous is not None and before is not None and before.bytes == len(content):
        is_same = item.is_immutable or zlib.crc32(content) == before.crc32
        if is_same and link_file(previous.path / item.path, path):
            copied.stored[item.path] = before
            copied.linked_files += 1
            copied.linked_bytes += before.bytes
            return
    stored = StoredFile(len(content), write_file(path, content))
    copied.stored[item.path] = stored
    copied.files += 1
    copied.bytes += stored.bytes


def _read(places: tuple[Path, ...]) -> memoryview | None:
    """The content of a result file. It is staged first and published then: if it is not in the first place, it is in the other by now. None
    if it was taken away: only readers of results do that, so the folder is without it."""
    for path in places:
        with naming("read", path), suppress(FileNotFoundError):
            return content_of(path)
    return None


def _is_outside(held: HeldFolder, location: str) -> bool:
    storage = held.folder.storage
    return not (isinstance(storage, LocalStorage) and Path(storage.root) == Path(location, "clash"))


def _refuse_overlap(folder: Path, others: list[Path]) -> None:
    real = folder.resolve()
    for other in others:
        if real.is_relative_to(other.resolve()) or other.resolve().is_relative_to(real):
            raise OptionError(
                "the folder of backups and what is backed up overlap",
                f"{folder} and {other}",
                "name a folder outside, on another disk at best",
            )


def _remove_incomplete(folder: Path) -> None:
    """What killed backups left: this process has the folder's lock."""
    for path in folder.glob(f"{_INCOMPLETE}*"):
        with naming("deleted", path):
            shutil.rmtree(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One backup at a time writes to a folder."""
    with naming("written", folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CheckpointError(
                "another backup writes to this folder", str(folder), "wait until it is done, or name another folder"
            ) from None
        yield
    finally:
        os.close(descriptor)
