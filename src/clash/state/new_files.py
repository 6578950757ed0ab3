"""Files that are written once, by one writer: a second writer with another content is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from clash.errors import StateError


class _Files(Protocol):
    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int: ...
    def read(self, path: str, mapped: bool = True) -> pa.Buffer: ...
    def exists(self, path: str) -> bool: ...
    def label(self, path: str) -> str: ...


def write_checked(storage: _Files, path: str, buffers: Sequence[Any]) -> int:
    """Write a file after a look whether there is one: for storages whose lock cannot be lost while its holder lives."""
    if storage.exists(path):
        return check_same(storage, path, b"".join(buffers))
    return storage.write(path, buffers, durable=True)


def check_same(storage: _Files, path: str, content: bytes) -> int:
    """The size of the file if it has this content; otherwise StateError."""
    if storage.read(path, mapped=False).to_pybytes() != content:
        raise StateError(
            "a file of the state was written by another run",
            storage.label(path),
            "two runs use this checkpoint: stop both, then start one of them",
        )
    return len(content)
