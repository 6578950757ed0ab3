"""Files of a storage as they were at one time: a running job may replace and delete them meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from clash.state.paths import check_folder, check_name, missing_file
from clash.state.storage import Storage


class PinnedStorage:
    """Reads as `origin` did when `files` were read from it, and changes nothing. `others`: files that are listed, and that are read from
    the origin if they are needed after all."""

    def __init__(self, origin: Storage, files: Mapping[str, pa.Buffer], others: Collection[str] = ()) -> None:
        self.origin, self.files = origin, files
        self._names = dict.fromkeys(sorted({*files, *others}))  # a set in order

    @property
    def uri(self) -> str:
        return self.origin.uri

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        if path in self.files:
            return self.files[path]
        if not self.exists(path):
            raise missing_file(self.label(path))
        return self.origin.read(path, mapped)

    def exists(self, path: str) -> bool:
        return check_name(path) in self._names

    def size(self, path: str) -> int:
        return int(self.read(path).size)

    def list(self, folder: str = "", recursive: bool = False) -> list[str]:
        prefix = f"{folder}/" if check_folder(folder) else ""
        names = [name.removeprefix(prefix) for name in self._names if name.startswith(prefix)]
        return [name for name in names if recursive or "/" not in name]

    def url(self, path: str) -> str:
        return self.origin.url(path)

    def label(self, path: str) -> str:
        return self.origin.label(path)

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        raise AssertionError(f"{self.label(path)} is pinned")

    def write_new(self, path: str, buffers: Sequence[Any]) -> int:
        raise AssertionError(f"{self.label(path)} is pinned")

    def delete(self, paths: Iterable[str]) -> None:
        raise AssertionError(f"{self.label('')} is pinned")

    def move(self, source: str, target: str) -> None:
        raise AssertionError(f"{self.label(source)} is pinned")

    def sweep(self, folder: str = "") -> int:
        raise AssertionError(f"{self.label(folder)} is pinned")
