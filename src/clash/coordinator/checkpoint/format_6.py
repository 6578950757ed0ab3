"""Checkpoints of format 6, whose records have no checksums.

They are read as if they had: a view of their storage adds the checksum to what lacks one, so that a start which is refused changes
nothing. When everything else about the start is certain, `upgrade` writes the records with checksums.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from clash.state.json_records import with_checksum
from clash.state.storage import Storage

FORMAT_6 = 6
_RECORDS = ("manifests", "batches", "generations")
_FILES = ("job.json", "statistics.json")


class Format6View:
    """The storage of a checkpoint of format 6. What is written through it is of today's format."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def read(self, path: str, mapped: bool = True) -> pa.Buffer:
        buffer = self._storage.read(path, mapped)
        if path not in _FILES and path.partition("/")[0] not in _RECORDS:
            return buffer
        content = buffer.to_pybytes()
        return pa.py_buffer(with_checksum(content)) if content.count(b"\n") == 1 and content.endswith(b"\n") else buffer


def upgrade(storage: Storage) -> None:
    """Writes the records of format 6 with checksums, all but the one that says the format. It can be done again after a kill."""
    view = Format6View(storage)
    paths = [f"{folder}/{name}" for folder in _RECORDS for name in storage.list(folder)]
    for path in [*paths, *(name for name in _FILES[1:] if storage.exists(name))]:
        content = view.read(path, mapped=False).to_pybytes()
        if content != storage.read(path, mapped=False).to_pybytes():
            storage.write(path, [content], durable=True)
