"""A cache of remote files on a local disk. Its size is bounded: the least recently used copies are deleted first.

The processes of a machine share one folder. They need no lock, because a copy appears with its whole content or not at all, and a
mapping stays valid after its copy is deleted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from clash.state.local_storage import map_file
from clash.state.paths import storage_error, temporary_name

DEFAULT_LIMIT = 16 << 30  # bytes
_CHUNK = 4 << 20  # bytes that are copied at once


def default_folder() -> Path:
    """A folder below TMPDIR that only this user can write to: another user could put forged copies into it."""
    folder = Path(tempfile.gettempdir()) / f"clash-cache-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022:
            return folder
        return Path(tempfile.mkdtemp(prefix="clash-cache-"))
    except OSError as error:
        raise storage_error("cached", str(folder), error) from error


class FileCache:
    """Copies of files below a folder, of `limit` bytes in total."""

    def __init__(self, folder: str | os.PathLike[str], limit: int = DEFAULT_LIMIT) -> None:
        self.folder = Path(folder).absolute()
        self.limit = limit
        self._added = limit  # bytes since the folder was measured; so many that the first copy measures what earlier processes left

    def get(self, key: str, original: str, size: int, fetch: Callable[[], IO[Any]]) -> pa.Buffer:
        """The copy under a key, mapped; it is fetched if there is no copy of that size. `original` names the file in messages."""
        path = self.folder / key
        with contextlib.suppress(OSError):
            buffer = map_file(str(path))
            if buffer.size == size:
                os.utime(path)
                return buffer
        with fetch() as source:
            try:
                return self._copy(source, path, size)
            except OSError as error:
                raise storage_error("cached", f"{original} -> {path}", error) from error

    def _copy(self, source: IO[Any], path: Path, size: int) -> pa.Buffer:
        self._make_room(size)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.folder / temporary_name()
        try:
            with temporary.open("xb") as target:
                shutil.copyfileobj(source, target, _CHUNK)
            buffer = map_file(str(temporary))  # before the rename: after it another process may delete the copy at any time
            if buffer.size != size:
                raise OSError(f"{buffer.size} bytes came instead of {size}")
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return buffer

    def _make_room(self, size: int) -> None:
        """Measure the folder after each added sixteenth of the limit; if it is over the limit, delete copies down to half of it."""
        self._added += size
        if self._added < self.limit // 16:
            return
        self._added = 0
        copies = []
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    copies.append((status.st_mtime_ns, status.st_size, path))
        total = sum(copy_size for _, copy_size, _ in copies) + size
        if total <= self.limit:
            return
        for _, freed, path in sorted(copies):
            path.unlink(missing_ok=True)
            total -= freed
            if total <= self.limit // 2:
                return
