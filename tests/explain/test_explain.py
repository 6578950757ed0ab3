"""Every format of every plan is complete, consistent with the plan, and well-formed."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import clash
from clash.explain import explain_dot, explain_html, explain_json, explain_svg, explain_text
from clash.explain.picture import picture_data
from clash.explain.shares import share_costs
from clash.inprocess.engine import NoSpark
from clash.model.computed import with_computed
from clash.optimizer import Plan, replan
from clash.plan.codecs import topology_from_json
from clash.planner.optimize import plan_queries
from clash.sql import parse_with_spark

from ..topology.plans import plans
from .jobs import FOLDER, read_jobs

WALK = read_jobs(FOLDER / "paper.txt")[2]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return WALK.plan()


@given(plans())
@settings(max_examples=60)
def test_any_plan_in_any_format(plan: Plan) -> None:
    text = explain_text(plan, plan.topology, seconds=False)
    assert all(line == line.rstrip() and len(line) <= 100 for line in text.splitlines())
    for order in plan.probe_orders:
        assert str(order.origin) in text
    data = json.loads(explain_json(plan, plan.topology))
    assert topology_from_json(json.dumps(data["topology"])) == plan.topology
    assert len(data["probe_orders"]) == len(plan.probe_orders)
    ElementTree.fromstring(explain_svg(plan, plan.topology))
    dot = explain_dot(plan, plan.topology)
    assert dot.count("{") == dot.count("}")


@given(plans())
@settings(max_examples=60)
def test_shares_add_up_to_the_cost(plan: Plan) -> None:
    shares = share_costs(plan)
    assert shares.total == pytest.approx(plan.cost)
    assert sum(shares.own.values()) == pytest.approx(plan.cost)
    assert all(shares.own[name] <= shares.full[name] * (1 + 1e-9) for name in shares.own)


def test_one_line_per_probe_order(plan: Plan) -> None:
    lines = plan.explain().splitlines()
    assert [line.split() for line in lines if line.startswith("  S » T[c] » R[b] ")] == [
        ["S", "»", "T[c]", "»", "R[b]", "cost", "175", "shares", "S", "»", "T[c]", "with", "q2"]
    ]
    assert f"found in {plan.seconds:.2f} s" in lines[2]


def test_json_has_the_strategies_and_who_uses_what(plan: Plan) -> None:
    data = json.loads(plan.explain(format="json"))
    assert [c["strategy"] for c in data["strategies"]] == ["independent", "shared", "global"]
    assert (data["cost"], data["optimal"], data["rounds"]) == (700.0, True, 2)
    order = next(o for o in data["probe_orders"] if o["text"] == "S » T[c] » R[b]")
    assert [step["used_by"] for step in order["steps"]] == [["q1", "q2"], ["q1"]]


def test_dot_names_every_edge_once(plan: Plan) -> None:
    dot = plan.explain(format="dot")
    for edge in plan.topology.edges:
        if edge.carries is not None and edge.source.kind == "origin":
            assert dot.count(f'[label="{edge.label} @') == 1
    assert dot.count("shape=cylinder") == len(plan.stores)
    assert dot.count("style=dotted, color=gray40") == 2  # S and T feed S ⋈ T


def test_a_notebook_shows_a_picture_without_planning_again(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "compare", lambda self: pytest.fail("planned again"))
    html = plan._repr_html_()
    assert html == explain_html(plan, plan.topology)
    assert "<svg" in html
    assert "R » (S ⋈ T)[S.b]" in html


def test_large_pictures_are_cut(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clash.explain.svg.MAX_BOXES", 5)
    assert "more trees" in explain_svg(plan, plan.topology)


def test_special_characters_in_names_are_escaped() -> None:
    text = 'SELECT R.`a<b` FROM R JOIN S ON R.`a<b` = S.`c"d`'
    plan = clash.optimize({"q": text}, workers=2, cost="probe")
    ElementTree.fromstring(explain_svg(plan, plan.topology))
    assert "a<b" not in explain_html(plan, plan.topology)
    assert 'S[c\\"d]' in explain_dot(plan, plan.topology)


def test_unproven_plans_say_how_far_they_may_be_off() -> None:
    texts = {f"q{i}": "R(a), S(a,b), T(b,c), U(c,d), V(d)" if i else "S(a,b), T(b,c), U(c)" for i in range(2)}
    plan = clash.optimize(texts, workers=4, time_limit=0.0)
    if not plan.optimal:
        assert "no plan costs less than" in explain_text(plan, plan.topology)


def test_independent_names_the_owner_of_each_store() -> None:
    text = clash.optimize({"q1": "R(a), S(a)", "q2": "R(a), T(a)"}, workers=2, strategy="independent").explain()
    assert [name for name in ("q1's R[", "q2's R[", "q2's T[") if name not in text] == []


class _Types(NoSpark):
    """Spark computes any expression over one stream, as text."""

    def of_stream(self, stream: str, expression: str) -> str:
        return "string"

    def is_read_by_tasks(self, stream: str) -> bool:
        return False

    def is_decoded_by_tasks(self, stream: str) -> bool:
        return False


def _planned(queries: dict[str, str], streams: list[clash.Stream], rates: dict[str, float]) -> Plan:
    """As a run plans them: with the columns that Spark computes."""
    declared = {stream.name: stream for stream in streams}
    parsed = []
    for name, text in queries.items():
        query, computed = parse_with_spark(name, text, declared, None, _Types())
        declared = with_computed(declared, computed)
        parsed += query.branches
    planned = clash.optimize({"q": f"SELECT x.a FROM {streams[0].name} x"}, clash.Statistics(rates=rates), streams=streams, workers=2)
    return Plan.of(plan_queries(tuple(parsed), replace(planned.request, streams=declared)))


def test_what_is_computed_beside_the_joins() -> None:
    """Spark's part of a plan is in every format, with the rows that it is computed of."""
    streams = [
        clash.Stream.of("R", {"a": "bigint", "x": "string"}, window="1 minute"),
        clash.Stream.of("S", {"a": "bigint"}, window="1 minute"),
    ]
    queries = {
        "hashes": "SELECT R.a FROM R JOIN S ON R.a = S.a WHERE md5(R.x) > 'a'",
        "keys": "SELECT R.x FROM R JOIN S ON R.a % 5 = S.a % 7",
        "groups": "SELECT d.a, count(*) AS n FROM (SELECT a FROM R UNION ALL SELECT a FROM S) d GROUP BY d.a",
    }
    planned = _planned(queries, streams, {"R": 100, "S": 1000})
    text = " ".join(planned.explain().split())
    assert "COMPUTED by Spark, which reads all streams of files for it: tasks read none R._md5" in text
    assert "COMPUTED by tasks that read the streams R._" in text
    assert "groups of 1,100 results" in text
    data = json.loads(planned.explain(format="json"))
    found = [(part["stream"], part["by"], part["rows"]) for part in data["computed"]]
    assert sorted(found) == [("R", "spark", 100), ("R", "tasks", 100), ("S", "tasks", 1000)]
    assert data["computed"][0]["used_by"] == ["hashes"]
    assert "MD5(" in data["computed"][0]["expression"]
    assert {q["name"]: q.get("outer_rows") for q in data["queries"]}["groups"] == 1100
    picture = picture_data(planned, planned.topology)
    assert [column["by"] for s in picture["streams"] for column in s["computed"]] == ["spark", "tasks", "tasks"]
    assert {query["name"]: query["in_spark"] for query in picture["queries"]} == {"hashes": [], "keys": [], "groups": ["outer"]}
    dot = planned.explain(format="dot")
    assert "Spark computes _md5" in dot
    assert "Spark runs an outer query over the results" in dot
    assert "Spark computes _md5" in explain_svg(planned, planned.topology)


