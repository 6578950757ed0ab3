"""A checkpoint as it is on disk, opened without the program that it belongs to. Reading it changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from clash.coordinator.checkpoint.batch_decision import read_decision
from clash.coordinator.checkpoint.format_6 import FORMAT_6, Format6View
from clash.coordinator.checkpoint.generation_log import GenerationLog
from clash.coordinator.checkpoint.manifest import Manifest, read_last_manifest
from clash.coordinator.checkpoint.source_registry import format_of, identity_of, is_new
from clash.coordinator.verification import verify_files
from clash.errors import CheckpointError
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.paths import absolute_location
from clash.state.storage import Storage, open_storage


@dataclass(frozen=True)
class OpenedCheckpoint:
    location: str
    """The folder that a program gives as its checkpoint; a local one is absolute."""
    storage: Storage
    """Our half of it."""
    identity: str
    """Empty in format 6."""
    manifest: Manifest
    """The last one."""
    log: GenerationLog

    def verify(self) -> None:
        """StateError unless our half is the whole state after the last manifest, as at a start."""
        self.log.check(self.manifest.generation)
        verify_files(self.storage, self.manifest, self.log, read_decision(self.storage, self.manifest.batch + 1), is_new=False)


def open_checkpoint(location: str | os.PathLike[str]) -> OpenedCheckpoint:
    """CheckpointError if there is none, or none that this version reads."""
    folder = absolute_location(location)
    storage = open_storage(f"{folder}/clash")
    if is_new(storage):
        raise CheckpointError(
            "there is no checkpoint in this folder",
            storage.label("").rstrip("/").removesuffix("/clash"),
            'name the folder that the program gives: clash.Engine(spark, checkpoint="…")',
        )
    is_format_6 = format_of(storage) == FORMAT_6
    if is_format_6:
        storage = Format6View(storage)
    identity = identity_of(storage)
    if is_format_6 and identity:
        raise CheckpointError(
            "the upgrade of a checkpoint is unfinished",
            f"{folder}: a start of this version was killed while it marked the result folders",
            "start the program, which finishes it; then call this again",
        )
    return OpenedCheckpoint(folder, storage, identity, read_last_manifest(storage), GenerationLog(storage))


@contextmanager
def locked_checkpoint(location: str | os.PathLike[str]) -> Iterator[OpenedCheckpoint]:
    """No run has it meanwhile; CheckpointError if one does."""
    opened = open_checkpoint(location)  # before its lock: a folder without a checkpoint stays as it is
    lock = lock_checkpoint(open_storage(opened.storage.uri))
    try:
        yield open_checkpoint(location)
    finally:
        lock.release()
