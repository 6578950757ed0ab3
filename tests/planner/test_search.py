"""Query sets too large for the oracle: what holds for the heuristic, a start, a gap and the time limit."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import clash
from clash.optimizer import Plan, validate

from .sets import chains

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # a failing set takes seconds at each try
OPTIONS = st.fixed_dictionaries(
    {
        "workers": st.sampled_from((1, 4)),
        "cost": st.sampled_from(("probe", "full")),
        "layouts": st.sampled_from(("one", "many")),
        "mirs": st.booleans(),
    }
)


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, str], clash.Statistics, dict[str, object]]:
    return *chains(draw(st.integers(0, 10_000)), draw(st.integers(5, 8)), (3, 5)), draw(OPTIONS)


Call = tuple[dict[str, str], clash.Statistics, dict[str, object]]


def plan(call: Call, **more: object) -> Plan:
    texts, statistics, options = call
    found = clash.optimize(texts, statistics, **{**options, **more})  # type: ignore[arg-type]
    validate(found)
    assert 0 <= found.bound <= found.cost
    assert 0 <= found.gap <= 1
    assert found.gap == pytest.approx((found.cost - found.bound) / found.cost, abs=1e-6)
    assert not found.optimal or found.bound == pytest.approx(found.cost, rel=1e-6)
    return found


@settings(max_examples=6, phases=NO_SHRINKING)
@given(calls())
def test_the_heuristic_and_what_starts_from_it(call: Call) -> None:
    quick = plan(call, time_limit=0.0)
    again = plan(call, start=quick, time_limit=1.0)
    assert again.cost <= quick.cost * (1 + 1e-9)
    assert quick.bound <= again.cost * (1 + 1e-6)
    assert again.bound <= quick.cost * (1 + 1e-6)


@pytest.mark.parametrize("layouts", ["one", "many"])
@pytest.mark.parametrize("cost", ["probe", "full"])
def test_the_heuristic_keeps_a_better_start(cost: str, layouts: str) -> None:
    for seed in range(4):
        call = (*chains(seed, 2, (2, 3), 6), {"cost": cost, "layouts": layouts, "workers": 4})
        best = plan(call, time_limit=60.0)
        assert best.optimal
        assert plan(call, time_limit=0.0, start=best).cost == pytest.approx(best.cost, rel=1e-9)


@settings(max_examples=4, phases=NO_SHRINKING)
@given(calls())
def test_strategies_compare_when_time_is_short(call: Call) -> None:
    quick = {strategy: plan(call, time_limit=3.0, strategy=strategy) for strategy in ("global", "shared", "independent")}
    if quick["global"].cost > quick["shared"].cost:  # a busy machine got less done in that time
        quick["global"] = plan(call, time_limit=20.0)
    assert quick["global"].cost <= quick["shared"].cost * (1 + 1e-6)
    assert max(quick["global"].bound, quick["shared"].bound) <= quick["global"].cost * (1 + 1e-6)


@pytest.mark.parametrize("layouts", ["one", "many"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_gap_is_met(seed: int, layouts: str) -> None:
    call = (*chains(seed, 6, (3, 4)), {"cost": "probe", "layouts": layouts, "workers": 4})
    exact, loose = plan(call, time_limit=60.0), plan(call, time_limit=60.0, gap=0.2)
    assert exact.optimal
    assert loose.gap <= 0.2 + 1e-9
    assert loose.bound <= exact.cost * (1 + 1e-6)
    assert exact.cost <= loose.cost * (1 + 1e-6)


def test_the_same_call_gives_the_same_plan() -> None:
    for cost in ("probe", "full"):
        call = (*chains(3, 4, (3, 3)), {"cost": cost, "workers": 4, "time_limit": 60.0})
        first, second = plan(call), plan(call)
        assert first == second  # except the seconds, which do not compare


def test_a_start_from_other_queries_is_used_as_far_as_it_goes() -> None:
    texts, statistics = chains(5, 5, (3, 4))
    before = clash.optimize(dict(list(texts.items())[:3]), statistics, time_limit=0.0)
    after = plan((texts, statistics, {}), start=before, time_limit=0.0)
    assert {query.name for query in after.queries} == set(texts)
    fewer = plan((dict(list(texts.items())[2:]), statistics, {}), start=after, time_limit=0.0)
    assert len(fewer.queries) == 3


def test_what_if_costs_no_more_than_the_query_alone() -> None:
    texts, statistics = chains(7, 4, (3, 3))
    *rest, (name, text) = texts.items()
    base = clash.optimize(dict(rest), statistics, workers=4, cost="probe", layouts="many", time_limit=60.0)
    answer = base.what_if(text, name)
    assert answer.plan.cost == pytest.approx(base.cost + answer.marginal)
    assert 0 <= answer.marginal <= answer.alone * (1 + 1e-6)
    twin = base.what_if(rest[0][1])
    assert twin.marginal == pytest.approx(0, abs=1e-6)  # the same query again runs for free
