"""What a snapshot says of itself: of which checkpoint and batch it is, and every file in it with its checksum.

    <folder of backups>/<batch>-<time>/
      backup.json            this record
      checkpoint/clash/…     our half of the checkpoint, with results and late rows that are kept under it
      checkpoint/spark/…     Spark's half
      results/<number>/…     result folders outside of the checkpoint

A snapshot is written under a name that begins with a dot, and renamed when it is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from clash.codec import Codec
from clash.errors import CheckpointError, ClashError, StateError
from clash.state.json_records import read_record, write_record
from clash.state.storage import LocalStorage

RECORD = "backup.json"
CHECKPOINT = "checkpoint"
RESULTS = "results"
FORMAT = 1
DAMAGED = "use another snapshot, and take a new one into a new folder: those in this folder may share the file"


class StoredFile(NamedTuple):
    bytes: int
    crc32: int


@dataclass(frozen=True)
class StoredFolder:
    """A result folder outside of the checkpoint."""

    query: str | None
    location: str
    """Where it was."""


@dataclass(frozen=True)
class BackupRecord:
    format: int
    version: str
    """Of clash."""
    identity: str
    """Of the checkpoint; empty in checkpoints of format 6."""
    batch: int
    """The last one in it."""
    time: str
    """In UTC."""
    checkpoint: str
    """Where it was."""
    folders: tuple[StoredFolder, ...]
    """Their files are in `results/<number>`, counted from 0."""
    files: Mapping[str, StoredFile]
    """By path in the snapshot."""

    def is_of(self, identity: str, checkpoint: str) -> bool:
        """Whether it is of that checkpoint; those of format 6 are known by their place alone."""
        return self.identity == identity and (bool(identity) or self.checkpoint == checkpoint)


_CODEC: Codec[BackupRecord] = Codec(BackupRecord)


class Snapshot(NamedTuple):
    path: Path
    record: BackupRecord

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT


def folder_path(number: int) -> str:
    """Where a snapshot has the files of a result folder."""
    return f"{RESULTS}/{number}"


def is_snapshot(path: Path) -> bool:
    return (path / RECORD).is_file()


def read_snapshot(path: Path) -> Snapshot:
    """StateError if its record is damaged, CheckpointError if it is of a newer version."""
    if not is_snapshot(path):
        raise CheckpointError("there is no backup in this folder", str(path), f"name a folder that has a file {RECORD}")
    try:
        record = read_record(LocalStorage(path), RECORD, _CODEC)
    except StateError as error:
        raise StateError("the record of a backup is damaged", error.detail, DAMAGED) from error
    if record.format != FORMAT:
        raise CheckpointError(
            "the backup was written by another version of clash",
            f"{path} has format {record.format}, this version reads {FORMAT}",
            f"use the version that wrote it, {record.version}",
        )
    return Snapshot(path, record)


def write_snapshot_record(path: Path, record: BackupRecord) -> None:
    write_record(LocalStorage(path), RECORD, _CODEC, record)


def snapshots(folder: Path) -> list[Snapshot]:
    """The complete ones in a folder of backups, oldest first."""
    return [read_snapshot(path) for path in _snapshot_paths(folder)]


def newest_snapshot(folder: Path, identity: str, checkpoint: str) -> Snapshot | None:
    """The newest one of a checkpoint that can be read."""
    for path in reversed(_snapshot_paths(folder)):
        with suppress(ClashError):
            snapshot = read_snapshot(path)
            if snapshot.record.is_of(identity, checkpoint):
                return snapshot
    return None


def _snapshot_paths(folder: Path) -> list[Path]:
    """By time: a checkpoint that was restored has earlier batches again."""
    found = [path for path in folder.iterdir() if not path.name.startswith(".") and is_snapshot(path)] if folder.is_dir() else []
    return sorted(found, key=lambda path: (path.name.partition("-")[2], path.name))
