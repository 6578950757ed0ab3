"""What keeps a query expensive."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

import clash
from clash.errors import OptionError, UnknownNameError
from clash.explain import explain_why, why_json, why_text
from clash.explain.shares import share_costs
from clash.model.query import query_of
from clash.optimizer import Plan

from ..topology.plans import plans


@given(plans())
@settings(max_examples=40)
def test_any_query_of_any_plan(plan: Plan) -> None:
    shares = share_costs(plan)
    for name in {query_of(query.name) for query in plan.queries}:
        why = explain_why(plan, name, alone=plan.cost, without=0.0)
        assert why.share == pytest.approx(sum(cost for of, cost in shares.own.items() if query_of(of) == name))
        assert sum(part.share for part in why.parts) <= why.share * (1 + 1e-9)
        assert all(broadcast.places > 1 and broadcast.cost > 0 for broadcast in why.broadcasts)
        assert all(near.query != name and near.differences for near in why.nearly_shared)
        assert why_text(why).startswith(f"WHY {name} ")
        assert json.loads(why_json(why))["query"] == name


def test_alone_and_on_the_margin() -> None:
    texts = {"q1": "R(a), S(a,b), T(b)", "q2": "R(a), S(a,b), T(b)"}
    plan = clash.optimize(texts, workers=2, cost="probe")
    why = json.loads(plan.why("q1", "json"))
    assert why["alone"] == pytest.approx(plan.cost)
    assert why["marginal"] == pytest.approx(0)
    assert why["share"] == pytest.approx(plan.cost / 2)
    alone = clash.optimize({"q1": texts["q1"]}, workers=2, cost="probe")
    assert json.loads(alone.why("q1", "json"))["marginal"] == pytest.approx(alone.cost)


def test_branches_of_union_all_are_one_query() -> None:
    text = "SELECT R.a FROM R JOIN S ON R.a = S.a UNION ALL SELECT T.a FROM T JOIN S ON T.a = S.a"
    plan = clash.optimize({"q": text, "other": "R(a), S(a)"}, workers=2)
    assert json.loads(plan.why("q", "json"))["share"] + json.loads(plan.why("other", "json"))["share"] == pytest.approx(plan.cost)


def test_mistakes() -> None:
    plan = clash.optimize({"orders": "R(a), S(a)"}, time_limit=0)
    with pytest.raises(UnknownNameError, match="unknown query"):
        plan.why("order")
    with pytest.raises(OptionError, match="unknown format"):
        plan.why("orders", "dot")  # type: ignore[arg-type]
