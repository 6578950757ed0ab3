"""Copies of remote files on a local disk, bounded in size: what was not used for the longest time goes first.

The processes of a machine share one folder. A copy appears whole or not at all, and a mapping outlives the deletion of its copy, so
they need no lock.
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
from clash.state.paths import failure, temporary_name

LIMIT = 16 << 30


def default_folder() -> Path:
    """Below TMPDIR, and only this user's: another user could plant copies in it."""
    folder = Path(tempfile.gettempdir()) / f"clash-cache-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022:
            return folder
        return Path(tempfile.mkdtemp(prefix="clash-cache-"))
    except OSError as error:
        raise failure("cached", str(folder), error) from error


class FileCache:
    def __init__(self, folder: str | os.PathLike[str], limit: int = LIMIT) -> None:
        self.folder = Path(folder).absolute()
        self.limit = limit
        self._added = limit  # so that the first copy looks at what earlier processes left

    def get(self, key: str, original: str, size: int, fetch: Callable[[], IO[Any]]) -> pa.Buffer:
        """The copy of that key, fetched if there is none of that size; `original` is for messages."""
        name = self.folder / key
        with contextlib.suppress(OSError):
            buffer = map_file(str(name))
            if buffer.size == size:
                os.utime(name)
                return buffer
        with fetch() as source:
            try:
                return self._copy(source, name, size)
            except OSError as error:
                raise failure("cached", f"{original} -> {name}", error) from error

    def _copy(self, source: IO[Any], name: Path, size: int) -> pa.Buffer:
        self._make_room(size)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.folder / temporary_name()
        try:
            with temporary.open("xb") as target:
                shutil.copyfileobj(source, target, 4 << 20)
            buffer = map_file(str(temporary))  # before the rename: a neighbour may clean up the copy at once
            if buffer.size != size:
                raise OSError(f"{buffer.size} bytes came instead of {size}")
            temporary.replace(name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return buffer

    def _make_room(self, size: int) -> None:
        """Looks at the folder only after a sixteenth of the limit was added, and then frees down to half of it."""
        self._added += size
        if self._added < self.limit // 16:
            return
        self._added = 0
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    found.append((status.st_mtime_ns, status.st_size, path))
        total = sum(entry[1] for entry in found) + size
        if total <= self.limit:
            return
        for _, freed, path in sorted(found):
            path.unlink(missing_ok=True)
            total -= freed
            if total <= self.limit // 2:
                return
