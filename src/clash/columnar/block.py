"""A block: tuples in transit, as whole Arrow columns.

Invariant: the columns of a block have equal lengths and no chunks. `clash.model.block_columns` names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clash.model.block_columns import UNBOUNDED_WINDOW

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

_LAST_EVENT_TIME = (1 << 63) - 1
_TAKE, _UNCHECKED = pc.get_function("take"), pc.TakeOptions(boundscheck=False)


@dataclass(frozen=True, slots=True)
class Block:
    rows: int
    columns: Mapping[str, pa.Array]

    def ints(self, name: str) -> Ints:
        return ints(self.columns[name])

    def select(self, names: Iterable[str]) -> Block:
        return Block(self.rows, {name: self.columns[name] for name in names})

    def take(self, rows: Rows) -> Block:
        index = pa.array(rows)
        return Block(len(rows), {name: take(column, index) for name, column in self.columns.items()})

    def slice(self, start: int, rows: int) -> Block:
        return Block(rows, {name: column.slice(start, rows) for name, column in self.columns.items()})

    def to_batch(self, schema: pa.Schema) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([self.columns[name] for name in schema.names], schema=schema)

    @property
    def nbytes(self) -> int:
        return sum(_nbytes(column) for column in self.columns.values())


def from_batch(batch: pa.RecordBatch) -> Block:
    return Block(batch.num_rows, dict(zip(batch.schema.names, batch.columns, strict=True)))


def concat(blocks: Sequence[Block]) -> Block:
    """Blocks of the same columns as one."""
    if len(blocks) == 1:
        return blocks[0]
    columns = {name: pa.concat_arrays([b.columns[name] for b in blocks]) for name in blocks[0].columns}
    return Block(sum(b.rows for b in blocks), columns)


def ints(column: pa.Array) -> Ints:
    """A view of an int64 column without NULLs."""
    values: Any = np.frombuffer(column.buffers()[1], np.int64) if len(column) else np.empty(0, np.int64)
    return values[column.offset : column.offset + len(column)]  # type: ignore[no-any-return]


def _nbytes(column: pa.Array) -> int:
    if pa.types.is_primitive(column.type):  # computed in a tenth of the time; which values are NULL hardly counts
        return int(len(column) * column.type.bit_width // 8)
    return int(column.nbytes)


def take(column: pa.Array, rows: pa.Array) -> pa.Array:
    return _TAKE.call([column, rows], _UNCHECKED)  # pc.take makes both for each call, which takes longer than taking few rows


def rows_where(mask: Bools) -> Rows:
    """The numbers of the rows for which the mask is true."""
    return np.flatnonzero(mask).astype(np.int32)


def deadlines(event_times: Ints, window: int) -> Ints:
    """Event time plus window, but at most the last event time there is: beyond it the sum would wrap around, and nothing is later."""
    if window == UNBOUNDED_WINDOW:
        return np.full(len(event_times), _LAST_EVENT_TIME)
    ends: Ints = np.minimum(event_times, _LAST_EVENT_TIME - window)
    ends += window
    return ends


def as_time_column(event_times: pa.Array, kind: pa.DataType) -> pa.Array:
    """Microseconds as the time column that they were read from."""
    return event_times.view(kind)
