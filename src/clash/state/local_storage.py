"""Files on a disk that this machine mounts: written under a temporary name and renamed, read by mapping them.

Nothing is flushed to the disk unless `durable` is requested: a killed process loses nothing, a power failure may lose the last seconds,
as with Spark's own checkpoints on a local file system. A mapping stays valid after its file is deleted.

Files and folders get no more permissions than the root has: in a checkpoint, whose folder only its owner may enter, only the owner's.
Nothing is written, moved or deleted through a symbolic link below the root: it may lead anywhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from clash.errors import StateError
from clash.state.new_files import write_checked
from clash.state.paths import check_folder, check_name, missing_file, storage_error, temporary_name
from clash.state.temporary_files import WithTemporaryFiles

_MAX_BUFFERS = 512  # per system call; POSIX guarantees 16, Linux and macOS allow 1024
_MAX_TRIES = 100  # a folder may vanish between its creation and its use, if another process has just deleted the last file in it

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class LocalStorage(WithTemporaryFiles):
    """A storage below a folder of a mounted disk."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        if not os.fspath(root):
            raise StateError("a location is empty", "''", "name a folder, such as /data/checkpoint")
        self.root = _absolute(os.fspath(root))
        self._prefix = self.root.rstrip("/") + "/"
        self._known_mode: int | None = None

    @property
    def uri(self) -> str:
        return self.root

    def url(self, path: str) -> str:
        """The name is not percent-encoded, because Hadoop and Spark read it as it is."""
        return f"file://{self._prefix}{check_name(path)}"

    def label(self, path: str) -> str:
        return self._prefix + path

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        target = self._own(path)
        folder = target.rpartition("/")[0]
        temporary = f"{folder}/{temporary_name()}"
        try:
            descriptor, folder_is_new = self._create_file(temporary, folder)
            try:
                try:
                    size = _write_all(descriptor, buffers)
                    if durable:
                        os.fsync(descriptor)
                finally:
                    os.close(descriptor)  # network file systems may report a full disk only on close
                os.replace(temporary, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            if durable:
                self._flush_folders(folder, up_to_root=folder_is_new)
        except OSError as error:
            raise storage_error("written", target, error) from error
        return size

    def write_new(self, path: str, buffers: Sequence[Any]) -> int:
        return write_checked(self, path, buffers)

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        name = self._prefix + check_name(path)
        try:
            # a pipe would be waited for, a device may have no end
            if not stat.S_ISREG(os.stat(name).st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            return map_file(name) if mapped else pa.py_buffer(Path(name).read_bytes())
        except OSError as error:
            raise storage_error("read", name, error) from error

    def exists(self, path: str) -> bool:
        name = self._prefix + check_name(path)
        try:
            return stat.S_ISREG(os.stat(name).st_mode)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return False
            raise storage_error("read", name, error) from error

    def size(self, path: str) -> int:
        name = self._prefix + check_name(path)
        try:
            return os.stat(name).st_size
        except OSError as error:
            raise storage_error("read", name, error) from error

    def delete(self, paths: Iterable[str]) -> None:
        folders = set()
        for path in paths:
            name = self._own(path)
            try:
                os.unlink(name)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise storage_error("deleted", name, error) from error
            folders.add(path.rpartition("/")[0])
        self._prune(folders)

    def move(self, source: str, target: str) -> None:
        old, new = self._own(source), self._own(target)
        try:
            for attempt in range(_MAX_TRIES):
                try:
                    os.replace(old, new)
                    break
                except FileNotFoundError:
                    if not os.path.exists(old):
                        raise missing_file(old) from None
                    if attempt == _MAX_TRIES - 1:
                        raise
                    self._create_folder(new.rpartition("/")[0])
        except OSError as error:
            raise storage_error("moved", f"{old} -> {new}", error) from error
        self._prune({source.rpartition("/")[0]})

    def _walk(self, folder: str, recursive: bool) -> Iterable[str]:
        base = self._own(f"{check_folder(folder)}/x").removesuffix("/x") if folder else self._prefix
        pending = [""]
        while pending:
            inner = pending.pop()
            try:
                with os.scandir(f"{base}/{inner}") as entries:
                    for entry in entries:
                        if not entry.is_dir(follow_symlinks=False):
                            yield inner + entry.name
                        elif recursive:
                            pending.append(f"{inner}{entry.name}/")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise storage_error("listed", f"{base}/{inner}", error) from error

    def _own(self, path: str) -> str:
        """The full name of a file that is to be changed; StateError if it lies behind a symbolic link."""
        name = self._prefix + check_name(path)
        end = name.find("/", len(self._prefix))
        while end >= 0:
            try:
                if stat.S_ISLNK(os.lstat(name[:end]).st_mode):
                    raise StateError(
                        "a folder of the state is a symbolic link",
                        name[:end],
                        "put the folder itself there; the checkpoint as a whole may be behind a link",
                    )
            except OSError:
                break  # there is no such folder, or it cannot be seen: what follows says so
            end = name.find("/", end + 1)
        return name

    @property
    def _mode(self) -> int:
        """What the root permits."""
        if self._known_mode is None:
            try:
                self._known_mode = stat.S_IMODE(os.stat(self.root).st_mode) & 0o777 | 0o700
            except OSError:
                return 0o777
        return self._known_mode

    def _create_folder(self, folder: str) -> None:
        """Create a folder. Other processes may delete it, or one above it, at the same time: the caller notices that and tries again."""
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            if folder.startswith(self._prefix):
                os.makedirs(self.root, exist_ok=True)
                for end in (*(n for n, sign in enumerate(folder) if sign == "/" and n > len(self._prefix)), len(folder)):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(folder[:end], self._mode)
            else:
                os.makedirs(folder, exist_ok=True)

    def _create_file(self, path: str, folder: str) -> tuple[int, bool]:
        """Create a file; its descriptor, and whether the folder was created. That is tried only after a failure: most folders exist."""
        folder_is_new = False
        for _ in range(_MAX_TRIES):
            try:
                return os.open(path, _CREATE, self._mode & 0o666), folder_is_new
            except FileNotFoundError:
                self._create_folder(folder)
                folder_is_new = True
        return os.open(path, _CREATE, self._mode & 0o666), folder_is_new

    def _prune(self, folders: set[str]) -> None:
        """Remove folders that have become empty, but not the root. Every batch has folders of its own, which would accumulate."""
        for folder in folders:
            with contextlib.suppress(OSError):
                while folder:
                    os.rmdir(self._prefix + folder)
                    folder = folder.rpartition("/")[0]

    def _flush_folders(self, folder: str, up_to_root: bool) -> None:
        """Make a new name durable by flushing its folder, and new folders by flushing those above them, up to the root."""
        while len(folder) >= len(self.root):
            flush_folder(folder)
            if not up_to_root:
                return
            folder = folder.rpartition("/")[0]


def flush_folder(name: str | os.PathLike[str]) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _absolute(root: str) -> str:
    return _plain_path(root) if root.startswith("/") else str(Path(root).absolute())


@lru_cache(256)  # a batch opens the same storages a dozen times
def _plain_path(root: str) -> str:
    """Without repeated and trailing slashes."""
    return str(Path(root))


def map_file(name: str) -> pa.Buffer:
    """The content of a file as a mapping. It is one of Arrow, which needs no open file descriptor, unlike one of Python."""
    with pa.memory_map(name, "r") as file:
        return file.read_buffer()


def _write_all(descriptor: int, buffers: Sequence[Any]) -> int:
    """Write all buffers, with as few system calls as possible; their size in bytes."""
    views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    size = sum(view.nbytes for view in views)
    start = 0
    while start < len(views):
        written = os.writev(descriptor, views[start : start + _MAX_BUFFERS])
        while start < len(views) and written >= views[start].nbytes:
            written -= views[start].nbytes
            start += 1
        if written:  # the rest is written by the next call, which raises if the disk is full
            views[start] = views[start][written:]
    return size
