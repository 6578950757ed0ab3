"""What one more query would mean: as adding it turns out."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from clash.coordinator.control.job import QueryRequest
from clash.coordinator.what_if import WhatIf, assess_query
from clash.errors import QueryError, UnknownNameError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

SECOND = 1_000_000
COLUMNS = {"a": "bigint", "b": "bigint", "ts": "timestamp"}


def stream(name: str, **options: str) -> Stream:
    return Stream.of(name, COLUMNS, time="ts", window="10 seconds", lateness="0 seconds", **options)  # type: ignore[arg-type]


def rows(second: int) -> pa.Table:
    times = pa.array([second * SECOND] * 3, pa.timestamp("us", tz="UTC"))
    return pa.table({"a": [1, 2, 3], "b": [1, 2, 3], "ts": times})


def engine(**queries: str) -> InProcessEngine:
    return InProcessEngine([stream("R"), stream("S"), stream("T")], queries, adaptive=False)


def batch(run: InProcessEngine, second: int) -> None:
    run.batch({name: rows(second) for name in ("R", "S", "T")}, now=second * SECOND)


def what_if(run: InProcessEngine, text: str, replaces: str | None = None) -> WhatIf:
    return assess_query(run.coordinator, QueryRequest("what_if", text), replaces)


def test_a_twin_costs_nothing_and_shares_all() -> None:
    run = engine(q="SELECT R.a FROM R JOIN S ON R.a = S.a")
    batch(run, 1)
    answer = what_if(run, "SELECT R.a FROM R JOIN S ON R.a = S.a")
    assert answer.marginal == pytest.approx(0)
    assert answer.alone > 0
    assert answer.steps
    assert all(step.shared_with == ("q",) for step in answer.steps)
    assert not any(store.is_new or store.new_columns for store in answer.stores)
    assert answer.completeness.is_complete
    assert answer.columns == (("a", "int64"),)


def test_a_new_stream_must_be_stored() -> None:
    run = engine(q="SELECT R.a FROM R JOIN S ON R.a = S.a")
    batch(run, 1)
    answer = what_if(run, "SELECT R.b, T.b AS t FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b")
    stores = {store.name: store for store in answer.stores}
    assert stores["T"].is_new
    assert stores["T"].new_columns == ("b",)
    assert stores["R"].new_columns == ("b",)
    assert stores["R"].shared_with == ("q",)
    assert 0 < answer.marginal <= answer.alone + 1e-9
    assert answer.cost + answer.marginal == pytest.approx(answer.plan.cost)


def test_a_replacement_is_priced_without_the_query_that_it_replaces() -> None:
    text = "SELECT R.a FROM R JOIN S ON R.a = S.a"
    run = engine(q=text, other="SELECT R.b FROM R JOIN T ON R.a = T.a")
    batch(run, 1)
    assert what_if(run, text).marginal == pytest.approx(0)
    same = what_if(run, text, replaces="q")
    assert same.marginal == pytest.approx(same.saved)
    assert same.saved > 0
    assert not any(store.is_new for store in same.stores)
    assert all("q" not in step.shared_with for step in same.steps)
    only = what_if(engine(q=text), text, replaces="q")
    assert (only.cost, only.marginal) == (0, pytest.approx(only.alone))
    with pytest.raises(UnknownNameError):
        what_if(run, text, replaces="nothing")


def test_nothing_changes() -> None:
    run = engine(q="SELECT R.a FROM R JOIN S ON R.a = S.a")
    batch(run, 1)
    before = run.coordinator.changes.setup, run.coordinator.generation, run.coordinator.manifest
    what_if(run, "SELECT R.a FROM R JOIN T ON R.a = T.a")
    assert before == (run.coordinator.changes.setup, run.coordinator.generation, run.coordinator.manifest)
    batch(run, 2)
    assert [*run.coordinator.generation.setup.query_names] == ["q"]


def test_completeness_is_what_adding_the_query_finds() -> None:
    """A column that nobody stored makes early results incomplete, until the watermarks have passed the window of what is missing."""
    run = engine(q="SELECT R.a FROM R JOIN S ON R.a = S.a")
    batch(run, 1)
    batch(run, 2)
    text = "SELECT R.b FROM R JOIN S ON R.a = S.a"
    answer = what_if(run, text)
    assert not answer.completeness.is_complete
    assert answer.completeness.needed_watermarks == {"S": "1970-01-01T00:00:12+00:00"}
    change = run.add_query("p", text)
    for second in range(3, 16):
        batch(run, second)
    complete = change.complete_from
    assert complete is not None
    assert run.coordinator.last > complete > (change.batch or 0)
    # the batch of second s is number s - 1, and its watermark is that of the batch before
    assert complete == 13


def test_an_unbounded_window_is_never_known_to_be_complete() -> None:
    run = InProcessEngine([Stream.of("R", COLUMNS), Stream.of("S", COLUMNS)], {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a"})
    run.batch({"R": rows(1), "S": rows(1)})
    assert what_if(run, "SELECT R.b FROM R JOIN S ON R.a = S.a").completeness.needed_watermarks == {"S": None}


def test_the_only_query() -> None:
    run = engine(q="SELECT R.a FROM R JOIN S ON R.a = S.a")
    batch(run, 1)
    run.remove_query("q")
    batch(run, 2)
    answer = what_if(run, "SELECT R.a FROM R JOIN S ON R.a = S.a")
    assert answer.marginal == answer.alone == answer.plan.cost
    assert answer.cost == 0


def test_what_cannot_be_parsed_is_refused() -> None:
    run = engine(q="SELECT R.a FROM R JOIN S ON R.a = S.a")
    with pytest.raises(QueryError):
        what_if(run, "SELECT R.x FROM R JOIN S ON R.a = S.a")


def test_the_answer_is_plain_data() -> None:
    run = engine(q="SELECT R.a FROM R JOIN S ON R.a = S.a")
    answer = what_if(run, "SELECT R.a FROM R JOIN T ON R.a = T.a")
    data = json.loads(json.dumps(answer.to_data()))
    assert data["stores"][0].keys() == {"id", "name", "is_new", "rows", "new_columns", "shared_with"}
    assert json.loads(answer.explain("json"))["format"] == "clash plan"


@pytest.mark.parametrize("strategy", ["independent", "shared"])
def test_other_strategies(strategy: str) -> None:
    run = InProcessEngine([stream("R"), stream("S")], {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a"}, strategy=strategy)
    run.batch({"R": rows(1), "S": rows(1)})
    answer = what_if(run, "SELECT R.a FROM R JOIN S ON R.a = S.a")
    assert answer.completeness.is_complete is (strategy == "shared")
