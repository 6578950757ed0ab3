"""The last results of a query, from the newest of its files: for people who watch, and cheap for the run that goes on beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from clash.errors import StateError
from clash.protocol.result_files import origin_of, published_path
from clash.state.storage import Storage


class LastResults(NamedTuple):
    rows: pa.Table
    """Oldest batch first."""
    batch: int
    """No later batch is in the rows: a caller that wants what comes next asks for batches after it."""
    has_more: bool
    """Whether there are further rows, which were left out."""


def last_of_folder(storage: Storage, folder: str, schema: pa.Schema, last: int, after: int, committed: int) -> LastResults:
    """`committed`: the last committed batch; files of later ones are not there, or are being published."""
    origins = {name: origin for name in storage.list(folder) if (origin := origin_of(name.rpartition("/")[2])) is not None}
    newest = sorted((name for name, origin in origins.items() if after < origin.batch <= committed), reverse=True)
    parts: list[pa.Table] = []
    missing = last
    for at, name in enumerate(newest):
        try:
            rows = pq.read_table(pa.BufferReader(storage.read(name if "/" in name else published_path(folder, name)))).cast(schema)
        except (FileNotFoundError, StateError):  # a reader of the folder's has deleted it
            continue
        parts.insert(0, rows.slice(max(0, rows.num_rows - missing)))
        missing -= rows.num_rows
        if missing <= 0:
            return LastResults(pa.concat_tables(parts), committed, missing < 0 or at + 1 < len(newest))
    return LastResults(pa.concat_tables([schema.empty_table(), *parts]), committed, False)


def last_of_tables(tables: Mapping[int, pa.Table], schema: pa.Schema, last: int, after: int, committed: int) -> LastResults:
    """The same of results in memory, by batch."""
    rows = pa.concat_tables([schema.empty_table(), *(tables[batch] for batch in sorted(tables) if after < batch <= committed)])
    return LastResults(rows.slice(max(0, rows.num_rows - last)), committed, rows.num_rows > last)
