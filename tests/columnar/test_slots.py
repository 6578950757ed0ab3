"""Slots are stored in checkpoints: they are pinned here, and they must spread evenly."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.columnar.slots import slots, split

PINNED: dict[str, tuple[Any, pa.DataType, list[int]]] = {
    "integers": ([0, 1, -1, 10**12], pa.int64(), [611, 115, 331, 209]),
    "doubles": ([0.0, 1.0, -1.0, 1e12], pa.float64(), [611, 115, 331, 209]),
    "decimals": ([Decimal("0.00"), Decimal("1.00"), Decimal("-1.00"), Decimal("1e12")], pa.decimal128(38, 2), [611, 115, 331, 209]),
    "strings": (["", "a", "streams", "many continuous multi-way joins"], pa.string(), [475, 581, 236, 604]),
    "binaries": ([b"", b"a", b"streams", b"many continuous multi-way joins"], pa.binary(), [475, 581, 236, 604]),
    "booleans": ([False, True], pa.bool_(), [611, 898]),
    "dates": ([dt.date(1970, 1, 1), dt.date(2024, 2, 29)], pa.date32(), [611, 29]),
    "times": ([dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29)], pa.timestamp("us"), [611, 29]),
    "instants": ([dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29)], pa.timestamp("us", tz="UTC"), [611, 29]),
}


@pytest.mark.parametrize("name", PINNED)
def test_slots_never_change(name: str) -> None:
    values, kind, expected = PINNED[name]
    assert slots(pa.array(values, kind), 1000, "UTC").tolist() == expected


@pytest.mark.parametrize("count", [2, 3, 8, 100])
def test_slots_spread(count: int) -> None:
    rows = 200_000
    numbers = np.arange(rows)
    for column in (pa.array(numbers), pa.array(numbers * 1000.0), pa.array(numbers * 86_400_000_000, pa.timestamp("us", tz="UTC"))):
        sizes = np.bincount(slots(column, count, "UTC"), minlength=count)
        assert abs(sizes * count / rows - 1).max() < 0.12
    texts = pa.array(numbers).cast(pa.string())
    assert abs(np.bincount(slots(texts, count, "UTC"), minlength=count) * count / rows - 1).max() < 0.12


def test_one_slot() -> None:
    assert slots(pa.array(["a", None]), 1, "UTC").tolist() == [0, 0]


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1)))))
def test_split_is_a_stable_sort(case: tuple[int, list[int]]) -> None:
    count, slot_of_row = case
    order, starts = split(np.array(slot_of_row, np.int32), count)
    assert order.dtype == np.int32
    assert starts.dtype == np.int64
    assert starts.size == count + 1
    for s in range(count):
        assert order[starts[s] : starts[s + 1]].tolist() == [i for i, slot in enumerate(slot_of_row) if slot == s]
