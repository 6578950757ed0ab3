"""Where state lives: a flat name space of files below a root, the same on local disk, in memory and on remote file systems.

A file appears whole or not at all, and a container never changes once written. Folders exist only through the files in them. What
the system refuses becomes a StateError that names the file. `open_storage(storage.uri)` is the same storage in any process that
sees its file system; for storages in memory that is this process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from clash.errors import StateError
from clash.state.arrow_storage import ArrowStorage
from clash.state.local_storage import LocalStorage
from clash.state.memory_storage import MemoryStorage

__all__ = ["ArrowStorage", "LocalStorage", "MemoryStorage", "Storage", "open_storage"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


class Storage(Protocol):
    """Names are relative POSIX paths; the folder `""` is the root."""

    @property
    def uri(self) -> str:
        """`open_storage(uri)` is this storage again."""

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        """The buffers (bytes, memoryview or pa.Buffer) one after the other as one file, in place of an older one; its size in bytes.

        Atomic. With `durable` it also survives a power failure that comes after the return.
        """

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        """The content, read-only. Mapped, it may come from a cache that knows files by name, size and time of change: for files that are
        written once. With `mapped=False` it is read afresh into memory.
        """

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, folder: str = "", recursive: bool = False) -> list[str]:
        """The files in a folder, sorted, by their path relative to it; none if there is no such folder."""

    def delete(self, paths: Iterable[str]) -> None:
        """Files that are not there are left out. A buffer that was read before stays valid."""

    def move(self, source: str, target: str) -> None:
        """In place of an older target."""

    def sweep(self, folder: str = "") -> int:
        """Deletes what writers that were killed left below a folder; for the one moment when nobody writes there."""

    def url(self, path: str) -> str:
        """The full name of a file, as Spark reads it."""

    def label(self, path: str) -> str:
        """The full name of a file for messages: without credentials that `url` may hold."""


def open_storage(uri: str) -> Storage:
    """A plain path or `file:` is local disk, `memory:NAME` lives in this process, all else is up to `pyarrow.fs`."""
    if uri.startswith("memory:"):
        return MemoryStorage.named(uri.removeprefix("memory:"))
    if uri.startswith("file:"):
        path = uri.removeprefix("file:")
        if path.startswith("//") and not path.startswith("///"):
            raise StateError("a location names another machine", uri, "a file: location is file:///absolute/path")
        return LocalStorage("/" + path.lstrip("/") if path.startswith("/") else path)
    if _SCHEME.match(uri):
        return ArrowStorage.open(uri)
    return LocalStorage(uri)
