"""A generation survives its record without loss, and its plan is priced as it was planned."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

import clash
from clash.coordinator.adaptive.plan_pricing import price_plan
from clash.coordinator.checkpoint.generation import _MAX_STATISTICS, GENERATION, Generation, GenerationStart, begin_generation, to_record
from clash.coordinator.checkpoint.manifest import Manifest
from clash.coordinator.control.job import JobSpec, ProgramRecord, QueryRequest
from clash.coordinator.control.setup import LiveQuery, Setup
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
WINDOWS = {"q2": {"S": "9 seconds"}}
RATES = Statistics(rates={"R": 1e5, "S": 10, "T": 10, "U": 500}, selectivities={"R.b = S.b": 0.1, "S.c = T.c": 1e-4})


def first_generation(plan: Plan, **options: Any) -> Generation:
    queries = tuple(QueryRequest(query.name, query.text, tuple(WINDOWS.get(query.name, {}).items())) for query in plan.queries)
    job = JobSpec(tuple(STREAMS), queries, **options)
    return begin_generation(None, GenerationStart(0, 0, 0, "start"), Setup.of(job), job.record(), plan, Manifest().retained)


def reread(generation: Generation) -> Generation:
    """The generation as it is read from its record; its plan as the class of the plan that was recorded."""
    again = GENERATION.loads(GENERATION.dumps(to_record(generation)))
    return replace(again, plan=Plan.of(again.plan))


@pytest.mark.parametrize("strategy", ["global", "shared", "independent"])
@pytest.mark.parametrize("layouts", ["one", "many"])
@pytest.mark.parametrize("cost", ["full", "probe"])
def test_a_generation_survives_its_record(strategy: Any, layouts: Any, cost: Any) -> None:
    options = {"strategy": strategy, "layouts": layouts, "cost": cost}
    plan = clash.optimize(QUERIES, RATES, streams=STREAMS, windows=WINDOWS, time_limit=0, **options)
    generation = first_generation(plan, **options)
    again = reread(generation)
    assert generation.plan == plan
    assert again.plan == plan
    assert again == generation
    assert again.topology == generation.topology == plan.topology
    assert explain_text(again.plan, again.topology) == explain_text(plan, plan.topology)
    # of several copies of a store, a walk may take a cheaper one than the plan did
    assert price_plan(again.plan, plan.request.statistics) == pytest.approx(plan.cost, rel=1e-9 if layouts == "one" else 0.01)


def test_records_stay_small() -> None:
    many = Statistics(selectivities={f"R.a = S.c{i}": 0.1 for i in range(_MAX_STATISTICS + 5)})
    generation = first_generation(clash.optimize({"q": QUERIES["q1"]}, many, streams=STREAMS, time_limit=0))
    assert len(reread(generation).plan.request.statistics.selectivities) == _MAX_STATISTICS


def test_a_query_is_recorded_field_by_field_so_new_ones_come_last() -> None:
    """A compact record has no names: a field in between would be read from the place of another one."""
    first = ["request", "query", "batch", "arrival", "history", "folder"]  # of format 6
    assert [field.name for field in fields(LiveQuery)][: len(first)] == first
    assert [field.name for field in fields(ProgramRecord)][:6] == ["queries", "workers", "strategy", "cost", "layouts", "mirs"]
