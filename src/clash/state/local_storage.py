"""Files on a disk that this machine mounts: written under a temporary name and renamed, read by mapping them.

Nothing is flushed to the disk unless `durable` is asked for: a killed process loses nothing, a power failure may lose the last
seconds, as with Spark's own checkpoints on a local file system. A mapping stays valid after its file was deleted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from clash.errors import StateError
from clash.state.paths import check_folder, check_name, failure, is_temporary, missing, temporary_name

_VECTORS = 512  # buffers per system call; POSIX promises 16, Linux and macOS allow 1024
_TRIES = 100  # a folder may vanish between its making and its use, if another process has just deleted the last file in it


class LocalStorage:
    def __init__(self, root: str | os.PathLike[str]) -> None:
        if not os.fspath(root):
            raise StateError("a location is empty", "''", "name a folder, such as /data/checkpoint")
        self.root = str(Path(root).absolute())
        self._prefix = self.root.rstrip("/") + "/"

    @property
    def uri(self) -> str:
        return self.root

    def url(self, path: str) -> str:
        """Not percent-encoded: that is how Hadoop and Spark read paths."""
        return f"file://{self._prefix}{check_name(path)}"

    def label(self, path: str) -> str:
        return self._prefix + path

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        target = self._prefix + check_name(path)
        folder = target.rpartition("/")[0]
        temporary = f"{folder}/{temporary_name()}"
        try:
            descriptor, made = _create(temporary, folder)
            try:
                try:
                    size = _write_all(descriptor, buffers)
                    if durable:
                        os.fsync(descriptor)
                finally:
                    os.close(descriptor)  # network file systems may report a full disk only here
                Path(temporary).replace(target)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()
                raise
            if durable:
                self._flush_folders(folder, all_of_them=made)
        except OSError as error:
            raise failure("written", target, error) from error
        return size

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        name = self._prefix + check_name(path)
        try:
            return map_file(name) if mapped else pa.py_buffer(Path(name).read_bytes())
        except OSError as error:
            raise failure("read", name, error) from error

    def exists(self, path: str) -> bool:
        name = self._prefix + check_name(path)
        try:
            return Path(name).is_file()
        except OSError as error:
            raise failure("read", name, error) from error

    def size(self, path: str) -> int:
        name = self._prefix + check_name(path)
        try:
            return Path(name).stat().st_size
        except OSError as error:
            raise failure("read", name, error) from error

    def list(self, folder: str = "", recursive: bool = False) -> list[str]:
        return sorted(name for name in self._walk(folder, recursive) if not is_temporary(name))

    def delete(self, paths: Iterable[str]) -> None:
        folders = set()
        for path in paths:
            name = self._prefix + check_name(path)
            try:
                Path(name).unlink()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise failure("deleted", name, error) from error
            folders.add(path.rpartition("/")[0])
        self._prune(folders)

    def move(self, source: str, target: str) -> None:
        old, new = Path(self._prefix + check_name(source)), Path(self._prefix + check_name(target))
        try:
            for attempt in range(_TRIES):
                try:
                    old.replace(new)
                    break
                except FileNotFoundError:
                    if not old.exists():
                        raise missing(str(old)) from None
                    if attempt == _TRIES - 1:
                        raise
                    _make(str(new.parent))
        except OSError as error:
            raise failure("moved", f"{old} -> {new}", error) from error
        self._prune({source.rpartition("/")[0]})

    def sweep(self, folder: str = "") -> int:
        left = [name for name in self._walk(folder, recursive=True) if is_temporary(name)]
        self.delete(f"{folder}/{name}" if folder else name for name in left)
        return len(left)

    def _walk(self, folder: str, recursive: bool) -> Iterable[str]:
        base = self._prefix + check_folder(folder)
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            try:
                with os.scandir(f"{base}/{inner}") as entries:
                    for entry in entries:
                        if not entry.is_dir():
                            yield inner + entry.name
                        elif recursive:
                            waiting.append(f"{inner}{entry.name}/")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise failure("listed", f"{base}/{inner}", error) from error

    def _prune(self, folders: set[str]) -> None:
        """Removes folders that have become empty, but never the root: a batch has its own folders, and they would add up."""
        for folder in folders:
            with contextlib.suppress(OSError):
                while folder:
                    Path(self._prefix + folder).rmdir()
                    folder = folder.rpartition("/")[0]

    def _flush_folders(self, folder: str, all_of_them: bool) -> None:
        """A new name is durable with its folder, a new folder with the folder above it, up to the root."""
        while len(folder) >= len(self.root):
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not all_of_them:
                return
            folder = folder.rpartition("/")[0]


def map_file(name: str) -> pa.Buffer:
    """The file's content without reading it; Arrow's mapping holds no file descriptor, Python's would."""
    with pa.memory_map(name, "r") as file:
        return file.read_buffer()


def _make(folder: str) -> None:
    """As far as others let it: the caller finds out, and tries again."""
    with contextlib.suppress(FileNotFoundError, FileExistsError):
        Path(folder).mkdir(parents=True, exist_ok=True)


def _create(temporary: str, folder: str) -> tuple[int, bool]:
    """Most folders are there already, so they are made only after a failure."""
    made = False
    for _ in range(_TRIES):
        try:
            return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), made
        except FileNotFoundError:
            _make(folder)
            made = True
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), made


def _write_all(descriptor: int, buffers: Sequence[Any]) -> int:
    views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    size = sum(view.nbytes for view in views)
    start = 0
    while start < len(views):
        written = os.writev(descriptor, views[start : start + _VECTORS])
        while start < len(views) and written >= views[start].nbytes:
            written -= views[start].nbytes
            start += 1
        if written:  # the rest is tried again; a full disk says so then
            views[start] = views[start][written:]
    return size
