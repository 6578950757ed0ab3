"""Reads Parquet files in tasks, without Spark's scan.

Invariant: a file is read here only if its schema guarantees that every value is the one that Spark's scan would give. Where that is not
certain, `readable_files` returns None and Spark reads the whole batch. As with Spark, rows of different files and tasks are in no
particular order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from clash.errors import SourceError
from clash.expressions import holds
from clash.expressions.arrow_types import arrow_type
from clash.hints import listed
from clash.model.expressions import Col, Expr
from clash.model.expressions import columns as columns_of

ROWS = 1 << 16  # per record batch that is decoded
_PLAIN = frozenset(arrow_type(name) for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date"))
_STRINGS = frozenset({pa.string(), pa.large_string(), pa.string_view()})
_BINARIES = frozenset({pa.binary(), pa.large_binary(), pa.binary_view()})
# keys of a file's metadata
_VERSION, _LEGACY = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"


@dataclass(frozen=True)
class FileColumn:
    """A column of a stream, as it is read from files."""

    name: str
    """Its name in the stream."""
    stored: str
    """Its name in the files."""
    kind: str
    """Its type, as Spark's `simpleString`."""


@dataclass(frozen=True)
class FileRead:
    """What a stream takes of the rows of its files."""

    columns: tuple[FileColumn, ...]
    filters: tuple[Expr, ...] = ()
    """Conditions on columns of the files; the stream has the rows that satisfy all of them."""

    @property
    def read_columns(self) -> list[FileColumn]:
        """Of the stream, and of its filters."""
        filtered = {col.column: FileColumn(col.column, col.column, col.type) for each in self.filters for col in columns_of(each)}
        return [*self.columns, *filtered.values()]


@dataclass(frozen=True)
class FileSlice:
    """Consecutive rows of one file."""

    streams: tuple[str, ...]
    """That take rows of it: several where they are filtered out of one source. The file is read once for all of them."""
    path: str
    groups: tuple[int, ...]
    """The row groups that hold them."""
    skip: int
    """Rows of these groups that come before the first of the slice."""
    rows: int
    """Rows of the slice."""


FileReads = Mapping[str, FileRead]  # by stream
FileSlices = tuple[FileSlice, ...]  # of one task
_FileRows = tuple[tuple[str, ...], str, list[int]]  # streams, path, and rows per row group


