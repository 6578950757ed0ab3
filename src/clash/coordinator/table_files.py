"""Versions of reference tables on disk: what a refresh writes, and what a version consists of.

Invariant: a refresh writes the rows that are new, and for every file of which rows are gone the numbers of all rows of it that are. Where
files have become many, or most of their rows are gone, all rows are written into new files instead, so a version has few files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clash.coordinator.lifecycle.table_diff import Positions, diff_rows
from clash.errors import OptionError, SourceError, StateError
from clash.expressions import arrow_type
from clash.model.stream import Stream
from clash.protocol.tables import FOLDER, REMOVED, TableFile, TableVersion
from clash.state.container import read_container, write_container
from clash.state.json_records import RESTORE
from clash.state.storage import Storage

Columns = tuple[tuple[str, str], ...]
MAX_ROWS = 100_000_000
MAX_FILES = 8  # of a version; with more, probes slow down


@dataclass(frozen=True)
class TableRead:
    """The rows of a table as they were read, with the declared types and the names that blocks have."""

    table: Stream
    rows: pa.Table
    distinct: Mapping[str, int]
    """As in `TableVersion`."""

    @staticmethod
    def of(table: Stream, rows: pa.Table) -> TableRead:
        """Checks what was read; SourceError where it does not fit the declaration."""
        if rows.num_rows > MAX_ROWS:
            hint = "select fewer rows, or declare it as a stream of files: engine.stream"
            raise SourceError("the table is too large", f"table {table.name} has {rows.num_rows:,} rows, more than {MAX_ROWS:,}", hint)
        columns = {}
        for name, kind in columns_of(table):
            if name not in rows.column_names:
                hint = "declare the table again with its present columns: stop, and start the program again"
                raise SourceError("a column of the table is missing", f"{table.name}.{name}", hint)
            try:
                columns[f"{table.name}.{name}"] = rows[name].cast(arrow_type(kind))
            except (pa.ArrowException, OptionError) as error:
                detail = f"{table.name}.{name} is {kind}: {error}"
                raise SourceError("the table has other columns than declared", detail, "start the program again, or cast it") from None
        return TableRead(table, pa.table(columns), {name: n for name, _ in columns_of(table) if (n := _distinct(rows[name])) is not None})

    @property
    def columns(self) -> Columns:
        return columns_of(self.table)


def columns_of(table: Stream) -> Columns:
    """The columns of a version: those of the table, and those that Spark computes for queries."""
    return *table.columns, *((name, kind) for name, kind, _ in table.computed)


def _distinct(column: pa.ChunkedArray) -> int | None:
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return None
    return int(pc.count_distinct(column, mode="only_valid").as_py())


def write_version(storage: Storage, read: TableRead, before: TableVersion | None, now: int) -> TableVersion:
    """The version after a read, written to disk as far as it differs from the one before; that one itself where nothing differs. If it
    fails, what it has written is deleted."""
    writer = _Writer(storage, read.table.name, 1 if before is None else before.number + 1)
    try:
        files = _whole(writer, read) if before is None or before.columns != read.columns else _changed(writer, read, before)
    except BaseException:
        with suppress(StateError):  # a start sweeps what is left
            storage.delete(writer.written)
        raise
    if before is not None and files == before.files and before.columns == read.columns:
        return before
    return TableVersion(writer.number, read.columns, files, now, read.distinct)


def _whole(writer: _Writer, read: TableRead) -> tuple[TableFile, ...]:
    """All rows as they were read, in one file unless Arrow cannot hold a column in one piece."""
    return tuple(writer.write(batch) for batch in read.rows.combine_chunks().to_batches() if batch.num_rows)


def _changed(writer: _Writer, read: TableRead, before: TableVersion) -> tuple[TableFile, ...]:
    stored = [read_file(writer.storage, file) for file in before.files]
    schema = read.rows.schema
    rows_before = [pa.Table.from_batches([s.batch], schema).filter(pa.array(s.live)) for s in stored]
    diff = diff_rows(pa.concat_tables([schema.empty_table(), *rows_before]), read.rows)
    if not len(diff.removed) and not len(diff.added):
        return before.files
    starts = np.cumsum([0, *(rows.num_rows for rows in rows_before)])
    gone = [diff.removed[(diff.removed >= start) & (diff.removed < end)] - start for start, end in pairwise(starts)]
    kept = [file.live_rows - len(removed) for file, removed in zip(before.files, gone, strict=True)]
    remaining = [file for file, rows in zip(before.files, kept, strict=True) if rows]
    if len(remaining) + bool(len(diff.added)) > MAX_FILES or 2 * sum(kept) < sum(file.rows for file in remaining):
        return _whole(writer, read)
    files = []
    for file, content, removed, rows in zip(before.files, stored, gone, kept, strict=True):
        if rows and len(removed):
            live = np.flatnonzero(content.live)
            files.append(writer.remove(file, np.sort(np.concatenate([np.flatnonzero(~content.live), live[removed]]))))
        elif rows:
            files.append(file)
    added = read.rows.take(pa.array(diff.added))
    return (*files, *(writer.write(batch) for batch in added.combine_chunks().to_batches() if batch.num_rows))


class _Writer:
    """Writes the files of one version. `written`: their paths, for when it fails."""

    def __init__(self, storage: Storage, table: str, number: int) -> None:
        self.storage, self.table, self.number = storage, table, number
        self.written: list[str] = []

    def write(self, batch: pa.RecordBatch) -> TableFile:
        path = self._path("rows")
        return TableFile(path, batch.num_rows, write_container(self.storage, path, batch, {}, self._description(batch.num_rows)))

    def remove(self, file: TableFile, rows: Positions) -> TableFile:
        """The file without these rows and those that were removed before."""
        path, batch = self._path("removed"), pa.record_batch({REMOVED: pa.array(rows.astype(np.int32))})
        size = write_container(self.storage, path, batch, {}, self._description(len(rows)))
        return replace(file, removed_path=path, removed_rows=len(rows), removed_bytes=size)

    def _path(self, what: str) -> str:
        path = f"{FOLDER}/{self.table}/v{self.number:09d}-{what}-{os.urandom(4).hex()}.clash"
        self.written.append(path)
        return path

    def _description(self, rows: int) -> dict[str, Any]:
        return {"table": self.table, "version": self.number, "rows": rows}


@dataclass(frozen=True)
class StoredRows:
    """A file of a version."""

    batch: pa.RecordBatch
    live: npt.NDArray[np.bool_]
    """Which of its rows the version has."""


def read_file(storage: Storage, file: TableFile, verify: bool = False) -> StoredRows:
    """StateError if it is not what the version says. With `verify` its content is compared with its checksums."""
    container = read_container(storage, file.path, verify)
    live = np.ones(container.batch.num_rows, np.bool_)
    is_same = (container.batch.num_rows, container.bytes) == (file.rows, file.bytes)
    if file.removed_path is not None:
        removed = read_container(storage, file.removed_path, verify)
        is_same = is_same and (removed.batch.num_rows, removed.bytes) == (file.removed_rows, file.removed_bytes)
        rows = np.asarray(removed.batch.column(0)) if removed.batch.num_rows else np.empty(0, np.int32)
        is_same = is_same and (not len(rows) or (int(rows.min()) >= 0 and int(rows.max()) < len(live)))
        if is_same:
            live[rows] = False
    if not is_same:
        detail = f"{storage.label(file.path)}: it is not what the version of the table says of it"
        raise StateError("a file of a table is not the one that was committed", detail, RESTORE)
    return StoredRows(container.batch, live)


def verify_versions(storage: Storage, versions: Iterable[TableVersion]) -> None:
    """StateError if a file of a version is missing or damaged."""
    seen: set[tuple[str, str | None]] = set()
    for version in versions:
        for file in version.files:
            if (file.path, file.removed_path) not in seen:
                seen.add((file.path, file.removed_path))
                read_file(storage, file, verify=True)


def read_rows(storage: Storage, files: Sequence[TableFile]) -> pa.Table | None:
    """The rows of a version; None if it has no files."""
    stored = [read_file(storage, file) for file in files]
    return pa.concat_tables([pa.Table.from_batches([s.batch]).filter(pa.array(s.live)) for s in stored]) if stored else None
