"""Packs all streams into one DataFrame of shared, typed columns, so that one union feeds one ingest.

Invariant: the column `stream` numbers the streams in the order that the checkpoint has recorded. Columns of one Spark type share packed
columns: the i-th column of a type is the same packed column in every stream. Every stream is a branch of the union, in that order,
whether or not its rows are read: Spark knows its sources by their number when it restarts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

STREAM = "stream"
PackedColumns = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # per stream: its name, and (column, packed column)


def assign_packed_columns(columns: Mapping[str, Sequence[tuple[str, str]]]) -> PackedColumns:
    """Assigns a packed column to every (column, Spark type) of every stream.

    >>> assign_packed_columns({"R": [("a", "bigint"), ("b", "string")], "S": [("b", "string")]})
    (('R', (('a', 'c0_0'), ('b', 'c1_0'))), ('S', (('b', 'c1_0'),)))
    """
    numbers: dict[str, int] = {}  # by type
    packed = []
    for stream, stream_columns in columns.items():
        used: Counter[str] = Counter()  # by type, packed columns of this stream
        pairs = []
        for column, kind in stream_columns:
            number = numbers.setdefault(kind, len(numbers))
            pairs.append((column, f"c{number}_{used[kind]}"))
            used[kind] += 1
        packed.append((stream, tuple(pairs)))
    return tuple(packed)


def pack_streams(frames: Mapping[str, Any], packed_columns: PackedColumns, read: frozenset[str]) -> Any:
    """The union of all streams; those that are not in `read` are branches without rows."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {packed: frames[stream].schema[column].dataType for stream, columns in packed_columns for column, packed in columns}
    branches = []
    for number, (stream, columns) in enumerate(packed_columns):
        sources = {packed: column for column, packed in columns}
        frame = frames[stream] if stream in read else frames[stream].where(F.lit(False))
        values = [
            # without metadata: a watermark of Spark's on a column has no effect here
            (F.col(quoted(sources[packed])) if packed in sources else F.lit(None).cast(kind)).alias(packed, metadata={})
            for packed, kind in types.items()
        ]
        branches.append(frame.select(F.lit(number).alias(STREAM), *values))
    return reduce(lambda left, right: left.union(right), branches)


def union_without_rows(frames: Mapping[str, Any], streams: Iterable[str]) -> Any:
    """The union of all streams where Spark is to read none of them: branches without columns, which Spark plans in less time."""
    from pyspark.sql import functions as F  # noqa: N812

    branches = [frames[stream].where(F.lit(False)).select(F.lit(number).alias(STREAM)) for number, stream in enumerate(streams)]
    return reduce(lambda left, right: left.union(right), branches)


def unpack_streams(batches: Iterable[pa.RecordBatch], packed_columns: PackedColumns) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows by stream, under the names of its columns. Consecutive rows of one stream are a slice of the packed batch, not a copy."""
    for batch in batches:
        if not batch.num_rows:
            continue
        streams = batch.column(STREAM).to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(streams)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(bounds):
            stream, columns = packed_columns[int(streams[start])]
            rows = batch.slice(start, end - start).select([packed for _, packed in columns])
            yield stream, rows.rename_columns([column for column, _ in columns])


def quoted(name: str) -> str:
    """A column name as Spark reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