@dataclass(frozen=True)
class ReadableFiles:
    """Files that tasks can read."""

    files: tuple[_FileRows, ...]

    @property
    def rows(self) -> int:
        return sum(sum(groups) for _, _, groups in self.files)

    def slices(self, parts: int) -> list[FileSlices]:
        """Divides the rows of all files evenly among `parts` tasks."""
        total = self.rows
        return [tuple(_slices_between(self.files, total * part // parts, total * (part + 1) // parts)) for part in range(parts)]


def readable_files(files: Mapping[str, Sequence[str]], reads: FileReads, plain_calendar: bool) -> ReadableFiles | None:
    """The files by stream, if tasks can read all of them; None if Spark has to.

    `plain_calendar`: dates and times of a file whose metadata does not say which calendar they are of are taken as they are.
    """
    streams: dict[str, list[str]] = {}  # by path
    for stream, paths in files.items():
        for path in paths:
            streams.setdefault(path, []).append(stream)
    file_rows: list[_FileRows] = []
    for path, takers in streams.items():
        groups = _row_groups(path, [reads[stream].read_columns for stream in takers], plain_calendar)
        if groups is None:
            return None
        file_rows.append((tuple(takers), path, groups))
    return ReadableFiles(tuple(file_rows))


def _slices_between(file_rows: Iterable[_FileRows], low: int, high: int) -> Iterator[FileSlice]:
    """The rows from `low` up to, but without, `high`, counted through all files in order."""
    next_start = 0
    for streams, path, groups in file_rows:
        starts = list(accumulate(groups, initial=next_start))
        next_start = starts[-1]
        touched = [group for group, rows in enumerate(groups) if rows and starts[group] < high and starts[group + 1] > low]
        if touched:
            first, end = max(low, starts[touched[0]]), min(high, starts[touched[-1] + 1])
            yield FileSlice(streams, path, tuple(touched), first - starts[touched[0]], end - first)


def read_slices(slices: Iterable[FileSlice], reads: FileReads, batch: int) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows by stream, with the names and types of its columns. `batch` is named in the error of a file that cannot be read."""
    for piece in slices:
        try:
            for rows in _read_slice(piece, reads):
                for stream in piece.streams:
                    yield stream, _stream_rows(rows, reads[stream])
        except (OSError, pa.ArrowException) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise SourceError(
                f"stream {listed(piece.streams)} cannot be read",
                f"batch {batch}, file file://{piece.path}, {lines[0]}",
                "repair or remove what is named here; a new start repeats the batch",
            ) from error


def _read_slice(piece: FileSlice, reads: FileReads) -> Iterator[pa.RecordBatch]:
    """All columns that the streams need."""
    skip, remaining = piece.skip, piece.rows
    wanted = {column.stored for stream in piece.streams for column in reads[stream].read_columns}
    with pq.ParquetFile(piece.path, pre_buffer=False) as file:
        stored = [name for name in file.schema_arrow.names if name in wanted]
        for batch in file.iter_batches(ROWS, row_groups=list(piece.groups), columns=stored, use_threads=False):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            rows = batch.slice(skip, remaining)
            skip, remaining = 0, remaining - rows.num_rows
            yield rows
            if remaining == 0:
                return
    raise pa.ArrowInvalid(f"it has {remaining} rows less than it had when the batch began")


def _stream_rows(rows: pa.RecordBatch, read: FileRead) -> pa.RecordBatch:
    """The rows and columns that a stream takes."""

    def column(col: Col) -> pa.Array:
        return _column_values(rows, FileColumn(col.column, col.column, col.type))

    satisfied = holds(read.filters, column, rows.num_rows, "UTC")  # no filter depends on the time zone
    if satisfied is not None and not satisfied.all():
        rows = rows.select([column.stored for column in read.columns if column.stored in rows.schema.names])
        rows = rows.take(pa.array(np.flatnonzero(satisfied)))
    return pa.RecordBatch.from_arrays([_column_values(rows, column) for column in read.columns], [column.name for column in read.columns])


def _column_values(rows: pa.RecordBatch, column: FileColumn) -> pa.Array:
    """A column that a file lacks is NULL, as in Spark's scan."""
    kind = arrow_type(column.kind)
    if column.stored not in rows.schema.names:
        return pa.nulls(rows.num_rows, kind)
    values = rows.column(column.stored)
    return values if values.type == kind else values.cast(kind)


# ---- whether the values are those of Spark's scan ------------------------------------------------------------------


def _row_groups(path: str, reads: Iterable[Sequence[FileColumn]], plain_calendar: bool) -> list[int] | None:
    """Rows per row group; None if Spark has to read the file. Spark also gets a file that cannot be opened, and reports what is wrong.
    `reads`: the columns of each stream."""
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            metadata, schema = file.metadata, file.schema_arrow
            leaves = file.schema
    except (OSError, pa.ArrowException):
        return None
    if not all(_reads_like_spark(metadata, schema, leaves, columns, plain_calendar) for columns in reads):
        return None
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def _reads_like_spark(
    metadata: pq.FileMetaData, schema: pa.Schema, leaves: pq.ParquetSchema, columns: Sequence[FileColumn], plain_calendar: bool
) -> bool:
    lower_names = [name.lower() for name in schema.names]
    present = 0  # of the columns
    for column in columns:
        if column.stored not in schema.names:
            if column.stored.lower() in lower_names:
                return False  # whether Spark reads that column depends on its settings
            continue
        present += 1
        kind = arrow_type(column.kind)
        if (
            lower_names.count(column.stored.lower()) > 1
            or "." in column.stored
            or not _casts_like_spark(schema.field(column.stored).type, kind)
        ):
            return False
        if pt.is_nested(kind) and not _has_standard_levels(leaves, column.stored, kind):
            return False
        if _has_calendar(kind) and not _is_plain_calendar(metadata.metadata or {}, plain_calendar):
            return False
    return present > 0


def _casts_like_spark(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a plain cast of what pyarrow reads gives the values that Spark gives. INT96 and unsigned numbers, for instance, do not:
    pyarrow reads them as other types."""
    if pt.is_timestamp(kind):
        return bool(pt.is_timestamp(stored) and stored.unit in ("ms", "us") and (stored.tz is None) == (kind.tz is None))
    if pt.is_string(kind):
        value_type = stored.value_type if pt.is_dictionary(stored) else stored
        return value_type in _STRINGS
    if pt.is_binary(kind):
        return stored in _BINARIES
    if pt.is_list(kind):
        return pt.is_list(stored) and _casts_like_spark(stored.value_type, kind.value_type)
    if pt.is_map(kind):
        return (
            pt.is_map(stored) and _casts_like_spark(stored.key_type, kind.key_type) and _casts_like_spark(stored.item_type, kind.item_type)
        )
    if pt.is_struct(kind):
        return (
            pt.is_struct(stored)
            and [f.name for f in stored] == [f.name for f in kind]
            and all(_casts_like_spark(s.type, k.type) for s, k in zip(stored, kind, strict=True))
        )
    return stored == kind and (kind in _PLAIN or pt.is_decimal(kind))


def _has_standard_levels(leaves: pq.ParquetSchema, name: str, kind: pa.DataType) -> bool:
    """Whether lists and maps of a column are written in the standard's three levels, which every reader takes the same way."""
    paths = [leaves.column(leaf).path for leaf in range(len(leaves))]
    column_paths = [path.replace(".list.item", ".list.element") for path in paths if path.partition(".")[0] == name]
    return column_paths == list(_leaf_paths(name, kind))


def _leaf_paths(path: str, kind: pa.DataType) -> Iterator[str]:
    if pt.is_list(kind):
        yield from _leaf_paths(f"{path}.list.element", kind.value_type)
    elif pt.is_map(kind):
        yield from _leaf_paths(f"{path}.key_value.key", kind.key_type)
        yield from _leaf_paths(f"{path}.key_value.value", kind.item_type)
    elif pt.is_struct(kind):
        for field in kind:
            yield from _leaf_paths(f"{path}.{field.name}", field.type)
    else:
        yield path


def _has_calendar(kind: pa.DataType) -> bool:
    """Whether values of a type are, or contain, dates or timestamps."""
    if pt.is_nested(kind):
        return any(_has_calendar(kind.field(field).type) for field in range(kind.num_fields))
    return bool(pt.is_date(kind) or pt.is_timestamp(kind))


def _is_plain_calendar(metadata: Mapping[bytes, bytes], default: bool) -> bool:
    """Spark before 3.0 wrote days of the Julian calendar, and later versions can be configured to. `default`: for files not from Spark."""
    version = metadata.get(_VERSION)
    return default if version is None else version >= b"3.0.0" and _LEGACY not in metadata
