"""What a source delivers to an ingest task: the rows of a stream, and what it has instead of rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Rejected:
    """Records of a stream that are no tuples of it."""

    stream: str
    records: pa.RecordBatch
    """Where each is, what it is, and why it is rejected; its schema is the source's."""


@dataclass(frozen=True)
class Lost:
    """Records of a stream that the source does not have any more."""

    stream: str
    count: int


Rows = tuple[str, pa.RecordBatch]  # of a stream
Arrival = Rows | Rejected | Lost
