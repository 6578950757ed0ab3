"""A lease as one object of an S3 bucket, which is created, renewed and taken over by conditional writes.

Each write carries its condition (`If-None-Match: *`, or `If-Match` with the entity tag that was read), so of all processes that want to
change the object in one state, one does. The lease's age is the difference of two times of the store's own: of its answer and of its last
write. A store that ignores conditions would give the lock to everybody: this is tried out at each acquisition.
"""

from __future__ import annotations

import time
from dataclasses import replace

from clash.errors import CheckpointError, StateError
from clash.state.lease_lock import refused
from clash.state.lock_owner import LockOwner, held_here, read_owner, this_process
from clash.state.s3_storage import S3Storage

_MAX_TRIES = 20
# Seconds until a lease that was taken over is confirmed by a second write. A store may check the conditions of two writes before it does
# either, as versitygw does: both then seem to succeed, and only the second write of the later one does.
_SETTLE = 1.0
_NO_VERSION = '"0"'  # an entity tag that no object has


class S3Lease:
    """A lease that this process has, as the object `path` of a storage."""

    def __init__(self, storage: S3Storage, path: str, owner: LockOwner, version: str) -> None:
        self._storage, self._path, self._owner, self._version = storage, path, owner, version

    @classmethod
    def acquire(cls, storage: S3Storage, path: str, seconds: float) -> S3Lease:
        owner = this_process()
        held_here.add(owner.token)  # before others of this process can see it
        try:
            lease = cls(storage, path, owner, _acquire(storage, path, owner, seconds))
            _refuse_without_conditions(storage, path, owner)
        except BaseException:
            held_here.discard(owner.token)
            raise
        return lease

    @property
    def label(self) -> str:
        return self._storage.label(self._path)

    def renew(self) -> None:
        for _ in range(2):
            self._owner = replace(self._owner, renewals=self._owner.renewals + 1)  # each write has a number of its own
            version = self._storage.put_if(self._path, self._owner.content, self._version)
            if version is not None:
                self._version = version
                return
            found = self._storage.read_version(self._path)
            holder = None if found is None else read_owner(found.content)
            if found is None or holder is None or holder.token != self._owner.token:
                raise CheckpointError("the lock was taken", "it was removed" if found is None else f"it is held by {holder or 'unknown'}")
            self._version = found.version
            if holder.renewals == self._owner.renewals:  # written: only the answer was lost
                return
        raise StateError("the lock cannot be renewed", f"{self.label}: another write of it is in work")

    def release(self) -> None:
        held_here.discard(self._owner.token)
        self._storage.delete_if(self._path, self._version)


def _refuse_without_conditions(storage: S3Storage, path: str, owner: LockOwner) -> None:
    """CheckpointError if the store writes although a condition does not hold."""
    for condition in (None, _NO_VERSION):
        if storage.put_if(path, owner.content, condition) is not None:
            storage.delete([path])
            raise CheckpointError(
                "a checkpoint cannot be on this object store",
                f"{storage.label(path)}: it ignores the conditions of writes (If-Match), so two runs could use one checkpoint",
                "use a mounted folder, HDFS or an object store with conditional writes; results (clash.sinks.Parquet) may be there",
            )


def _acquire(storage: S3Storage, path: str, owner: LockOwner, seconds: float) -> str:
    """The version of the object after its acquisition."""
    for _ in range(_MAX_TRIES):
        version = storage.put_if(path, owner.content, None)
        if version is not None:
            return version
        found = storage.read_version(path)
        if found is None:  # released since
            continue
        holder = read_owner(found.content)
        if holder is not None and holder.token == owner.token:  # the answer to the first try was lost
            return found.version
        if found.age <= seconds and (holder is None or not holder.is_gone):
            raise refused(storage.label(path), holder, found.age, seconds)
        version = storage.put_if(path, owner.content, found.version)
        if version is not None:
            time.sleep(_SETTLE)
            version = storage.put_if(path, owner.content, version)
        if version is not None:
            return version
    raise CheckpointError("the checkpoint's lock cannot be had", storage.label(path), "other runs start and end all the time: try again")
