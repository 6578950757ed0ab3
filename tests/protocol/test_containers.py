"""What is known of stored rows without reading them: which still count, which containers have all rows once, where they can be split."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.model.layout import ALL, ONE, Layout
from clash.protocol.containers import (
    ContainerRecord,
    LayoutVersion,
    RelayoutRange,
    after_relayout,
    first_copies,
    oldest_arrivals,
    split_points,
)

RECORD = ContainerRecord("p", "s", copy=0, generation=1, slot=0, rows=10, bytes=1, first_arrival=10, last_arrival=19, time_ranges=((0, 0),))
BY_A = Layout("hash", "a")


def test_rows_count_from_the_latest_move_on() -> None:
    assert RECORD.oldest == 10
    assert RECORD.counting_from(13).oldest == 13
    assert RECORD.counting_from(13).counting_from(12) == RECORD.counting_from(13)
    assert RECORD.counting_from(5).oldest == 10


@pytest.mark.parametrize(
    ("ranges", "counts_from"),
    [
        ([], 0),
        ([("s", 1, 15)], 15),
        ([("s", 1, 15), ("s", 1, 12)], 15),
        ([("s", 2, 15)], 0),  # of another layout
        ([("t", 1, 15)], 0),  # of another store
        ([("s", 1, 19)], 19),
    ],
)
def test_what_remains_of_a_container_when_rows_have_moved(ranges: list[tuple[str, int, int]], counts_from: int) -> None:
    assert after_relayout(RECORD, [RelayoutRange(*moved) for moved in ranges]) == replace(RECORD, counts_from=counts_from)


def test_nothing_remains_when_all_rows_have_moved() -> None:
    assert after_relayout(RECORD, [RelayoutRange("s", 1, 20)]) is None


def test_first_copies_have_every_row_once() -> None:
    layouts = {
        "s": [LayoutVersion(1, (BY_A, ALL), 2), LayoutVersion(2, (ALL, BY_A), 2)],
        "t": [LayoutVersion(1, (ONE,), 2)],
    }
    records = [
        replace(RECORD, path=f"{store}{generation}{copy}{slot}", store=store, generation=generation, copy=copy, slot=slot)
        for store, versions in layouts.items()
        for generation, kinds, slots in versions
        for copy, kind in enumerate(kinds)
        for slot in range(1 if kind == ONE else slots)
    ]
    assert [record.path for record in first_copies(records, layouts)] == ["s100", "s101", "s200", "t100"]


def test_the_oldest_arrival_of_a_store_is_that_of_a_row_that_counts() -> None:
    records = [RECORD.counting_from(14), replace(RECORD, first_arrival=12), replace(RECORD, store="t", first_arrival=3)]
    assert oldest_arrivals(records) == {"s": 12, "t": 3}
    assert oldest_arrivals([]) == {}


@given(st.lists(st.integers(0, 1000), unique=True, max_size=60), st.integers(1, 20))
def test_parts_between_split_points_have_about_half_of_the_rows_that_a_batch_moves(arrivals: list[int], limit: int) -> None:
    points = split_points(np.array(arrivals, np.int64), limit)
    bounds = [-1, *points, 1001]
    assert list(points) == sorted(points)
    parts = [sum(low <= arrival < high for arrival in arrivals) for low, high in itertools.pairwise(bounds)]
    assert sum(parts) == len(arrivals)
    assert all(part <= max(1, limit // 2) for part in parts)
