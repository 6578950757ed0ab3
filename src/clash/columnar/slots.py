"""In which slot of a partitioned store a key value lives.

A store and its probes may hold the key in different types, so values that Spark's `=` calls equal share a slot whatever their types:
every number goes by the double it is, every date or time by the instant it is in the session's time zone. The slots are
kept in the checkpoint: the function must not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clash.columnar.hashing import place
from clash.columnar.numba_kernel import kernel, plain
from clash.columnar.arrow_views import validity
from clash.columnar.key_words import column_words

Int32s = NDArray[np.int32]


@kernel
def _split(slots: Any, starts: Any) -> Any:
    """A counting sort; going backwards leaves `starts` at the beginnings and each slot in ascending order."""
    order = np.empty(slots.size, np.int32)
    for i in range(slots.size):
        starts[slots[i]] += 1
    total = 0
    for s in range(starts.size):
        total += starts[s]
        starts[s] = total
    for i in range(slots.size - 1, -1, -1):
        s = slots[i]
        starts[s] -= 1
        order[starts[s]] = i
    return order


def slots(column: pa.Array, count: int, timezone: str) -> Int32s:
    """The slot, below `count`, of every value; NULL is in slot 0."""
    if count == 1:
        return np.zeros(len(column), np.int32)
    return place(column_words(column, _compared_as(column.type), timezone), validity(column), count)


def split(slots: Int32s, count: int) -> tuple[Int32s, NDArray[np.int64]]:
    """Rows by slot: those of slot s are `order[starts[s]:starts[s + 1]]`, ascending."""
    starts = np.zeros(count + 1, np.int64)
    order: Int32s = _split(plain(slots, np.int32), starts)
    return order, starts


def _compared_as(kind: pa.DataType) -> str:
    """The widest type that Spark could bring the column to before it compares."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "double"
    if pa.types.is_temporal(kind):
        return "timestamp"
    return "boolean" if pa.types.is_boolean(kind) else "string"
