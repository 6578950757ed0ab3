"""What differs between two reads of a table, as multisets of rows.

Invariant: rows are equal if all their values are, NULL with NULL, and floating-point numbers if their bits are. Of n equal rows before and
m after, n − m are removed, or m − n are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Positions = npt.NDArray[np.int64]
_POSITION = "position"


class TableDiff(NamedTuple):
    removed: Positions
    """The numbers of rows before that are not there after, in order."""
    added: Positions
    """The numbers of rows after that were not there before, in order."""


def diff_rows(before: pa.Table, after: pa.Table) -> TableDiff:
    """`before` and `after` have the same columns.

    >>> diff_rows(pa.table({"a": [1, 1, 2, None]}), pa.table({"a": [None, 1, 3]}))
    TableDiff(removed=array([1, 2]), added=array([2]))
    """
    whole = pa.concat_tables([before, after])
    keys = {str(at): key for at, key in enumerate(key for column in whole.columns for key in _keys(column))}
    rows = pa.table({**keys, _POSITION: pa.array(np.arange(whole.num_rows))})
    grouped = rows.group_by(list(keys), use_threads=False).aggregate([(_POSITION, "list")])
    lists = grouped[f"{_POSITION}_list"].combine_chunks()
    lengths = np.asarray(pc.list_value_length(lists))
    positions, groups = np.asarray(lists.flatten()), np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((positions, groups))  # in each group, rows before come first
    positions, groups = positions[order], groups[order]
    is_after = positions >= before.num_rows
    after_counts = np.bincount(groups[is_after], minlength=len(lengths))
    before_counts = lengths - after_counts
    ranks = np.arange(len(groups)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    removed = positions[~is_after & (ranks >= after_counts[groups])]
    added = positions[is_after & (ranks - before_counts[groups] >= before_counts[groups])] - before.num_rows
    return TableDiff(np.sort(removed), np.sort(added))


def _keys(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """Columns that Arrow can group by, which are equal where the values of this one are."""
    kind = column.type
    if pa.types.is_null(kind):
        return
    if pa.types.is_floating(kind) or pa.types.is_duration(kind):
        bits = pa.int32() if kind == pa.float32() else pa.int64()
        yield pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    elif pa.types.is_struct(kind):
        yield pc.is_null(column)
        for at in range(kind.num_fields):
            yield from _keys(pc.struct_field(column, [at]))
    elif pa.types.is_nested(kind):
        texts = [pa.array([repr(value) for value in chunk.to_pylist()], pa.string()) for chunk in column.chunks]
        yield pa.chunked_array(texts, pa.string())
    else:
        yield column
