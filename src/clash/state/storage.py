"""The protocol of storages, and how a storage is opened by its URI.

A storage is a flat name space of files below a root; it behaves the same on local disk, in memory and on remote file systems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from clash.errors import StateError
from clash.state.arrow_storage import ArrowStorage
from clash.state.hdfs_storage import HdfsStorage
from clash.state.local_storage import LocalStorage
from clash.state.memory_storage import MemoryStorage
from clash.state.paths import check_name, storage_error
from clash.state.s3_storage import S3_SCHEMES, S3Storage

__all__ = ["ArrowStorage", "HdfsStorage", "LocalStorage", "MemoryStorage", "S3Storage", "Storage", "file_stamp", "open_storage"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


class Storage(Protocol):
    """Files below a root, with the guarantees on which checkpoints rely.

    Names: a file is named by a relative POSIX path without `.` and `..`; any other path raises StateError. The folder `""` is the root.
    Folders exist only through the files in them: `write` and `move` create them as needed.

    Atomicity: `write` and `move` make a file appear under its name with its whole content or not at all, also if the process is killed.
    What a killed writer leaves has a temporary name, which `list` does not show and `sweep` deletes. A replaced file keeps its old
    content until then.

    Durability: a written file survives the death of the process, except in memory. It survives a power failure only if it was written
    with `durable`.

    Immutability: a buffer that `read` returned is read-only and keeps its content, also after the file is replaced or deleted.

    Concurrency: processes may write, move and delete different files at the same time, also in the same folder. Writers of one file do
    not mix: one of them wins as a whole.

    Errors: what the file system refuses becomes a StateError that names the file and has a hint.

    Identity: `open_storage(storage.uri)` is the same storage in every process that sees its file system; a storage in memory is seen by
    its own process only.
    """

    @property
    def uri(self) -> str:
        """The URI from which `open_storage` opens this storage; it may contain credentials."""

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        """Write the concatenated buffers (bytes, memoryview or pa.Buffer) as one file and return its size in bytes.

        The write is atomic and replaces an older file of that name. With `durable` the file also survives a power failure that
        happens after the return.
        """

    def write_new(self, path: str, buffers: Sequence[Any]) -> int:
        """Write a file durably that no other process has written, and return its size; StateError if there is one with another content.

        A file with the same content is this one: the answer to an earlier try was lost. Where a lock can be lost (S3, HDFS), the storage
        decides between two writers in one step. Elsewhere the holder of the checkpoint's lock is the only one.
        """

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        """The content of a file, read-only and aligned to 64 bytes if it is mapped; StateError if there is no such file.

        With `mapped` the content may be a mapping of the file or of a cached copy, which is identified by name, size and time of
        change: this is for files that are written once, such as containers. With `mapped=False` the content is read anew into memory:
        this is for files that are replaced, such as records.
        """

    def exists(self, path: str) -> bool:
        """Whether there is a file of that name; a folder is not a file."""

    def size(self, path: str) -> int:
        """The size of a file in bytes; StateError if there is no such file."""

    def list(self, folder: str = "", recursive: bool = False) -> list[str]:
        """The files in a folder, sorted, as paths relative to it; empty if there is no such folder. Temporary files are left out."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; those that do not exist are ignored."""

    def move(self, source: str, target: str) -> None:
        """Rename a file, and replace an older target; StateError if there is no such source."""

    def sweep(self, folder: str = "") -> int:
        """Delete the temporary files that killed writers left below a folder, and return how many there were.

        It must not run while another process writes below that folder: its temporary files would be deleted too.
        """

    def url(self, path: str) -> str:
        """The full name of a file as Spark reads it; it may contain credentials."""

    def label(self, path: str) -> str:
        """The full name of a file for messages; it never contains credentials."""


def file_stamp(storage: Storage, path: str) -> tuple[int, int] | None:
    """What distinguishes a file from every copy of it: its number on its disk, and when that disk last changed its entry. No tool can copy
    them. None on storages without such numbers."""
    if not isinstance(storage, LocalStorage):
        return None
    name = Path(storage.root, check_name(path))
    try:
        status = name.stat()
    except OSError as error:
        raise storage_error("read", str(name), error) from error
    return status.st_ino, status.st_ctime_ns


def open_storage(uri: str) -> Storage:
    """The storage at a URI: a plain path or `file:` is local disk, `memory:NAME` is in this process, `hdfs:` is HDFS, and all else is
    opened by `pyarrow.fs`."""
    if uri.startswith("memory:"):
        return MemoryStorage.named(uri.removeprefix("memory:"))
    if uri.startswith("file:"):
        path = uri.removeprefix("file:")
        if path.startswith("//") and not path.startswith("///"):
            raise StateError("a location names another machine", uri, "a file: location is file:///absolute/path")
        return LocalStorage("/" + path.lstrip("/") if path.startswith("/") else path)
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return LocalStorage(uri)
    if scheme[1].lower() == "hdfs":
        return HdfsStorage(uri)
    return S3Storage.open(uri) if scheme[1].lower() in S3_SCHEMES else ArrowStorage.open(uri)
