"""Frequent keys in the statistics: what the busiest worker does counts, and layouts with hot keys spread it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import clash
from clash.coordinator.adaptive.plan_pricing import price_plan
from clash.coordinator.adaptive.replanner import changed_statistics
from clash.errors import OptionError
from clash.model.layout import ALL, ONE, Layout, slot_of
from clash.model.statistics import Statistics
from clash.optimizer import validate
from clash.planner.skew import MAX_HOT, Skew

WORKERS = 4
ZIPF = [1 / rank**1.5 / 2.612 for rank in range(1, 20)]
SHARES = {(rank * 2654435769) % (1 << 32): share for rank, share in enumerate(ZIPF, 1)}  # keys all over the workers
OTHERS = {(key + (1 << 31)) % (1 << 32): share for key, share in SHARES.items()}
QUERIES = {"q": "R(a), S(a,b), T(b)"}


def statistics(shares: dict[int, float] | None, rate: float = 10_000.0) -> Statistics:
    frequent = {} if shares is None else {"R.a": shares, "S.a": shares}
    return Statistics(rates=dict.fromkeys("RST", rate), selectivities={"R.a = S.a": 0.176, "S.b = T.b": 1 / rate}, frequent=frequent)


def hot(plan: clash.optimizer.Plan) -> dict[str, tuple[int, ...]]:
    return {str(store.key): layout.hot for store in plan.stores for layout in store.layouts if layout.hot}


def test_without_frequent_keys_all_workers_have_the_same_load() -> None:
    skew = Skew(Statistics(), WORKERS)
    layouts = [Layout("hash", "a"), Layout("hash"), ONE, ALL]
    assert [skew.store_load("R", layout) for layout in layouts] == [1.0] * 4
    assert skew.hot_layouts("R", layouts) == []


def test_the_load_is_that_of_the_worker_with_most_rows() -> None:
    skew = Skew(Statistics(frequent={"R.a": {0: 0.4, 1: 0.1, 1 << 31: 0.1}}), WORKERS)
    assert skew.store_load("R", Layout("hash", "a")) == pytest.approx(4 * (0.4 + 0.1 + 0.4 / 4))
    assert skew.store_load("R", Layout("hash", "a", hot=(0, 1))) == pytest.approx(4 * (0.5 / 4 + 0.1 + 0.4 / 4))
    assert skew.store_load("R", Layout("hash", "b")) == 1.0


def test_layouts_with_hot_keys_are_candidates_where_they_matter() -> None:
    skew = Skew(statistics(SHARES), WORKERS)
    few, more = skew.hot_layouts("R", [Layout("hash", "a"), ONE, ALL])
    assert set(few.hot) < set(more.hot) <= set(SHARES)
    assert len(more.hot) <= MAX_HOT
    assert list(more.hot) == sorted(more.hot)
    assert all(skew.store_load("R", layout) < 1.3 < skew.store_load("R", Layout("hash", "a")) for layout in (few, more))
    even = {(one << 28) + 5: 1 / 16 for one in range(16)}
    assert Skew(statistics(even), WORKERS).hot_layouts("R", [Layout("hash", "a")]) == []


def test_a_plan_for_skewed_keys_spreads_them() -> None:
    plan = clash.optimize(QUERIES, statistics(SHARES), workers=WORKERS, time_limit=1)
    validate(plan)
    assert hot(plan)
    assert not hot(clash.optimize(QUERIES, statistics(None), workers=WORKERS, time_limit=1))
    assert not hot(clash.optimize(QUERIES, statistics(SHARES), workers=1, time_limit=1))
    assert not hot(clash.optimize(QUERIES, statistics(SHARES), workers=WORKERS, cost="probe", time_limit=1))
    assert "hot" in plan.explain()


def test_a_running_plan_is_priced_with_its_own_hot_keys() -> None:
    plan = clash.optimize(QUERIES, statistics(SHARES), workers=WORKERS, time_limit=1)
    assert price_plan(plan, statistics(SHARES)) == pytest.approx(plan.cost)
    moved = price_plan(plan, statistics(OTHERS))
    better = clash.optimize(QUERIES, statistics(OTHERS), workers=WORKERS, time_limit=1, start=plan)
    assert moved is not None
    assert better.cost < 0.9 * moved  # as much as the adaptive engine wants
    assert hot(better) != hot(plan)
    same = clash.optimize(QUERIES, statistics(SHARES), workers=WORKERS, time_limit=1, start=plan)
    assert same.cost == pytest.approx(plan.cost)


def test_other_frequent_keys_are_a_change() -> None:
    before = statistics(SHARES)
    assert changed_statistics(before, replace(before, frequent=dict(before.frequent)), 0.2) == []
    slightly = {key: share * 0.95 for key, share in SHARES.items()}
    assert changed_statistics(before, statistics(slightly), 0.2) == []
    assert changed_statistics(before, statistics(OTHERS), 0.2) == ["frequent values of R.a moved", "frequent values of S.a moved"]


def test_frequent_keys_are_part_of_a_statistics_file() -> None:
    given = statistics(SHARES)
    assert Statistics.from_json(given.to_json()) == given
    assert "share of the most frequent value" in str(given)
    for wrong in ({"R.a": 3}, {"R.a": {"x": 0.1}}, {"R.a": {1: -0.1}}, {"R.a": {1: 0.7, 2: 0.7}}, {"R.a": {1 << 32: 0.1}}):
        with pytest.raises(OptionError):
            Statistics(frequent=wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="frequent keys are not in order"):
        Statistics.from_json({"frequent": {"R.a": [3]}})


def test_keys_are_on_the_workers_that_their_hashes_name() -> None:
    assert {slot_of(key, WORKERS) for key in SHARES} == {*range(WORKERS)}
