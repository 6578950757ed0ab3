"""A plan survives its record without loss, and is priced as it was planned."""

from __future__ import annotations

import json

import pytest
from clash.coordinator.checkpoint.plan_record import MOST_NUMBERS, plan_from_json, plan_to_json

import clash
from clash.coordinator.adaptive.plan_pricing import price_plan
from clash.explain import explain_text
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.optimizer import Plan

COLUMNS = {"R": "ab", "S": "bc", "T": "cd", "U": "da"}
STREAMS = [Stream.of(n, {**dict.fromkeys(c, "bigint"), "ts": "timestamp"}, time="ts", window="5 seconds") for n, c in COLUMNS.items()]
QUERIES = {
    "q1": "SELECT R.a, T.d FROM R JOIN S ON R.b = S.b JOIN T ON S.c = T.c WHERE R.a > 3 AND S.ts >= R.ts",
    "q2": "SELECT S.b, U.a FROM S JOIN T ON S.c = T.c JOIN U ON T.d = U.d",
    "q3": "SELECT x.a, y.a AS other FROM R x JOIN R y ON x.b = y.b",
}
RATES = Statistics(rates={"R": 1e5, "S": 10, "T": 10, "U": 500}, selectivities={"R.b = S.b": 0.1, "S.c = T.c": 1e-4})


def plan(**options: object) -> Plan:
    windows = {"q2": {"S": "9 seconds"}}
    return clash.optimize(QUERIES, RATES, streams=STREAMS, windows=windows, time_limit=0, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["global", "shared", "independent"])
@pytest.mark.parametrize("layouts", ["one", "many"])
@pytest.mark.parametrize("cost", ["full", "probe"])
def test_there_and_back(strategy: str, layouts: str, cost: str) -> None:
    made = plan(strategy=strategy, layouts=layouts, cost=cost)
    again = plan_from_json(json.loads(json.dumps(plan_to_json(made))), dict(made.streams))
    assert again == made
    assert again.topology == made.topology
    assert explain_text(again, again.topology) == explain_text(made, made.topology)
    # of several copies of a store, a walk may take a cheaper one than the plan did
    assert price_plan(again, made.request.statistics) == pytest.approx(made.cost, rel=1e-9 if layouts == "one" else 0.01)


def test_a_plan_is_priced_under_other_statistics() -> None:
    made = plan()
    other = Statistics(rates={"R": 10, "S": 1e5, "T": 1e5, "U": 1e4})
    better = clash.optimize(QUERIES, other, streams=STREAMS, windows=made.request.windows, time_limit=0, start=made)
    cost = price_plan(made, better.request.statistics)
    assert cost is not None
    assert cost >= better.cost


def test_records_stay_small() -> None:
    many = Statistics(selectivities={f"R.a = S.c{i}": 0.1 for i in range(MOST_NUMBERS + 5)})
    made = clash.optimize({"q": QUERIES["q1"]}, many, streams=STREAMS, time_limit=0)
    assert len(plan_to_json(made)["asked"]["statistics"]["selectivities"]) <= MOST_NUMBERS
