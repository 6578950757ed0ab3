"""The connection of a process to HDFS: hdfs-native, a client without a JVM (the extra `hdfs`).

hdfs-native waits without end for a NameNode that is away. Here every call raises TimeoutError when HDFS has not answered for
`CLASH_HDFS_TIMEOUT` seconds (60). The call may still take effect later: it ends in its thread when HDFS is back.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import lru_cache
from threading import Thread
from typing import Any

from clash.errors import StateError

FAILURES = (OSError, RuntimeError)
"""What hdfs-native raises: errors that have a counterpart in Python, and all others."""
_CHUNK = 8 << 20  # bytes that must be transferred within the limit


class HdfsClient:
    """Names are absolute paths of HDFS. Errors are FAILURES."""

    def __init__(self, server: str) -> None:
        module = _module()
        self._client = module.Client() if server == "hdfs://" else module.Client(server)

    def status(self, name: str) -> Any:
        """FileNotFoundError if there is no such file or folder."""
        return _answer(self._client.get_file_info, name)

    def list_status(self, folder: str, recursive: bool) -> list[Any]:
        found: list[Any] = _answer(lambda: list(self._client.list_status(folder, recursive)))  # asks for each thousand of files
        return found

    def make_folder(self, name: str, mode: int) -> None:
        _answer(self._client.mkdirs, name, mode, True)

    def delete(self, name: str) -> None:
        _answer(self._client.delete, name, False)

    def rename(self, old: str, new: str, overwrite: bool) -> None:
        """In one step; FileExistsError if there is such a file, and it is not to be replaced."""
        _answer(lambda: self._client.rename(old, new, overwrite=overwrite))

    def read(self, name: str) -> bytes:
        reader = _answer(self._client.read, name)
        chunks = []
        while chunk := _answer(reader.read, _CHUNK):
            chunks.append(chunk)
        return b"".join(chunks)

    def write(self, name: str, buffers: Iterable[Any], mode: int) -> int:
        """Write a new file in a folder that exists, and return its size in bytes."""
        writer = self.create(name, permission=mode, create_parent=False)
        size = 0
        for buffer in buffers:
            content = memoryview(buffer).cast("B") if len(buffer) else memoryview(b"")
            for start in range(0, len(content), _CHUNK):
                size += writer.write(content[start : start + _CHUNK].tobytes())
        writer.close()
        return size

    def create(self, name: str, **options: Any) -> HdfsWriter:
        """A new file that is open for writing; FileExistsError if there is one."""
        return HdfsWriter(_answer(self._client.create, name, _module().WriteOptions(**options)))

    def append(self, name: str) -> HdfsWriter:
        """A file that is open for writing at its end."""
        return HdfsWriter(_answer(self._client.append, name))


class HdfsWriter:
    """A file that is open for writing. `seconds`: the limit of each call."""

    def __init__(self, writer: Any) -> None:
        self._writer, self._close = writer, writer.close
        self.seconds = _limit()

    def write(self, content: bytes) -> int:
        return int(self._call(self._writer.write, content))

    def sync(self) -> None:
        self._call(self._writer.hsync)

    def close(self) -> None:
        self._call(self._close)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return _answer(function, *arguments, seconds=self.seconds)
        except FAILURES:
            self._writer.close = lambda: None  # which the garbage collector would call, and wait for HDFS
            raise


@lru_cache(maxsize=16)
def shared_client(server: str, process: int) -> HdfsClient:
    """One per server and process: a forked process must not use that of its parent."""
    return open_client(server)


def open_client(server: str) -> HdfsClient:
    try:
        return HdfsClient(server)
    except FAILURES as error:
        raise StateError(
            "a location cannot be opened", f"{server}: {error}", "write hdfs://host:port/folder, or set HADOOP_CONF_DIR"
        ) from None


def _limit() -> float:
    return float(os.environ.get("CLASH_HDFS_TIMEOUT", "60"))


def _answer(function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
    """What a call returns or raises; TimeoutError if that takes too long."""
    answer: Future[Any] = Future()

    def call() -> None:
        try:
            answer.set_result(function(*arguments))
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=call, name="clash-hdfs", daemon=True).start()
    limit = _limit() if seconds is None else seconds
    try:
        return answer.result(limit)
    except TimeoutError:
        raise TimeoutError(f"HDFS has not answered for {limit:.0f} seconds") from None


def _module() -> Any:
    try:
        return importlib.import_module("hdfs_native")
    except ImportError:
        raise StateError(
            "HDFS needs the package hdfs-native",
            f"it is not installed in {sys.executable}",
            "pip install 'clash-on-spark[hdfs]' (or hdfs-native) where the program runs and on all workers",
        ) from None
