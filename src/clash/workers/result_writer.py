"""Result files: written by the task that completes the results, seen by nobody before the driver has committed the batch.

Invariant: a file is written under a name that no other attempt uses, in a folder `_staging` that readers leave out; the driver moves it to
its place after the commit. Memory is bounded: a file that has grown large is closed, and the next one begun.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clash.protocol.batch import Work
from clash.errors import StateError, told
from clash.state.storage import open_storage

STAGING = "_staging"
LATE = "late/"


class Results:
    """`tag` tells the tasks of an attempt apart. Destinations are query names, or late/<stream>."""

    def __init__(self, work: Work, tag: str) -> None:
        self.work, self.tag = work, f"{tag}-{os.urandom(4).hex()}"
        self.open: dict[str, _File] = {}
        self.files: list[dict[str, Any]] = []

    def add(self, destination: str, batch: pa.RecordBatch) -> None:
        file = self.open.get(destination)
        if file is None:
            file = self.open[destination] = _File(batch.schema)
        file.add(batch)
        if file.size() > self.work.tuning.file_bytes:
            self._finish(destination)

    def close(self) -> list[dict[str, Any]]:
        """What was written: destination, name, rows and bytes of every file."""
        for destination in list(self.open):
            self._finish(destination)
        return self.files

    def _finish(self, destination: str) -> None:
        file = self.open.pop(destination)
        uri, folder = place(self.work.uri, self.work.sinks, destination)
        name = f"part-{self.work.batch:09d}-{self.work.attempt}-{self.tag}-{len(self.files)}.parquet"
        data = file.close()
        try:
            open_storage(uri).write(staged(folder, name), [data])
        except StateError as error:
            raise told(error, f"results of {destination}") from error
        self.files.append({"destination": destination, "name": name, "rows": file.rows, "bytes": data.size})


class _File:
    """A Parquet file in the making; small pieces are gathered into row groups."""

    def __init__(self, schema: pa.Schema) -> None:
        self.out = pa.BufferOutputStream()
        self.writer = pq.ParquetWriter(self.out, schema, compression="snappy", use_dictionary=False, write_statistics=False)
        self.rows = self.waiting = 0
        self.pieces: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self.pieces.append(batch)
        self.rows += batch.num_rows
        self.waiting += batch.num_rows
        if self.waiting >= 1 << 19:
            self._write()

    def size(self) -> int:
        return int(self.out.tell())

    def _write(self) -> None:
        if self.pieces:
            self.writer.write_table(pa.Table.from_batches(self.pieces))
        self.pieces, self.waiting = [], 0

    def close(self) -> pa.Buffer:
        self._write()
        self.writer.close()
        return self.out.getvalue()


def place(uri: str, sinks: Mapping[str, tuple[str, str]], destination: str) -> tuple[str, str]:
    """The storage and the folder that a destination's files belong to; late rows stay under the checkpoint."""
    return (uri, destination) if destination.startswith(LATE) else sinks[destination]


def staged(folder: str, name: str) -> str:
    return f"{folder}/{STAGING}/{name}" if folder else f"{STAGING}/{name}"


def published(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
