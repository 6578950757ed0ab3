"""Result files: written by the task that completes the results, invisible until the coordinator has committed the batch.

Invariant: memory is bounded: a file that has grown large is closed, and the next one begun.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from clash.errors import StateError, with_context
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import ResultFile
from clash.protocol.result_files import file_location, file_name, staged_path
from clash.state.storage import open_storage

_ROW_GROUP = 1 << 19
_MAX_INTEGER_DIGITS = 18  # of a decimal that Parquet stores as an integer


class ResultWriter:
    """The result files of one task; `task` tells the tasks of an attempt apart."""

    def __init__(self, spec: BatchSpec, task: str) -> None:
        self.spec, self.task = spec, f"{task}-{os.urandom(4).hex()}"
        self.open: dict[str, _ParquetBuffer] = {}
        self.files: list[ResultFile] = []

    def add(self, destination: str, batch: pa.RecordBatch) -> None:
        """`destination`: a query, or `late/<stream>`."""
        file = self.open.get(destination)
        if file is None:
            file = self.open[destination] = _ParquetBuffer(batch.schema)
        file.add(batch)
        if file.size() > self.spec.tuning.file_bytes:
            self._finish(destination)

    def close(self) -> tuple[ResultFile, ...]:
        """Writes what is open; all files that were written."""
        for destination in list(self.open):
            self._finish(destination)
        return tuple(self.files)

    def _finish(self, destination: str) -> None:
        file = self.open.pop(destination)
        uri, folder = file_location(self.spec.uri, self.spec.sinks, destination)
        name = file_name(self.spec.batch, self.spec.checkpoint, self.spec.attempt, self.task, len(self.files))
        content = file.close()
        try:
            open_storage(uri).write(staged_path(folder, name), [content])
        except StateError as error:
            raise with_context(error, f"results of {destination}") from error
        self.files.append(ResultFile(destination, name, file.rows))


class _ParquetBuffer:
    """A Parquet file in memory; small record batches are joined into row groups."""

    def __init__(self, schema: pa.Schema) -> None:
        self.out = pa.BufferOutputStream()
        self.writer = pq.ParquetWriter(
            self.out,
            schema,
            compression=_compression(schema),
            use_dictionary=False,
            write_statistics=False,
            store_decimal_as_integer=True,
            column_encoding={field.name: "DELTA_BINARY_PACKED" for field in schema if _is_packed(field.type)},
        )
        self.rows = self.pending_rows = 0
        self.pending: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self.pending.append(batch)
        self.rows += batch.num_rows
        self.pending_rows += batch.num_rows
        if self.pending_rows >= _ROW_GROUP:
            self._write_group()

    def size(self) -> int:
        return int(self.out.tell())

    def _write_group(self) -> None:
        if self.pending:
            self.writer.write_table(pa.Table.from_batches(self.pending))
        self.pending, self.pending_rows = [], 0

    def close(self) -> pa.Buffer:
        self._write_group()
        self.writer.close()
        return self.out.getvalue()


def _is_packed(kind: pa.DataType) -> bool:
    """Whether Parquet has integers for the type. As packed differences they take half the time and half the bytes of compressed ones, and
    every reader of Parquet knows them: keys of results repeat, or lie in a small range."""
    if pt.is_decimal(kind):
        return bool(kind.precision <= _MAX_INTEGER_DIGITS)
    return bool(pt.is_integer(kind) or pt.is_date32(kind) or pt.is_timestamp(kind))


def _compression(schema: pa.Schema) -> str | dict[str, str]:
    """Packed integers are not compressed once more. The parts of nested columns have names of their own: with them all are compressed."""
    if any(pt.is_nested(field.type) for field in schema):
        return "snappy"
    return {field.name: "none" if _is_packed(field.type) else "snappy" for field in schema}
