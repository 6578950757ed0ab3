"""What a change of plan costs: the steps of its first batch that the plan itself does not have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

import clash
from clash.coordinator.adaptive.transition_pricing import LOOKUP, TransitionCost, transition_cost
from clash.model.stream import Stream
from clash.optimizer import Plan, replan

from ...topology.plans import plans

QUERY = {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"}
COLUMNS = {"R": "a", "S": "ab", "T": "b"}
# Each R matches 40 S, and few S a T: R » (S ⋈ T) saves the step from R ⋈ S to T.
STATISTICS = clash.Statistics(rates={"R": 10_000, "S": 400, "T": 400}, selectivities={"R.a = S.a": 0.1, "S.b = T.b": 1e-4})
RS, ST = 400_000, 16


def streams(window: str | None) -> list[Stream]:
    return [Stream.of(n, {**dict.fromkeys(c, "bigint"), "ts": "timestamp"}, time="ts", window=window) for n, c in COLUMNS.items()]


def plan(window: str | None = "5 seconds", **options: Any) -> Plan:
    return clash.optimize(QUERY, STATISTICS, streams=streams(window), **{"workers": 1, "cost": "probe", **options})


def test_the_same_plan_costs_nothing() -> None:
    assert transition_cost(plan(), plan(), plan().request.statistics) == TransitionCost()


def test_parts_of_a_new_intermediate_result_are_probed_for_a_window() -> None:
    old, new = plan(mirs=False), plan()
    assert {str(store.key) for store in new.stores if store.key.join is not None} == {"(S ⋈ T)"}
    cost = transition_cost(old, new, new.request.statistics)
    # R » S for all tuples; then » T for those of R ⋈ S that R completes and whose S is an older one, half of them on average
    assert cost.probes == pytest.approx(10_000 + RS / 2 / 2)
    assert cost.total == cost.probes
    assert transition_cost(new, old, new.request.statistics) == TransitionCost()  # a store that goes costs nothing


def test_a_transition_costs_about_what_it_saves_in_a_window() -> None:
    old, new = plan(mirs=False), plan()
    assert transition_cost(old, new, new.request.statistics).total < old.cost - new.cost


def test_where_nothing_expires_an_intermediate_result_is_backfilled() -> None:
    old, new = plan(None, mirs=False, cost="full"), plan(None, cost="full")
    cost = transition_cost(old, new, new.request.statistics)
    assert (cost.probes, cost.rounds, cost.rewriting) == (0, 0, 0)
    # all S probe T and all T probe S; the rows of the result are inserted
    assert cost.backfill == pytest.approx(800 * 0.25 + ST * 1.5)


def test_rows_under_other_layouts_are_looked_up_or_rewritten() -> None:
    one = clash.Statistics(rates={"R": 1e6, "S": 1e6, "T": 100}, selectivities={"R.a = S.a": 1e-6, "S.b = T.b": 1e-2})
    other = clash.Statistics(rates={"R": 100, "S": 1e6, "T": 1e6}, selectivities={"R.a = S.a": 1e-2, "S.b = T.b": 1e-6})
    for window in ("5 seconds", None):
        old, new = (
            clash.optimize(QUERY, statistics, streams=streams(window), workers=4, mirs=False, time_limit=5) for statistics in (one, other)
        )
        moved = {s.key for s in new.stores} & {s.key for s in old.stores if s.layouts != {t.key: t.layouts for t in new.stores}[s.key]}
        assert moved
        cost = transition_cost(old, new, new.request.statistics)
        assert cost.backfill == cost.rounds == 0
        rates = {"R": 100, "S": 1e6, "T": 1e6}
        rows = sum(rates[str(key)] * len({s.key: s.layouts for s in new.stores}[key]) for key in moved)
        if window is None:
            assert cost.rewriting == pytest.approx(1.5 * rows)
            assert cost.probes == 0
        else:
            assert 0 < cost.probes <= LOOKUP * 4 * new.cost
            assert cost.rewriting == 0


def test_further_rounds_are_paid_for() -> None:
    wide = clash.Statistics(rates={"R": 1e7, "S": 4e6, "T": 4e6}, selectivities={"R.a = S.a": 1e-5, "S.b = T.b": 1e-10})
    old = clash.optimize(QUERY, wide, streams=streams("5 seconds"), workers=4, mirs=False, time_limit=5)
    new = clash.optimize(QUERY, wide, streams=streams("5 seconds"), workers=4, time_limit=5)
    assert any(store.key.join is not None for store in new.stores)
    cost = transition_cost(old, new, new.request.statistics)
    assert cost.rounds == 10_000 * max(0, old.rounds - new.rounds)
    assert cost.probes > 0


@given(plans(), plans())
@settings(max_examples=60)
def test_any_change_has_a_price(plan: Plan, other: Plan) -> None:
    """Between plans for the same queries: with and without intermediate results, and made for other statistics."""
    statistics = other.request.statistics
    changed = replan(plan, mirs=not plan.request.mirs, statistics=statistics)
    for old, new in ((plan, changed), (changed, plan)):
        assert all(part >= 0 for part in transition_cost(old, new, statistics))
    assert transition_cost(plan, plan, statistics) == TransitionCost()


def test_rows_of_a_table_are_rewritten_as_others_that_do_not_expire() -> None:
    of = [*streams("5 seconds")[:2], Stream.table("T", {"b": "bigint"})]
    old, new = (clash.optimize(QUERY, STATISTICS, streams=of, workers=workers, time_limit=0) for workers in (1, 4))
    layouts = {store.key.stream: (store.layouts, next(s.layouts for s in old.stores if s.key == store.key)) for store in new.stores}
    after, before = layouts["T"]
    assert before != after
    cost = transition_cost(old, new, new.request.statistics)
    assert cost.rewriting == pytest.approx(1.5 * 400 * len(after))
    assert cost.backfill == 0
