"""The lock that gives a checkpoint to one run.

Invariant: only the process that holds the lock writes manifests and deletes obsolete files. On a mounted disk the lock ends with the
process; elsewhere it is a lease, which may be lost: the holder calls `check` before whatever another run must not see from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from clash.errors import CheckpointError
from clash.state.file_lock import FileLock
from clash.state.hdfs_lease import SECONDS as HDFS_SECONDS
from clash.state.hdfs_lease import HdfsLease
from clash.state.hdfs_storage import HdfsStorage
from clash.state.lease_lock import SECONDS, LeaseLock
from clash.state.local_storage import LocalStorage
from clash.state.memory_storage import MemoryStorage
from clash.state.s3_lease import S3Lease
from clash.state.s3_storage import S3Storage
from clash.state.storage import Storage


class CheckpointLock(Protocol):
    def check(self) -> None:
        """CheckpointError if this process may have lost the lock."""

    def release(self) -> None:
        """Give the checkpoint free; calling it again has no effect."""


class _NoLock:
    """What is in the memory of a process needs no lock."""

    def check(self) -> None:
        pass

    def release(self) -> None:
        pass


def lock_checkpoint(storage: Storage, name: str = "lock", seconds: float = SECONDS) -> CheckpointLock:
    """The lock of a checkpoint; CheckpointError if another run has it. `seconds`: how long a lease lasts without a renewal."""
    if isinstance(storage, LocalStorage):
        return FileLock(Path(storage.root, name))
    if isinstance(storage, MemoryStorage):
        return _NoLock()
    if isinstance(storage, S3Storage):
        return LeaseLock(lambda: S3Lease.acquire(storage, name, seconds), seconds)
    if isinstance(storage, HdfsStorage):
        return LeaseLock(lambda: HdfsLease.acquire(storage, name), min(seconds, HDFS_SECONDS))
    raise CheckpointError(
        "a checkpoint cannot be on this storage",
        f"{storage.label(name)}: it offers no lock, so two runs could use one checkpoint",
        "use a mounted folder, hdfs:// or s3a://; results (clash.sinks.Parquet) may be there",
    )
