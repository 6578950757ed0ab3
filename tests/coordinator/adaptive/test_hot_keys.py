"""Skewed keys while a job runs: the planner spreads them, and other ones when others become frequent; results stay exact."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from clash.model.layout import Layout
from clash_bench.skew import SETTLED, WINDOW, SkewedRun

BATCHES = SETTLED + 3


def layouts(run: SkewedRun) -> set[Layout]:
    return {layout for store in run.engine.coordinator.loaded_plan.topology.stores for layout in store.layouts if layout.hot}


def expected(played: list[dict[str, pa.Table]]) -> int:
    """Pairs of equal keys that are within the window of each other, in which a batch is a second."""
    keys = [{name: Counter(np.asarray(table["a"]).tolist()) for name, table in batch.items()} for batch in played]
    near = ((r, s) for r in range(len(keys)) for s in range(len(keys)) if abs(r - s) <= WINDOW)
    return sum(count * keys[s]["S"][key] for r, s in near for key, count in keys[r]["R"].items())


def test_the_hot_set_follows_the_data() -> None:
    run = SkewedRun(with_frequent=True, skew=1.5)
    played = run.play(BATCHES, 0)
    first = layouts(run)
    assert first
    assert run.busiest(3) <= 1.3
    assert run.stored() <= 1.3
    played += run.play(BATCHES, 100_000)
    assert layouts(run)
    assert layouts(run) != first
    assert run.busiest(3) <= 1.3
    assert sum(run.results) == expected(played)
    pairs = run.engine.results("q")
    assert len(set(zip(pairs["v"].to_pylist(), pairs["w"].to_pylist(), strict=True))) == pairs.num_rows == sum(run.results)


def test_without_frequent_keys_one_worker_has_most_of_the_work() -> None:
    run = SkewedRun(with_frequent=False, skew=1.5)
    run.play(BATCHES, 0)
    assert not layouts(run)
    assert run.busiest(3) > 2.5


def test_even_keys_are_hashed() -> None:
    run = SkewedRun(with_frequent=True, skew=0.0)
    run.play(BATCHES, 0)
    assert not layouts(run)
    assert len(run.engine.generations) <= 2
