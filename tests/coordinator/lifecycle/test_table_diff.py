"""The diff of two reads of a table, against counting rows one by one."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.coordinator.lifecycle.table_diff import diff_rows

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        ("number", pa.int64()), ("real", pa.float64()), ("text", pa.string()), ("nested", STRUCT),
        ("table", pa.map_(pa.string(), pa.int32())),
        ("span", pa.duration("us")), ("nothing", pa.null()),
    ]
)  # fmt: skip
ROW = st.fixed_dictionaries(
    {
        "number": st.sampled_from([None, 0, 1]),
        "real": st.sampled_from([None, 0.0, -0.0, math.nan]),
        "text": st.sampled_from([None, "", "x"]),
        "nested": st.sampled_from([None, {"x": None, "y": None}, {"x": 1, "y": ["a", None]}]),
        "table": st.sampled_from([None, [], [("k", 1)]]),
        "span": st.sampled_from([None, 5]),
        "nothing": st.none(),
    }
)
ROWS = st.lists(ROW, max_size=12)


def counted(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


@given(ROWS, ROWS, st.integers(0, 12))
def test_it_is_that_of_multisets(before: list[Any], after: list[Any], shared: int) -> None:
    old, new = (pa.Table.from_pylist(rows, SCHEMA) for rows in (before, [*after, *before[:shared]]))
    diff = diff_rows(old, new)
    removed, added = counted(old.take(pa.array(diff.removed))), counted(new.take(pa.array(diff.added)))
    assert removed == counted(old) - counted(new)
    assert added == counted(new) - counted(old)
    assert [*diff.removed] == sorted(diff.removed)


@pytest.mark.parametrize("before", [[], [1, 1, None]])
def test_nothing_differs(before: list[int | None]) -> None:
    table = pa.table({"a": pa.array(before, pa.int64())})
    chunked = pa.concat_tables([table.slice(1), table.slice(0, 1)])
    diff = diff_rows(table, chunked)
    assert not len(diff.removed)
    assert not len(diff.added)
