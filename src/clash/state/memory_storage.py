"""Files in the memory of this process: for tests, and for runs that need not survive."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import pyarrow as pa

from clash.errors import StateError
from clash.state.paths import check_folder, check_name, missing


class MemoryStorage:
    """`MemoryStorage()` lasts as long as somebody holds it, `MemoryStorage.named(NAME)` as long as the process, or until `forget`."""

    _kept: ClassVar[dict[str, MemoryStorage]] = {}
    _all: ClassVar[WeakValueDictionary[str, MemoryStorage]] = WeakValueDictionary()
    _numbers: ClassVar[itertools.count[int]] = itertools.count()

    def __init__(self, name: str | None = None) -> None:
        self.name = f"unnamed-{next(self._numbers)}" if name is None else name
        self._files: dict[str, pa.Buffer] = {}
        self._all[self.name] = self

    @classmethod
    def named(cls, name: str) -> MemoryStorage:
        """The one of that name, made when it is first asked for."""
        if not name:
            raise StateError("a storage in memory has no name", "memory:", "write memory:NAME")
        found = cls._all.get(name)
        if found is None:
            found = cls._kept[name] = cls(name)
        return found

    def forget(self) -> None:
        """Its name can be used anew, and its files go with the last who holds them."""
        self._kept.pop(self.name, None)
        self._all.pop(self.name, None)

    @property
    def uri(self) -> str:
        return f"memory:{self.name}"

    def url(self, path: str) -> str:
        return f"{self.uri}/{check_name(path)}"

    def label(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        # Arrow's own memory is aligned as a mapped file is; the slice makes it read-only
        size = sum(len(buffer) for buffer in buffers)
        whole = pa.allocate_buffer(size)
        view, start = memoryview(whole).cast("B"), 0
        for buffer in buffers:
            end = start + len(buffer)
            view[start:end] = memoryview(buffer).cast("B")
            start = end
        self._files[check_name(path)] = whole.slice()
        return size

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        try:
            return self._files[check_name(path)]
        except KeyError:
            raise missing(self.label(path)) from None

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
