"""Against brute force: both programs find what trying every plan finds, and the strategies compare as they should."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

import clash
from clash.explain.shares import share_costs
from clash.optimizer import Plan, validate

from .sets import Job, families, jobs, jobs_with_tables

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # the sets are small as they are, and each try takes a while
SMALL = ((2,), (3,), (2, 2), (2, 3), (2, 2, 2), (1, 2))


def check_against_all_plans(job: Job) -> None:
    plans = {formulation: job.plan(formulation=formulation) for formulation in ("compact", "published")}
    best = job.exhaustive(plans["compact"].cost * (1 + 1e-6) + 1e-6)  # infinite if no plan costs as little as that
    for plan in plans.values():
        assert plan.optimal
        assert plan.complete
        assert plan.cost == pytest.approx(best, rel=1e-6, abs=1e-9), plan.request.formulation
        assert plan.gap == 0
    check_strategies(job, plans["compact"])


def check_strategies(job: Job, plan: Plan) -> None:
    shared, independent = job.plan(strategy="shared"), job.plan(strategy="independent")
    slack = 1e-6 * (1 + plan.cost)
    assert plan.cost <= shared.cost + slack
    if job.options["layouts"] == "many" and stores_have_equal_rows(plan):
        assert shared.cost <= independent.cost + slack
    for each in (plan, shared, independent):
        validate(each)
        if job.options["layouts"] == "one":
            assert all(len(store.layouts) == 1 for store in each.stores)
        if job.options["cost"] == "full":  # every further copy of a MIR would have to be fed as well
            assert all(len(store.layouts) == 1 for store in each.stores if store.key.join is not None)
        assert 0 <= each.bound <= each.cost
        # As the steps run: orders that begin alike are one step only if their tuples also enter the tree at the same placement.
        assert share_costs(each).total == pytest.approx(each.cost, rel=1e-9, abs=1e-9)
    again = job.plan()
    assert (again.probe_orders, again.stores, again.cost, again.bound) == (plan.probe_orders, plan.stores, plan.cost, plan.bound)


def stores_have_equal_rows(plan: Plan) -> bool:
    """Whether all queries need the same rows of each stream.

    Where they do not, under `full`, a query's own store can be smaller than a copy of the shared one, so that separate stores may cost less
    than sharing them.
    """
    own = {stream.name: stream.window for stream in plan.streams.values()}
    plain = all(not q.join.filters and all(window == own[r.stream] for r, window in q.join.windows) for q in plan.queries)
    return plain or plan.request.cost == "probe"


@settings(max_examples=120, phases=NO_SHRINKING)
@given(jobs("probe", "one", (*SMALL, (3, 3))))
def test_probe_cost_one_layout(job: Job) -> None:
    check_against_all_plans(job)


@settings(max_examples=120, phases=NO_SHRINKING)
@given(jobs("probe", "many", (*SMALL, (3, 3))))
def test_probe_cost_many_layouts(job: Job) -> None:
    check_against_all_plans(job)


@settings(max_examples=40, phases=NO_SHRINKING)
@given(jobs("full", "one", SMALL))
def test_full_cost_one_layout(job: Job) -> None:
    check_against_all_plans(job)


@settings(max_examples=30, phases=NO_SHRINKING)
@given(families("one", (2, 2, 3), 2))
def test_families(job: Job) -> None:
    check_against_all_plans(job)


@settings(max_examples=40, phases=NO_SHRINKING)
@given(jobs("full", "many", ((2,), (3,), (2, 2))))
def test_full_cost_many_layouts(job: Job) -> None:
    check_against_all_plans(job)


@settings(max_examples=30, phases=NO_SHRINKING)
@given(jobs_with_tables("probe", "one", (*SMALL[:5], (4,))))
def test_tables_under_probe_cost(job: Job) -> None:
    check_against_all_plans(job)


@settings(max_examples=30, phases=NO_SHRINKING)
@given(jobs_with_tables("full", "one", ((2,), (3,), (2, 2), (2, 3))))
def test_tables_under_full_cost(job: Job) -> None:
    check_against_all_plans(job)


@settings(max_examples=12, phases=NO_SHRINKING)
@given(jobs("full", "many", ((3, 3), (2, 3, 3)), (2, 4)))
def test_full_cost_many_layouts_of_larger_sets(job: Job) -> None:
    """Too large for the oracle: only the relations between strategies are checked."""
    check_strategies(job, job.plan())


def test_queries_that_want_a_mir_under_different_layouts() -> None:
    """Alone, q0 keeps R ⋈ S by S.a and q1 keeps it by R.b; together it is kept under one of them."""
    texts = {"q0": "P(a,c,d), S(a,b,g), R(b,d,g)", "q1": "Q(b,c,f), S(a,b,g), R(b,d,g)"}
    statistics = clash.Statistics(rates={"P": 1000, "Q": 300}, default_selectivity=0.00005)
    for layouts in ("one", "many"):
        job = Job(texts, statistics, {"cost": "full", "layouts": layouts, "workers": 8, "mirs": True, "time_limit": 60.0}, False)
        kept = {str(store) for store in job.plan(strategy="independent").stores if store.key.join is not None}
        assert kept == {"q0:(R ⋈ S)[S.a]", "q1:(R ⋈ S)[R.b]"}
        check_strategies(job, job.plan())


def test_a_replicated_store_is_probed_wherever_the_own_store_places_a_tuple() -> None:
    """R is kept by a for q1. Its filtered tuples probe the small U without being sent again, though q0 does not join by a."""
    texts = {
        "q0": "SELECT x1.v FROM U x0 JOIN R x1 ON x0.a = x1.b WHERE x1.v > 1",
        "q1": "SELECT x1.v FROM S x0 JOIN R x1 ON x0.a = x1.a",
    }
    statistics = clash.Statistics(rates={"R": 1000, "S": 1000, "U": 7.5}, default_selectivity=0.1)
    check_against_all_plans(
        Job(texts, statistics, {"cost": "full", "layouts": "one", "workers": 4, "mirs": True, "time_limit": 60.0}, True)
    )


def test_separate_stores_can_cost_less_than_shared_ones() -> None:
    """q0 keeps a third of R. Together, R is kept in full, and either there is a second copy, or q0 broadcasts its probes of R."""
    texts = {
        "q0": "SELECT x0.v FROM R x0 JOIN T x1 ON x0.b = x1.b WHERE x0.v > 0 AND x1.v > 1",
        "q1": "SELECT x0.v FROM R x0 JOIN U x1 ON x0.a = x1.a WHERE x0.v < x1.v AND x1.v > 1",
    }
    statistics = clash.Statistics(default_rate=10, default_selectivity=0.01)
    job = Job(texts, statistics, {"cost": "full", "layouts": "many", "workers": 4, "mirs": True, "time_limit": 60.0}, True)
    check_against_all_plans(job)
    assert job.plan(strategy="independent").cost < job.plan().cost
