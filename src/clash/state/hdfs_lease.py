"""A lease on HDFS: a file that is open for writing. The NameNode gives it to one client, and takes it from one that is silent for a minute.

The client renews it every 30 seconds, as long as its process lives; `renew` writes to the file, which fails if the NameNode has given it to
another client. Only the NameNode decides which client has the file, in one step. A second file beside it names the owner for messages,
because a file that is open for writing cannot be read reliably.
"""

from __future__ import annotations

import contextlib
import time

from clash.errors import CheckpointError, StateError
from clash.state.hdfs_client import FAILURES, HdfsWriter
from clash.state.hdfs_storage import HdfsStorage
from clash.state.lock_owner import LockOwner, read_owner, this_process
from clash.state.paths import storage_error

SECONDS = 30.0
"""For how long a renewal counts: the NameNode's minute, less the time since the client's own renewal."""
_MAX_TRIES = 60
_SECONDS_TO_RENEW = 10.0  # so that a run knows in time that it has lost the lock
_PAUSE = 0.5  # seconds, while the NameNode takes the file from a dead client
_LEASED = ("AlreadyBeingCreatedException", "currently owned", "another recovery", "already the current lease holder")
_LOST = ("LeaseExpiredException", "All nodes failed for write", "FileNotFoundException", "does not exist", "RecoveryInProgress")


class HdfsLease:
    """A lease that this process has, as the file `path` of a storage."""

    def __init__(self, storage: HdfsStorage, path: str, writer: HdfsWriter) -> None:
        self._storage, self._path, self._writer = storage, path, writer
        writer.seconds = min(writer.seconds, _SECONDS_TO_RENEW)

    @classmethod
    def acquire(cls, storage: HdfsStorage, path: str) -> HdfsLease:
        storage.make_root(0o700)
        writer = _open(storage, path)
        storage.write(f"{path}.owner", [this_process().content])
        return cls(storage, path, writer)

    @property
    def label(self) -> str:
        return self._storage.label(self._path)

    def renew(self) -> None:
        try:
            self._writer.write(b".")
            self._writer.sync()
        except FAILURES as error:
            if isinstance(error, FileNotFoundError) or any(sign in str(error) for sign in _LOST):
                holder = _holder(self._storage, self._path)
                raise CheckpointError("the lock was taken", f"it is held by {holder or 'an unknown process'}") from error
            raise StateError("the lock cannot be renewed", str(error).splitlines()[0][:200]) from error

    def release(self) -> None:
        """Deletes the file while it is this process's own. If HDFS does not answer, the file is free at most a minute after it is back."""
        try:
            self.renew()
            self._storage.delete([f"{self._path}.owner", self._path])
        finally:
            with contextlib.suppress(*FAILURES):
                self._writer.close()
            del self._writer  # which ends the client's own renewals


def _open(storage: HdfsStorage, path: str) -> HdfsWriter:
    """The file, open for writing: a new one, or one whose client is gone. It has a client of its own, because the NameNode renews all
    files of a client together: the lock of a run that gave it up while HDFS was away would stay with this process."""
    name, client = f"{storage.root}/{path}", storage.new_client()
    for _ in range(_MAX_TRIES):
        try:
            return client.create(name)
        except FileExistsError:
            pass
        except FAILURES as error:
            raise _unreachable(storage, path, error) from error
        try:
            return client.append(name)
        except FileNotFoundError:
            continue  # released since
        except FAILURES as error:
            if "RecoveryInProgressException" in str(error):
                time.sleep(_PAUSE)
                continue
            if not isinstance(error, FileExistsError) and not any(sign in str(error) for sign in _LEASED):
                raise _unreachable(storage, path, error) from error
        raise CheckpointError(
            "another run has this checkpoint",
            f"{storage.label(path)}: {_holder(storage, path) or 'an unknown process'}",
            "stop it first, or give this one another checkpoint folder; if that run is dead, HDFS gives its lock free after 60 seconds",
        )
    raise CheckpointError("the checkpoint's lock cannot be had", storage.label(path), "HDFS still takes it from a dead run: try again")


def _holder(storage: HdfsStorage, path: str) -> LockOwner | None:
    with contextlib.suppress(StateError):
        return read_owner(storage.read(f"{path}.owner", mapped=False).to_pybytes())
    return None


def _unreachable(storage: HdfsStorage, path: str, error: Exception) -> StateError:
    return storage_error("written", storage.label(path), OSError(str(error).splitlines()[0][:200]), "see what HDFS says")
