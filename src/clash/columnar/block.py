"""A block: tuples on their way, as whole Arrow columns.

Invariant: the columns of a block have equal lengths and no chunks. Attributes are called as they are shown (`R.a`, `R#2.a`); what
every tuple carries beside them has a name that no attribute can have. An arrival number leaves its lowest bits free for the
number of the relation in whose role a tuple takes part, so the pair (arrival, number) is one integer: larger means later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clash.model.relation import Attribute, Relation

Ints = npt.NDArray[np.int64]

ARRIVAL = "#arrival"  # of the last part to arrive, with its relation's number
EARLIEST = "#earliest"  # of the first part to arrive
TAU = "#tau"  # event time in microseconds
LATEST = "#latest"  # the largest event time of all parts
DEADLINE = "#deadline"  # the smallest τ + window of all parts
NUMBER_BITS = 5
MOST_NUMBERS = 1 << NUMBER_BITS
FOREVER = (1 << 64) - 1  # a window without end: no two event times lie further apart
_LAST = (1 << 63) - 1  # event time


def part_tau(relation: Relation) -> str:
    """The event time of one part of an intermediate row."""
    return f"#tau {relation}"


def stored_name(attribute: Attribute) -> str:
    """What an attribute is called in its stream's store, where tuples have no role yet."""
    return str(Attribute(Relation(attribute.relation.stream), attribute.column))


@dataclass(frozen=True, slots=True)
class Block:
    rows: int
    columns: Mapping[str, pa.Array]

    def ints(self, name: str) -> Ints:
        return ints(self.columns[name])

    def select(self, names: Iterable[str]) -> Block:
        return Block(self.rows, {name: self.columns[name] for name in names})

    def take(self, rows: npt.NDArray[np.int32]) -> Block:
        index = pa.array(rows)
        return Block(len(rows), {name: take(column, index) for name, column in self.columns.items()})

    def slice(self, start: int, rows: int) -> Block:
        return Block(rows, {name: column.slice(start, rows) for name, column in self.columns.items()})

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([self.columns[name] for name in schema.names], schema=schema)


def of_batch(batch: pa.RecordBatch) -> Block:
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


def take(column: pa.Array, rows: pa.Array) -> pa.Array:
    return pc.take(column, rows, boundscheck=False)


def deadlines(tau: Ints, window: int) -> Ints:
    """τ + window, but no later than the last event time there is: beyond it the sum would wrap around, and nothing is later anyway."""
    if window == FOREVER:
        return np.full(len(tau), _LAST)
    ends: Ints = np.minimum(tau, _LAST - window)
    ends += window
    return ends


def as_time(tau: pa.Array, kind: pa.DataType) -> pa.Array:
    """Microseconds as the time column that they were read from."""
    return tau.view(kind)
