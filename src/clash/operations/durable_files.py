"""Files and folders on a mounted disk, written so that they survive a power failure, with their checksums."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clash.state.local_storage import flush_folder, map_file
from clash.state.paths import storage_error

_CHUNK = 1 << 22


@contextmanager
def naming(action: str, path: Path) -> Iterator[None]:
    """What the file system refuses becomes a StateError that names the file."""
    try:
        yield
    except OSError as error:
        raise storage_error(action, str(path), error) from error


def write_file(path: Path, content: memoryview) -> int:
    """Writes a new file, flushes it, and returns the CRC-32 of its content."""
    crc = 0
    with naming("written", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb", buffering=0) as file:
            for start in range(0, len(content), _CHUNK):
                chunk = content[start : start + _CHUNK]
                crc = zlib.crc32(chunk, crc)
                while chunk:
                    chunk = chunk[file.write(chunk) :]
            os.fsync(file.fileno())
    return crc


def content_of(path: Path) -> memoryview:
    """The content of a file as a mapping; OSError if there is none."""
    return memoryview(map_file(str(path))) if path.stat().st_size else memoryview(b"")


def file_crc(path: Path) -> int:
    with naming("read", path):
        content = content_of(path)
    crc = 0
    for start in range(0, len(content), _CHUNK):
        crc = zlib.crc32(content[start : start + _CHUNK], crc)
    return crc


def link_file(existing: Path, path: Path) -> bool:
    """Whether `path` is now another name of an existing file: file systems may not have that, or not so many names of one file."""
    with naming("written", path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(existing, path)
    except OSError:
        return False
    return True


def flush_folders(root: Path) -> None:
    """Makes the names in a folder, and in the folders below it, durable."""
    flush(Path(folder) for folder, _, _ in os.walk(root))


def flush(folders: Iterable[Path]) -> None:
    for folder in folders:
        with naming("written", folder):
            flush_folder(folder)
