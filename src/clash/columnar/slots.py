"""The slot of a hash-partitioned store to which a key value belongs.

Invariant: values that Spark's `=` calls equal have the same slot whatever their types, because a store and its probes may have the key
in different types. So every number is hashed as a double, every date or time as the instant that it is in the session's time zone.

Invariant: the function never changes, because rows are stored by slot in the checkpoint.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clash.columnar.arrow_views import validity
from clash.columnar.hashing import hash_keys, hash_slots
from clash.columnar.key_words import column_words
from clash.columnar.numba_kernel import kernel, kernel_view

Int32s = NDArray[np.int32]


@kernel
def _split(slots: Any, starts: Any) -> Any:
    """A counting sort. The second pass goes backwards: then `starts` ends as the start of each slot, and the rows of a slot ascend."""
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
    """The slot, below `count`, of every value; NULL has slot 0."""
    if count == 1:
        return np.zeros(len(column), np.int32)
    return hash_slots(column_words(column, _comparison_type(column.type), timezone), validity(column), count)


def key_hashes(column: pa.Array, timezone: str) -> tuple[NDArray[np.uint32], NDArray[np.bool_] | None]:
    """The hash of every value that decides its slot, whatever the number of slots; and which values are not NULL, None for all."""
    return hash_keys(column_words(column, _comparison_type(column.type), timezone)), validity(column)


def hot_rows(column: pa.Array, hot: tuple[int, ...], timezone: str) -> NDArray[np.bool_]:
    """The rows whose value has one of these hashes; NULL has none."""
    hashes, valid = key_hashes(column, timezone)
    found: NDArray[np.bool_] = np.isin(hashes, np.array(hot, np.uint32))
    return found if valid is None else found & valid


def split(slots: Int32s, count: int) -> tuple[Int32s, NDArray[np.int64]]:
    """Rows grouped by slot: (order, starts), where the rows of slot s are `order[starts[s]:starts[s + 1]]`, ascending."""
    starts = np.zeros(count + 1, np.int64)
    order: Int32s = _split(kernel_view(slots, np.int32), starts)
    return order, starts


def _comparison_type(kind: pa.DataType) -> str:
    """The widest type to which Spark may cast the column before a comparison."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "double"
    if pa.types.is_temporal(kind):
        return "timestamp"
    return "boolean" if pa.types.is_boolean(kind) else "string"
