"""The lock on a mounted disk: `flock` on a file, which the system releases when the process ends, however it ends.

The file says who holds the lock. It is removed on release, under the lock. A process may therefore lock a file that has just been removed;
it notices that the name stands for another file, or for none, and tries again. A refused start thus leaves nothing behind: also folders
that were made for the lock are removed, if they are still empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from clash.errors import CheckpointError
from clash.state.lock_owner import read_owner, this_process
from clash.state.paths import storage_error
from clash.state.private_folders import private_mode

_MAX_TRIES = 1000
_MAX_BYTES = 1 << 16  # of a lock file that is read: anybody may have written it


class FileLock:
    """Acquired by its construction, which raises CheckpointError if another run has it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made: list[Path] = []  # folders, the innermost first
        self._descriptor: int | None = None
        try:
            self._descriptor = self._acquire()
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, this_process().content, 0)
        except BaseException as error:
            if self._descriptor is None:
                self._remove_folders()
            else:
                self.release()
            if isinstance(error, OSError):
                raise storage_error("written", str(path), error) from error
            raise

    def check(self) -> None:
        """The lock cannot be lost while the process lives."""

    def release(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                if self._is_named(self._descriptor):  # the checkpoint may have been moved, and another have its place
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None
            self._remove_folders()

    def _acquire(self) -> int:
        for _ in range(_MAX_TRIES):
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:
                self._make_folders()
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_named(descriptor):
                    return descriptor
                os.close(descriptor)
            except BlockingIOError:
                holder = read_owner(os.pread(descriptor, _MAX_BYTES, 0))
                os.close(descriptor)
                who = "" if holder is None else f": {holder}"
                hint = "stop it first, or give this one another checkpoint folder"
                raise CheckpointError("another run has this checkpoint", f"{self._path.parent}{who}", hint) from None
            except BaseException:
                os.close(descriptor)
                raise
        raise CheckpointError("the checkpoint's lock cannot be had", str(self._path), "other runs start and end all the time: try again")

    def _is_named(self, descriptor: int) -> bool:
        """Whether the locked file is still the one of that name: its last owner removes it."""
        try:
            named = self._path.lstat()
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(descriptor))

    def _make_folders(self) -> None:
        missing = [self._path.parent]
        while not missing[-1].parent.exists():
            missing.append(missing[-1].parent)
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError, FileNotFoundError):  # other processes make and remove them, too: try again
                is_ours = folder in (self._path.parent, self._path.parent.parent)  # our half, and the checkpoint with Spark's half
                folder.mkdir(mode=private_mode(folder.parent) if is_ours else 0o777)
                self._made.insert(0, folder)

    def _remove_folders(self) -> None:
        with contextlib.suppress(OSError):  # not empty any more: the checkpoint lives
            for folder in self._made:
                folder.rmdir()
        self._made = []
