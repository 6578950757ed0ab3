"""Backfilling an intermediate store is split into ranges by the rows of its parts, whatever else has arrived."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from clash.coordinator.lifecycle.backfill import filled_stores
from clash.inprocess.engine import InProcessEngine
from clash.model.block_columns import ARRIVAL
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.state.container import read_container

STREAMS = [Stream.of(name, {"a": "bigint", "b": "bigint"}) for name in "RST"]
RST = "SELECT R.a, T.b FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"
RARE = Statistics(rates={"R": 1e7, "S": 100, "T": 100}, default_selectivity=1e-4)
MAX_ROWS = 20


def rows(**counts: int) -> dict[str, pa.Table]:
    """All match each other."""
    return {name: pa.table({"a": pa.array([1] * n, pa.int64()), "b": pa.array([1] * n, pa.int64())}) for name, n in counts.items()}


def started(*batches: dict[str, pa.Table]) -> InProcessEngine:
    """A run whose next batch introduces S⋈T."""
    run = InProcessEngine(STREAMS, {"q": RST}, mirs=False, tuning={"relayout_rows": MAX_ROWS})
    for batch in batches:
        run.batch(batch)
    plan = InProcessEngine(STREAMS, {"q": RST}, statistics=RARE).coordinator.generation.plan
    assert [store.key.join is not None for store in plan.stores].count(True) == 1
    run.replan(plan)
    return run


def fill(run: InProcessEngine, *batches: dict[str, pa.Table], upto: int = 100) -> list[tuple[int, int]]:
    """The ranges that are filled, until all are, or in `upto` batches; `batches` arrive meanwhile."""
    ranges: list[tuple[int, int]] = []
    while len(ranges) < upto and not filled_stores(run.coordinator.generation.stores.introduced, run.coordinator.manifest.backfilled):
        spec = run.coordinator.begin(run.coordinator.last + 1, 0, run.partitions)  # the batch below runs under this decision
        assert spec is not None
        ((_, first, end),) = spec.backfill
        run.batch(batches[len(ranges)] if len(ranges) < len(batches) else {})
        ranges.append((first, end))
    return ranges


def arrivals(run: InProcessEngine, *stores: str) -> np.ndarray:
    """Of all rows in the first copy of these stores."""
    records = [record for record in run.coordinator.manifest.containers if record.store in stores and not record.copy]
    batches = [read_container(run.coordinator.storage, record.path).batch for record in records]
    return np.unique(np.concatenate([batch.column(ARRIVAL).to_numpy() for batch in batches]))


def check(run: InProcessEngine, ranges: list[tuple[int, int]]) -> None:
    """The ranges follow each other up to the introduction of the store; each covers every row that may complete a result once, and about
    `MAX_ROWS` of them."""
    begun = next(iter(run.coordinator.generation.stores.introduced.values())).arrival
    seen = arrivals(run, "s_S", "s_T")
    assert [first for first, _ in ranges[1:]] == [upto for _, upto in ranges[:-1]]
    assert ranges[-1][1] == begun
    assert ranges[0][0] <= max(seen.min(), arrivals(run, "s_T").min())
    assert all(((seen >= first) & (seen < upto)).sum() <= 2 * MAX_ROWS for first, upto in ranges)


def test_rows_of_other_streams_do_not_count() -> None:
    run = started(rows(S=5, T=5), rows(R=5000))
    assert len(fill(run)) == 1
    assert run.coordinator.generation.stores.introduced.keys() == run.coordinator.manifest.backfilled.keys()
    run.batch(rows(R=1))
    assert run.results("q").num_rows == 5001 * 5 * 5


def test_each_batch_fills_about_as_many_rows_as_it_may() -> None:
    run = started(rows(S=50, T=40), rows(R=300), rows(S=60, T=50), rows(R=100))
    ranges = fill(run)
    check(run, ranges)
    assert 200 / MAX_ROWS - 1 <= len(ranges) <= 200 / MAX_ROWS + 1
    run.batch(rows(R=1))
    assert run.results("q").num_rows == 401 * 110 * 90


def test_nothing_was_completed_before_every_part_had_a_row() -> None:
    run = started(rows(S=1000), rows(R=10), rows(S=1, T=1))
    assert len(fill(run)) == 1
    run.batch(rows(R=1))
    assert run.results("q").num_rows == 11 * 1001


def test_parts_may_be_merged_and_change_their_layout_meanwhile() -> None:
    run = started(rows(S=50, T=40), rows(R=300), rows(S=60, T=50))
    ranges = fill(run, rows(S=30, T=30), rows(S=100, T=100), upto=3)
    for workers in (3, 2):
        run.rescale(workers)
        run.replan(replace(run.coordinator.changes.setup, mirs=True).optimize(RARE))
        ranges += fill(run, rows(R=1, S=1, T=1), upto=2)
    ranges += fill(run)
    check(run, ranges)
    assert len(run.generations) == 4
    assert run.results("q").num_rows == 302 * 242 * 222
