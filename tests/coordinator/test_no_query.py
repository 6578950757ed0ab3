"""A run whose last query was removed keeps reading, and the next query starts as any other."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.coordinator.coordinator import Coordinator
from clash.coordinator.inspection import explain_running, statistics
from clash.errors import OptionError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

PAIRS = "SELECT R.a, R.x, S.y FROM R JOIN S ON R.a = S.a"


def streams(keep: Any = "needed") -> tuple[Stream, ...]:
    return tuple(
        Stream.of(
            name, {"a": "bigint", payload: "bigint", "ts": "timestamp"}, time="ts", window="2 seconds", lateness="0 seconds", keep=keep
        )
        for name, payload in (("R", "x"), ("S", "y"))
    )


def rows(batch: int) -> dict[str, pa.Table]:
    """One row of each stream per batch, a second of event time after the one before; the payload tells the batch."""
    time = pa.array([batch * 1_000_000], pa.timestamp("us", "UTC"))
    return {name: pa.table({"a": [1], payload: [batch], "ts": time}) for name, payload in (("R", "x"), ("S", "y"))}


def started(keep: Any = "needed", **options: Any) -> InProcessEngine:
    run = InProcessEngine(streams(keep), {"q": PAIRS}, **options)
    run.batch(rows(0))
    run.batch(rows(1))
    return run


def job(*queries: str, keep: Any = "needed") -> JobSpec:
    return JobSpec(streams(keep), tuple(QueryRequest(name, PAIRS) for name in queries), workers=2, epoch=1, adaptive=False)


def pairs(run: InProcessEngine, query: str) -> list[tuple[int, int]]:
    return sorted((row["x"], row["y"]) for row in run.results(query).to_pylist())


def near(last: range, others: range) -> list[tuple[int, int]]:
    """The pairs in the window whose later part came in a batch of `last`, and no part outside `others`."""
    every = [(x, y) for x in others for y in others if abs(x - y) <= 2]
    return [pair for pair in every if max(pair) in last]


@pytest.mark.parametrize("strategy", ["global", "shared", "independent"])
def test_the_run_keeps_reading(strategy: str) -> None:
    run = started(strategy=strategy)
    change = run.remove_query("q")
    committed = run.batch(rows(2))
    assert change.batch == 2
    assert committed.results == committed.counts == {}
    assert not committed.stores
    assert run.batch(rows(3)).batch == 3
    assert run.generations[-1]["queries"] == []
    assert run.generations[-1]["reason"] == "query q removed"
    assert pairs(run, "q") == near(range(2), range(2))
    assert statistics(run.coordinator) is not None
    assert "0 queries" in explain_running(run.coordinator)
    assert json.loads(explain_running(run.coordinator, "json"))["queries"] == []
    assert "digraph" in explain_running(run.coordinator, "dot")


@pytest.mark.parametrize("strategy", ["global", "independent"])
def test_a_later_query_starts_as_any_other(strategy: str) -> None:
    """What came meanwhile was not stored: it is missing until its windows have passed."""
    run = started(strategy=strategy)
    run.remove_query("q")
    run.batch(rows(2))
    run.rescale(3)
    run.batch(rows(3))
    change = run.add_query("p", PAIRS)
    found = []
    for batch in range(4, 12):
        run.batch(rows(batch))
        found.append(change.complete_from)
    assert (change.batch, found[0]) == (4, None)
    complete = change.complete_from
    assert complete in range(6, 9)
    assert pairs(run, "p") == near(range(4, 12), range(4, 12))
    assert [pair for pair in near(range(complete, 12), range(12)) if pair not in pairs(run, "p")] == []


def test_what_is_retained_for_queries_to_come_is_there() -> None:
    run = started("all")
    run.remove_query("q")
    committed = run.batch(rows(2))
    assert committed.input == {"R": 1, "S": 1}
    assert set(committed.stores) == {"s_R", "s_S"}
    run.batch(rows(3))
    change = run.add_query("p", PAIRS)
    run.batch(rows(4))
    assert (change.batch, change.complete_from) == (4, 4)
    assert pairs(run, "p") == near(range(4, 5), range(5))


def test_all_at_one_boundary() -> None:
    run = started()
    run.remove_query("q")
    run.add_query("q", PAIRS)
    run.batch(rows(2))
    assert pairs(run, "q") == near(range(3), range(3))
    run.add_query("p", PAIRS)
    run.remove_query("p")
    run.remove_query("q")
    assert run.batch(rows(3)).results == {}


@pytest.mark.parametrize("listed", [["q"], []])
@pytest.mark.parametrize("keep", ["needed", "all"])
def test_restarts(listed: list[str], keep: Any) -> None:
    """With the query that was removed, which stays removed, or with none; and then with a new one."""
    run = started(keep)
    run.remove_query("q")
    run.batch(rows(2))
    run.restart(job(*listed, keep=keep))
    assert run.batch(rows(3)).results == {}
    run.restart(job(*listed, keep=keep))
    run.restart(job(*listed, "p", keep=keep))
    run.batch(rows(4))
    assert run.coordinator.generation.setup.query_names == ("p",)
    since = 0 if keep == "all" else 4
    assert pairs(run, "p") == near(range(4, 5), range(since, 5))


def test_a_program_that_drops_its_last_query() -> None:
    run = started()
    run.restart(job())
    assert run.batch(rows(2)).results == {}
    run.restart(job("q"))
    run.batch(rows(3))
    assert pairs(run, "q") == sorted([*near(range(2), range(2)), (3, 3)])


def test_with_statistics_and_a_running_replanner() -> None:
    """Nothing is replanned where there is no query."""
    run = InProcessEngine(streams(), {"q": PAIRS}, adaptive=True)
    for batch in range(3):
        run.batch(rows(batch))
    run.remove_query("q")
    for batch in range(3, 6):
        run.batch(rows(batch))
        run.coordinator.replanner.wait()
    assert not run.coordinator.replanner.failed
    run.add_query("q", PAIRS)
    for batch in range(6, 9):
        run.batch(rows(batch))
        run.coordinator.replanner.wait()
    assert not run.coordinator.replanner.failed


def test_late_rows_stay_readable() -> None:
    run = started()
    run.batch(rows(0))
    run.remove_query("q")
    run.batch(rows(4))
    late = run.late("R")
    assert late.column_names == ["a", "x", "ts"]
    assert late["x"].to_pylist() == [0]


def test_a_first_start_needs_a_query(tmp_path: Any) -> None:
    with pytest.raises(OptionError, match="no query to run"):
        Coordinator(str(tmp_path), replace(job("q"), queries=()))
