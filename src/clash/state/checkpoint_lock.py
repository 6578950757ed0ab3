"""One run per checkpoint: a lock that dies with its process.

Invariant: whoever holds it is the only one that writes manifests and cleans up. On storages that this machine does not mount there is no
such lock; there two runs over one checkpoint are the user's to avoid.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from clash.errors import CheckpointError
from clash.state.local_storage import LocalStorage
from clash.state.paths import failure
from clash.state.storage import Storage


class Alone:
    """Taken when made; held until `release`, or until the process has gone."""

    def __init__(self, storage: Storage, name: str = "lock") -> None:
        self._descriptor: int | None = None
        if isinstance(storage, LocalStorage):
            path = Path(storage.root, name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise failure("written", str(path), error) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise CheckpointError(
                    "another run has this checkpoint", storage.root, "stop it first, or give this one another checkpoint folder"
                ) from None
            self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