def test_a_column_of_a_table_moves_no_stream() -> None:
    streams = [clash.Stream.of("R", {"a": "bigint"}, window="1 minute"), clash.Stream.table("N", {"a": "bigint", "x": "string"})]
    text = _planned({"q": "SELECT R.a FROM R JOIN N ON R.a = N.a WHERE md5(N.x) > 'a'"}, streams, {}).explain()
    assert "COMPUTED by Spark, when it reads these tables" in text


def test_what_the_parts_of_a_plan_are_worth(plan: Plan) -> None:
    text, data = plan.explain(worth=True), json.loads(plan.explain("json", worth=True))
    worth = {entry["plan"]: entry for entry in data["worth"]}
    assert [name for name in worth if name not in text] == []
    assert worth["without intermediate results"]["cost"] == pytest.approx(replan(plan, mirs=False).cost)
    assert worth["without sharing"]["cost"] == pytest.approx(replan(plan, strategy="independent").cost)
    assert worth["one layout per store"]["cost"] == pytest.approx(replan(plan, layouts="one").cost)
    assert "worth" not in json.loads(plan.explain("json"))
    single = clash.optimize({"q": "R(a), S(a)"}, mirs=False)
    assert [alternative.name for alternative in single.alternatives()] == ["several layouts per store"]
