"""Parquet files that tasks read themselves, without Spark's scan.

Invariant: a file is read here only if its schema says that every value comes out as Spark's scan would give it; where that is not
certain `cut` gives None, and the whole batch is Spark's. Rows are in no particular order between files and tasks, as with Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from clash.errors import SourceError
from clash.expressions.arrow_types import arrow_type

ROWS = 1 << 16  # decoded at a time
_PLAIN = frozenset(arrow_type(name) for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date"))
_STRINGS = frozenset({pa.string(), pa.large_string(), pa.string_view()})
_BINARIES = frozenset({pa.binary(), pa.large_binary(), pa.binary_view()})
_VERSION, _LEGACY = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"


@dataclass(frozen=True)
class FileColumn:
    """A column of a stream: its name there, its name in the files, and its type as a `simpleString`."""

    name: str
    stored: str
    kind: str


@dataclass(frozen=True)
class FileSlice:
    """`rows` rows of one stream in some row groups of a file, after the first `skip` of them."""

    stream: str
    path: str
    groups: tuple[int, ...]
    skip: int
    rows: int


Columns = Mapping[str, Sequence[FileColumn]]
FileSlices = tuple[FileSlice, ...]


def slice_files(files: Mapping[str, Sequence[str]], columns: Columns, parts: int, plain_calendar: bool) -> list[FileSlices] | None:
    """What each of `parts` tasks reads, as many rows each; None if Spark has to read.

    `plain_calendar`: dates and times in a file that does not say which calendar they are of are not to be changed.
    """
    found: list[tuple[str, str, list[int]]] = []
    for stream, paths in files.items():
        for path in paths:
            groups = _groups(path, columns[stream], plain_calendar)
            if groups is None:
                return None
            found.append((stream, path, groups))
    total = sum(sum(groups) for _, _, groups in found)
    return [tuple(_between(found, total * part // parts, total * (part + 1) // parts)) for part in range(parts)]


def _between(found: Iterable[tuple[str, str, list[int]]], low: int, high: int) -> Iterator[FileSlice]:
    """Rows `low` to `high` of all files behind one another."""
    first = 0
    for stream, path, groups in found:
        starts = list(accumulate(groups, initial=first))
        first = starts[-1]
        touched = [at for at, rows in enumerate(groups) if rows and starts[at] < high and starts[at + 1] > low]
        if touched:
            begin, end = max(low, starts[touched[0]]), min(high, starts[touched[-1] + 1])
            yield FileSlice(stream, path, tuple(touched), begin - starts[touched[0]], end - begin)


def read_slices(pieces: Iterable[FileSlice], columns: Columns, batch: int) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Record batches with the stream's names and types."""
    for piece in pieces:
        try:
            yield from _read(piece, columns[piece.stream])
        except (OSError, pa.ArrowException) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise SourceError(
                f"stream {piece.stream} cannot be read",
                f"batch {batch}, file file://{piece.path}, {said[0]}",
                "repair or remove what is named here; a new start repeats the batch",
            ) from error


def _read(piece: FileSlice, columns: Sequence[FileColumn]) -> Iterator[tuple[str, pa.RecordBatch]]:
    skip, left = piece.skip, piece.rows
    names = [column.name for column in columns]
    with pq.ParquetFile(piece.path, pre_buffer=False) as file:
        there = set(file.schema_arrow.names)
        stored = [column.stored for column in columns if column.stored in there]
        for batch in file.iter_batches(ROWS, row_groups=list(piece.groups), columns=stored, use_threads=False):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            rows = batch.slice(skip, left)
            skip, left = 0, left - rows.num_rows
            yield piece.stream, pa.RecordBatch.from_arrays([_column(rows, column) for column in columns], names)
            if left == 0:
                return
    raise pa.ArrowInvalid(f"it has {left} rows less than it had when the batch began")


def _column(rows: pa.RecordBatch, column: FileColumn) -> pa.Array:
    kind = arrow_type(column.kind)
    if column.stored not in rows.schema.names:
        return pa.nulls(rows.num_rows, kind)
    values = rows.column(column.stored)
    return values if values.type == kind else values.cast(kind)


# ---- is it what Spark would read? ----------------------------------------------------------------------------------


def _groups(path: str, columns: Sequence[FileColumn], plain_calendar: bool) -> list[int] | None:
    """Rows per row group, if the file may be read here. A file that cannot be opened is Spark's: it says what is wrong."""
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            metadata, schema = file.metadata, file.schema_arrow
            leaves = file.schema
    except (OSError, pa.ArrowException):
        return None
    low = [name.lower() for name in schema.names]
    known = 0
    for column in columns:
        if column.stored not in schema.names:
            if column.stored.lower() in low:
                return None  # Spark may or may not mean it
            continue
        known += 1
        kind = arrow_type(column.kind)
        if low.count(column.stored.lower()) > 1 or "." in column.stored or not same(schema.field(column.stored).type, kind):
            return None
        if pt.is_nested(kind) and not _standard(leaves, column.stored, kind):
            return None
        if _has_calendar(kind) and not _is_plain_calendar(metadata.metadata or {}, plain_calendar):
            return None
    return [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] if known else None


def same(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Does a plain cast from what pyarrow reads give what Spark gives? INT96 and unsigned numbers, for instance, have other types."""
    if pt.is_timestamp(kind):
        return bool(pt.is_timestamp(stored) and stored.unit in ("ms", "us") and (stored.tz is None) == (kind.tz is None))
    if pt.is_string(kind):
        inner = stored.value_type if pt.is_dictionary(stored) else stored
        return inner in _STRINGS
    if pt.is_binary(kind):
        return stored in _BINARIES
    if pt.is_list(kind):
        return pt.is_list(stored) and same(stored.value_type, kind.value_type)
    if pt.is_map(kind):
        return pt.is_map(stored) and same(stored.key_type, kind.key_type) and same(stored.item_type, kind.item_type)
    if pt.is_struct(kind):
        return (
            pt.is_struct(stored)
            and [f.name for f in stored] == [f.name for f in kind]
            and all(same(s.type, k.type) for s, k in zip(stored, kind, strict=True))
        )
    return stored == kind and (kind in _PLAIN or pt.is_decimal(kind))


def _standard(leaves: pq.ParquetSchema, name: str, kind: pa.DataType) -> bool:
    """Are lists and maps written in the three levels that leave nothing to interpret?"""
    paths = [leaves.column(at).path for at in range(len(leaves))]
    own = [path.replace(".list.item", ".list.element") for path in paths if path.partition(".")[0] == name]
    return own == list(_paths(name, kind))


def _paths(path: str, kind: pa.DataType) -> Iterator[str]:
    if pt.is_list(kind):
        yield from _paths(f"{path}.list.element", kind.value_type)
    elif pt.is_map(kind):
        yield from _paths(f"{path}.key_value.key", kind.key_type)
        yield from _paths(f"{path}.key_value.value", kind.item_type)
    elif pt.is_struct(kind):
        for field in kind:
            yield from _paths(f"{path}.{field.name}", field.type)
    else:
        yield path


def _has_calendar(kind: pa.DataType) -> bool:
    if pt.is_nested(kind):
        return any(_has_calendar(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pt.is_date(kind) or pt.is_timestamp(kind))


def _is_plain_calendar(metadata: Mapping[bytes, bytes], otherwise: bool) -> bool:
    """Spark before 3.0 wrote days of the Julian calendar, and later versions may be configured to."""
    version = metadata.get(_VERSION)
    return otherwise if version is None else version >= b"3.0.0" and _LEGACY not in metadata
