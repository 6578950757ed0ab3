"""The data of a picture: who uses a step is the same as in the division of costs, and everything is JSON."""

from __future__ import annotations

import json

import pytest

import clash
from clash.explain.picture import picture_data, step_users
from clash.explain.shares import share_costs

QUERIES = {
    "q1": "SELECT R.a FROM R JOIN S USING (a) JOIN T USING (b)",
    "q2": "SELECT R.a FROM R JOIN S USING (a) JOIN T USING (b) JOIN U USING (c)",
    "q3": "SELECT R.a FROM R JOIN S USING (a)",
    "q4": "SELECT x.a FROM S x JOIN S y ON x.a = y.a JOIN R ON R.a = x.a",
}
RATES = {"R": 100, "S": 100, "T": 50, "U": 1000}
SELECTIVITIES = {"R.a = S.a": 0.01, "S.b = T.b": 0.02, "T.c = U.c": 0.001, "S.a = S.a": 0.01}
STREAMS = [clash.Stream.of(name, {"a": "bigint", "b": "bigint", "c": "bigint"}, window="1 minute") for name in "RSTU"]


def plan(strategy: clash.plan.options.StrategyName, **options: object) -> clash.Plan:
    texts = {name: text.replace("USING (b)", "ON S.b = T.b").replace("USING (c)", "ON T.c = U.c") for name, text in QUERIES.items()}
    texts = {name: text.replace("R JOIN S USING (a)", "R JOIN S ON R.a = S.a") for name, text in texts.items()}
    statistics = clash.Statistics(rates=RATES, selectivities=SELECTIVITIES)
    return clash.optimize(texts, statistics, streams=STREAMS, strategy=strategy, time_limit=0, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["global", "independent"])
def test_users_of_steps_are_those_that_bear_their_cost(strategy: clash.plan.options.StrategyName) -> None:
    planned = plan(strategy)
    shares = share_costs(planned)
    expected = sorted(users for node, users in shares.users.items() if node.parent is not None)
    assert sorted(step_users(planned.topology).values()) == expected


def test_a_picture_has_every_step_with_its_cost() -> None:
    planned = plan("global")
    picture = json.loads(json.dumps(picture_data(planned, planned.topology)))
    assert {store["name"] for store in picture["stores"] if store["stream"]} == {"R", "S", "T", "U"}
    steps = {step["id"]: step for step in picture["steps"]}
    starts = {origin["id"] for origin in picture["origins"]}
    assert all(step["parent"] in starts or step["parent"] in steps for step in steps.values())
    assert sum(step["cost"] for step in steps.values()) == pytest.approx(picture["cost"]["probes"])
    answered = {name for step in steps.values() for name in step["emits"]}
    assert answered == set(QUERIES)
    assert sum(query["share"] for query in picture["queries"]) == pytest.approx(planned.cost)
    assert any(len(step["users"]) > 1 for step in steps.values())
    assert all(store["window"] == 60 for store in picture["stores"])


def test_layouts_are_words() -> None:
    planned = plan("global")
    words = {text for store in picture_data(planned, planned.topology)["stores"] for text in store["layouts"]}
    assert words
    assert all(text.startswith(("by ", "on ", "a copy")) for text in words)


def test_branches_of_union_all_are_one_query() -> None:
    texts = {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a UNION ALL SELECT T.a FROM T JOIN S ON T.a = S.a"}
    planned = clash.optimize(texts, streams=STREAMS, time_limit=0)
    picture = picture_data(planned, planned.topology)
    assert [(query["name"], query["streams"]) for query in picture["queries"]] == [("q", ["R", "S", "T"])]
    assert sum(query["share"] for query in picture["queries"]) == pytest.approx(planned.cost)
    assert {name for step in picture["steps"] for name in (*step["users"], *step["emits"])} == {"q"}
    assert {name for store in picture["stores"] for name in store["users"]} == {"q"}
