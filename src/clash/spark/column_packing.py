"""All streams on shared typed columns, so that one union feeds one ingest.

Invariant: column `stream` numbers the streams in the order that the checkpoint has recorded. Columns of one Spark type share packed
columns: the i-th column of a type of every stream is the same packed column. Every declared stream is a branch of the union, in that
order, read or not: Spark counts the sources when it restarts.
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


def assign_packed_columns(wanted: Mapping[str, Sequence[tuple[str, str]]]) -> PackedColumns:
    """A place for every (column, type) of every stream."""
    numbers: dict[str, int] = {}
    places = []
    for stream, columns in wanted.items():
        used: Counter[str] = Counter()
        found = []
        for column, kind in columns:
            number = numbers.setdefault(kind, len(numbers))
            found.append((column, f"c{number}_{used[kind]}"))
            used[kind] += 1
        places.append((stream, tuple(found)))
    return tuple(places)


def pack_streams(frames: Mapping[str, Any], places: PackedColumns, read: frozenset[str]) -> Any:
    """One streaming DataFrame of all streams; those not in `read` deliver no rows."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {packed: frames[stream].schema[column].dataType for stream, columns in places for column, packed in columns}
    branches = []
    for number, (stream, columns) in enumerate(places):
        at = {packed: column for column, packed in columns}
        frame = frames[stream] if stream in read else frames[stream].where(F.lit(False))
        chosen = [
            # without metadata: a watermark on a column is Spark's own business
            (F.col(quoted(at[packed])) if packed in at else F.lit(None).cast(kind)).alias(packed, metadata={})
            for packed, kind in types.items()
        ]
        branches.append(frame.select(F.lit(number).alias(STREAM), *chosen))
    return reduce(lambda one, other: one.union(other), branches)


def unpack_streams(batches: Iterable[pa.RecordBatch], places: PackedColumns) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of one stream lie together: slices, not copies."""
    for batch in batches:
        if not batch.num_rows:
            continue
        streams = batch.column(STREAM).to_numpy()
        borders = [0, *(np.flatnonzero(np.diff(streams)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(borders):
            stream, columns = places[int(streams[start])]
            rows = batch.slice(start, end - start).select([packed for _, packed in columns])
            yield stream, rows.rename_columns([column for column, _ in columns])


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
