"""Files on any file system of `pyarrow.fs`: object stores, or a local one. Files are copied to a local cache and mapped there.

A copy is identified by name, size and time of change, so a checkpoint that was deleted and started anew never reads copies of the old
one. On object stores, where a file appears only when its writer closes it, files are written in place. Elsewhere they are written under
a temporary name and renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from clash.errors import StateError
from clash.state.cache import DEFAULT_LIMIT, FileCache, default_folder
from clash.state.new_files import write_checked
from clash.state.paths import check_folder, check_name, missing_file, storage_error, temporary_name
from clash.state.temporary_files import WithTemporaryFiles

_APPEAR_WHEN_CLOSED = frozenset({"s3", "gcs", "abfs"})


def connect(uri: str, arrow_uri: str) -> tuple[Any, str]:
    """The file system at a URI as Arrow writes it, and the path in it."""
    try:
        filesystem, root = pafs.FileSystem.from_uri(arrow_uri)
    except (OSError, pa.ArrowException) as error:
        scheme = uri.partition(":")[0]
        hint = "known are paths, file:, memory:, hdfs://, s3a:// (s3://), gs:// and abfs://, if pyarrow was built with them"
        reason = " ".join(str(error).replace(arrow_uri, "it").split())  # the URI may contain credentials
        raise StateError("a location cannot be opened", f"{scheme}://…: {reason}", hint) from None
    return filesystem, root


class ArrowStorage(WithTemporaryFiles):
    """A storage on a `pyarrow.fs` file system, below the folder `root` of it."""

    _hint = "see what the file system says, and start again when it answers: the batch in work is run again"

    def __init__(
        self,
        filesystem: Any,
        root: str,
        cache_dir: str | os.PathLike[str] | None = None,
        uri: str | None = None,
        cache_limit: int = DEFAULT_LIMIT,
    ) -> None:
        while isinstance(filesystem, pafs.SubTreeFileSystem):  # which cannot create its own base folder
            filesystem, root = filesystem.base_fs, filesystem.base_path + root
        self.filesystem = filesystem
        self.root = filesystem.normalize_path(root).rstrip("/")
        self._prefix = f"{self.root}/" if root else ""
        self._label = f"{filesystem.type_name}://{self.root}"  # for messages: without the credentials that a URI may contain
        self._uri = uri or self._label.replace("local:", "file:")
        self._writes_in_place = filesystem.type_name in _APPEAR_WHEN_CLOSED
        self._cache = FileCache(default_folder() if cache_dir is None else cache_dir, cache_limit)

    @classmethod
    def open(cls, uri: str) -> ArrowStorage:
        """The storage at a URI of a scheme that pyarrow has."""
        return cls(*connect(uri, uri), uri=uri)

    @property
    def uri(self) -> str:
        return self._uri

    def url(self, path: str) -> str:
        location, mark, options = self._uri.partition("?")
        return f"{location.rstrip('/')}/{check_name(path)}{mark}{options}"

    def label(self, path: str) -> str:
        return f"{self._label}/{path}"

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        """`durable` has no effect: such a file system has no operation that would make an acknowledged file safer."""
        target = self._prefix + check_name(path)
        with self._errors_of("written", path):
            if self._writes_in_place:
                return self._write_buffers(target, buffers)
            folder = target.rpartition("/")[0]
            temporary = f"{folder}/{temporary_name()}" if folder else temporary_name()
            try:
                try:
                    size = self._write_buffers(temporary, buffers)
                except FileNotFoundError:
                    self._create_folder(folder)
                    size = self._write_buffers(temporary, buffers)
                self._rename(temporary, target)
            except BaseException:
                with contextlib.suppress(OSError, pa.ArrowException):
                    self.filesystem.delete_file(temporary)
                raise
            return size

    def write_new(self, path: str, buffers: Sequence[Any]) -> int:
        return write_checked(self, path, buffers)

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        name = self._prefix + check_name(path)
        with self._errors_of("read", path):
            if not mapped:
                with self.filesystem.open_input_file(name) as file:
                    return file.read_buffer()
            info = self._info(path)
            original = self.label(path)
            key = hashlib.sha256(f"{original}\0{info.size}\0{info.mtime_ns}".encode()).hexdigest()
            return self._cache.get(key, original, info.size, lambda: self.filesystem.open_input_stream(name, compression=None))

    def exists(self, path: str) -> bool:
        with self._errors_of("read", path):
            return bool(self.filesystem.get_file_info(self._prefix + check_name(path)).is_file)

    def size(self, path: str) -> int:
        with self._errors_of("read", path):
            return int(self._info(path).size)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            name = self._prefix + check_name(path)
            with self._errors_of("deleted", path):
                try:
                    self.filesystem.delete_file(name)
                except OSError:
                    if self.filesystem.get_file_info(name).type != pafs.FileType.NotFound:
                        raise

    def move(self, source: str, target: str) -> None:
        old, new = self._prefix + check_name(source), self._prefix + check_name(target)
        with self._errors_of("moved", source):
            self._info(source)
            if old == new:
                return
            if not self._writes_in_place:
                self._create_folder(new.rpartition("/")[0])
            self._rename(old, new)

    def _walk(self, folder: str, recursive: bool) -> Iterable[str]:
        base = f"{self._prefix}{check_folder(folder)}".rstrip("/")
        with self._errors_of("listed", folder):
            infos = self.filesystem.get_file_info(pafs.FileSelector(base, allow_not_found=True, recursive=recursive))
        start = len(base) + 1 if base else 0
        return [info.path[start:] for info in infos if info.is_file]

    def _info(self, path: str) -> Any:
        info = self.filesystem.get_file_info(self._prefix + check_name(path))
        if not info.is_file:
            raise missing_file(self.label(path))
        return info

    def _create_folder(self, folder: str) -> None:
        if folder:
            self.filesystem.create_dir(folder, recursive=True)

    def _write_buffers(self, name: str, buffers: Sequence[Any]) -> int:
        size = 0
        with self.filesystem.open_output_stream(name, compression=None) as stream:
            for buffer in buffers:
                size += stream.write(buffer)
        return size

    def _rename(self, old: str, new: str) -> None:
        self.filesystem.move(old, new)

    @contextlib.contextmanager
    def _errors_of(self, action: str, path: str) -> Iterator[None]:
        """Turn errors of the file system into StateError."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise storage_error(action, self.label(path), error, self._hint) from error
