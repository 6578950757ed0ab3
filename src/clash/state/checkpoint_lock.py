"""The lock that gives a checkpoint to one run.

Invariant: only the process that holds the lock writes manifests and deletes obsolete files. There is no such lock on storages that this
machine does not mount; there the user has to make sure that no two runs use one checkpoint.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from clash.errors import CheckpointError
from clash.state.local_storage import LocalStorage
from clash.state.paths import storage_error
from clash.state.storage import Storage


class CheckpointLock:
    """Acquired by its construction, which raises CheckpointError if another run has it. It ends with `release` or with the process."""

    def __init__(self, storage: Storage, name: str = "lock") -> None:
        self._descriptor: int | None = None
        if isinstance(storage, LocalStorage):
            path = Path(storage.root, name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise storage_error("written", str(path), error) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise CheckpointError(
                    "another run has this checkpoint", storage.root, "stop it first, or give this one another checkpoint folder"
                ) from None
            self._descriptor = descriptor

    def release(self) -> None:
        """Give the checkpoint free; calling it again has no effect."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
