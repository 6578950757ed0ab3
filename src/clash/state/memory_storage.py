"""Files in the memory of this process, for tests and for runs that need not survive it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import pyarrow as pa

from clash.errors import StateError
from clash.state.new_files import write_checked
from clash.state.paths import check_folder, check_name, missing_file


class MemoryStorage:
    """A storage in memory.

    `MemoryStorage()` lives as long as it is referenced, `MemoryStorage.named(NAME)` as long as the process or until `forget`.
    """

    _named: ClassVar[dict[str, MemoryStorage]] = {}  # keeps them alive
    _by_name: ClassVar[WeakValueDictionary[str, MemoryStorage]] = WeakValueDictionary()  # all that are alive
    _numbers: ClassVar[itertools.count[int]] = itertools.count()

    def __init__(self, name: str | None = None) -> None:
        self.name = f"unnamed-{next(self._numbers)}" if name is None else name
        self._files: dict[str, pa.Buffer] = {}
        self._by_name[self.name] = self

    @classmethod
    def named(cls, name: str) -> MemoryStorage:
        """The storage of that name, created when it is first requested."""
        if not name:
            raise StateError("a storage in memory has no name", "memory:", "write memory:NAME")
        storage = cls._by_name.get(name)
        if storage is None:
            storage = cls._named[name] = cls(name)
        return storage

    def forget(self) -> None:
        """Give its name free for a new storage; the files are freed with the last reference to this one."""
        self._named.pop(self.name, None)
        self._by_name.pop(self.name, None)

    @property
    def uri(self) -> str:
        return f"memory:{self.name}"

    def url(self, path: str) -> str:
        return f"{self.uri}/{check_name(path)}"

    def label(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        # memory of Arrow is aligned to 64 bytes, as a mapped file is; the slice is read-only
        size = sum(len(buffer) for buffer in buffers)
        content = pa.allocate_buffer(size)
        view, start = memoryview(content).cast("B"), 0
        for buffer in buffers:
            end = start + len(buffer)
            view[start:end] = memoryview(buffer).cast("B")
            start = end
        self._files[check_name(path)] = content.slice()
        return size

    def write_new(self, path: str, buffers: Sequence[Any]) -> int:
        return write_checked(self, path, buffers)

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        try:
            return self._files[check_name(path)]
        except KeyError:
            raise missing_file(self.label(path)) from None

    def exists(self, path: str) -> bool:
        return check_name(path) in self._files

    def size(self, path: str) -> int:
        return int(self.read(path).size)

    def list(self, folder: str = "", recursive: bool = False) -> list[str]:
        prefix = check_folder(folder) and f"{folder}/"
        start = len(prefix)
        return sorted(path[start:] for path in list(self._files) if path.startswith(prefix) and (recursive or "/" not in path[start:]))

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._files.pop(check_name(path), None)

    def move(self, source: str, target: str) -> None:
        buffer = self.read(source)
        self._files[check_name(target)] = buffer
        if target != source:
            del self._files[source]

    def sweep(self, folder: str = "") -> int:
        check_folder(folder)
        return 0
