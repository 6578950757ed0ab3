"""Files on HDFS, through hdfs-native, in the program and in the workers.

Arrow's own client needs Hadoop's native library, which no package registry has, and cannot rename over a file: it would have to delete the
old one first. Here a file is written under a temporary name and renamed by one request, over another file or only if there is none.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from clash.state.cache import FileCache, default_folder
from clash.state.hdfs_client import FAILURES, HdfsClient, open_client, shared_client
from clash.state.new_files import check_same
from clash.state.paths import check_folder, check_name, missing_file, storage_error, temporary_name
from clash.state.temporary_files import WithTemporaryFiles

_HINT = "see what HDFS says, and start again when it answers: the batch in work is run again"


class HdfsStorage(WithTemporaryFiles):
    """A storage below a folder of HDFS. `uri`: hdfs://host:port/folder, or hdfs:///folder as Hadoop's configuration says."""

    def __init__(self, uri: str, cache_dir: str | os.PathLike[str] | None = None) -> None:
        parts = urlsplit(uri)
        self._uri, self._server = uri.rstrip("/"), f"hdfs://{parts.netloc}"
        self.root = unquote(parts.path).rstrip("/")
        self._known_mode: int | None = None
        self._cache = FileCache(default_folder() if cache_dir is None else cache_dir)

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def client(self) -> HdfsClient:
        return shared_client(self._server, os.getpid())

    def new_client(self) -> HdfsClient:
        """One that HDFS does not take for the shared one."""
        return open_client(self._server)

    def url(self, path: str) -> str:
        return f"{self._uri}/{check_name(path)}"

    def label(self, path: str) -> str:
        return f"{self._uri}/{path}"

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        """`durable` has no effect: a closed file is on as many machines as HDFS is configured for."""
        return self._write(path, buffers, overwrite=True) or 0

    def write_new(self, path: str, buffers: Sequence[Any]) -> int:
        content = b"".join(buffers)
        size = self._write(path, [content], overwrite=False)
        return check_same(self, path, content) if size is None else size

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        name = self._name(path)
        with self._errors_of("read", path):
            status = self._status(path)
            if not mapped:
                return pa.py_buffer(self.client.read(name))
            original = self.label(path)
            key = hashlib.sha256(f"{original}\0{status.length}\0{status.modification_time}".encode()).hexdigest()
            return self._cache.get(key, original, status.length, lambda: io.BytesIO(self.client.read(name)))

    def exists(self, path: str) -> bool:
        with self._errors_of("read", path):
            try:
                return not self.client.status(self._name(path)).isdir
            except FileNotFoundError:
                return False

    def size(self, path: str) -> int:
        with self._errors_of("read", path):
            return int(self._status(path).length)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with self._errors_of("deleted", path):
                self.client.delete(self._name(path))

    def move(self, source: str, target: str) -> None:
        old, new = self._name(source), self._name(target)
        with self._errors_of("moved", source):
            self._status(source)
            if old != new:
                self._create_folder(new.rpartition("/")[0])
                self.client.rename(old, new, overwrite=True)

    def make_root(self, mode: int) -> None:
        """Create the root, unless it exists, with these permissions."""
        with self._errors_of("written", ""):
            try:
                self.client.status(self.root or "/")
            except FileNotFoundError:
                self.client.make_folder(self.root, mode)

    def _write(self, path: str, buffers: Sequence[Any], overwrite: bool) -> int | None:
        """The size; None if there is such a file, and it is not to be replaced."""
        target = self._name(path)
        folder = target.rpartition("/")[0]
        temporary = f"{folder}/{temporary_name()}"
        with self._errors_of("written", path):
            try:
                try:
                    size = self._write_buffers(temporary, buffers)
                except FileNotFoundError:
                    self._create_folder(folder)
                    size = self._write_buffers(temporary, buffers)
                self.client.rename(temporary, target, overwrite=overwrite)
            except BaseException as error:
                if not isinstance(error, TimeoutError):  # else a later start sweeps it
                    with contextlib.suppress(*FAILURES):
                        self.client.delete(temporary)
                if isinstance(error, FileExistsError) and not overwrite and self.exists(path):
                    return None
                raise
            return size

    def _write_buffers(self, name: str, buffers: Sequence[Any]) -> int:
        return self.client.write(name, buffers, self._mode & 0o666)

    def _create_folder(self, folder: str) -> None:
        self.client.make_folder(folder, self._mode)

    @property
    def _mode(self) -> int:
        """What the root permits, as on a mounted disk."""
        if self._known_mode is None:
            try:
                self._known_mode = int(self.client.status(self.root or "/").permission) & 0o777 | 0o700
            except FileNotFoundError:
                return 0o755
        return self._known_mode

    def _walk(self, folder: str, recursive: bool) -> Iterable[str]:
        base = f"{self.root}/{check_folder(folder)}".rstrip("/")
        with self._errors_of("listed", folder):
            try:
                if not self.client.status(base or "/").isdir:
                    return []
                return [status.path[len(base) + 1 :] for status in self.client.list_status(base or "/", recursive) if not status.isdir]
            except FileNotFoundError:
                return []

    def _name(self, path: str) -> str:
        return f"{self.root}/{check_name(path)}"

    def _status(self, path: str) -> Any:
        try:
            status = self.client.status(self._name(path))
        except FileNotFoundError:
            raise missing_file(self.label(path)) from None
        if status.isdir:
            raise missing_file(self.label(path))
        return status

    @contextlib.contextmanager
    def _errors_of(self, action: str, path: str) -> Iterator[None]:
        """Turn errors of HDFS into StateError."""
        try:
            yield
        except FAILURES as error:
            text = str(error).partition("\\n\\tat ")[0].partition("\n\tat ")[0]  # without the stack of the NameNode
            plain = FileNotFoundError(text) if isinstance(error, FileNotFoundError) else OSError(text)
            raise storage_error(action, self.label(path), plain, _HINT) from error
