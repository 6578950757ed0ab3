"""Changes one by one: when they take effect, what is refused, and that old generations end."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from clash.coordinator.control.changes import Change
from clash.coordinator.inspection import explain_running
from clash.coordinator.lifecycle.split_points import remaining_rows
from clash.errors import ClashError, OptionError, QueryError
from clash.model.statistics import Statistics
from clash.model.stream import Stream

from .matching import COLUMNS, RS, RST, ST, STREAMS, engine, tables


def test_a_change_waits_for_the_next_boundary() -> None:
    run = engine({"q": RS}, epoch=3)
    run.batch(tables(0))
    change = run.add_query("p", ST)
    assert change.batch is None
    assert change.wait(0) is None
    run.batch(tables(1))
    run.batch(tables(2))
    assert change.batch is None
    run.batch(tables(3))
    assert change.batch == change.wait() == 3
    assert [g["queries"] for g in run.generations] == [["q"], ["q", "p"]]
    assert run.generations[1]["reason"] == "query p added"
    assert run.generations[1]["batch"] == 3


def test_epochs_by_duration_follow_the_batches_clock() -> None:
    run = engine({"q": RS}, epoch="10 seconds")
    run.batch(tables(0), now=100_000_000)
    change = run.rescale(3)
    run.batch(tables(1), now=109_999_999)
    assert change.batch is None
    run.batch(tables(2), now=110_000_000)
    assert change.batch == 2
    assert run.coordinator.loaded_plan.topology.workers == 3


def test_a_waiting_thread_is_woken() -> None:
    run = engine({"q": RS})
    change = run.rescale(1)
    found: list[int | None] = []
    waiting = threading.Thread(target=lambda: found.append(change.wait(30)))
    waiting.start()
    run.batch(tables(0))
    waiting.join(30)
    assert found == [0]


def test_changes_at_one_boundary_are_one_generation() -> None:
    run = engine({"q": RS})
    run.batch(tables(0))
    changes = [run.add_query("p", ST), run.remove_query("q"), run.rescale(3), run.add_query("r", RST, history=False)]
    run.batch(tables(1))
    assert [change.batch for change in changes] == [1, 1, 1, 1]
    assert len(run.generations) == 2
    assert run.coordinator.generation.setup.query_names == ("p", "r")


def test_history_or_not() -> None:
    run = engine({"q": RST})
    run.batch(tables(0))
    run.add_query("all", RST)
    run.add_query("fresh", RST, history=False)
    run.batch(tables(1))
    assert run.results("q").num_rows == 8**3
    assert run.results("all").num_rows == 8**3 - 4**3
    assert run.results("fresh").num_rows == 4**3


def test_replacing_is_at_one_boundary() -> None:
    run = engine({"q": RS})
    run.batch(tables(0))
    change = run.replace_query("q", "SELECT R.a FROM R JOIN S ON R.b = S.b")
    run.batch(tables(1))
    assert change.batch == 1
    assert run.results("q").column_names == ["a"]  # other columns: a folder of its own
    assert run.results("q").num_rows == 64 - 16
    assert run.coordinator.generation.setup.query("q").folder == "q.1"


def test_results_outlive_the_query(tmp_path: Path) -> None:
    run = engine({"q": RS, "p": ST}, uri=str(tmp_path))
    run.batch(tables(0))
    run.remove_query("q")
    run.batch(tables(1))
    assert run.results("q").num_rows == 16
    run.restart()
    assert run.results("q").num_rows == 16
    assert run.results("q").column_names == ["a", "c"]
    assert run.coordinator.generation.setup.query_names == ("p",)


@pytest.mark.parametrize(
    ("ask", "error", "what"),
    [
        (lambda run: run.add_query("q", RS), OptionError, "name already"),
        (lambda run: run.add_query("p", "SELECT R.x FROM R JOIN S ON R.b = S.b"), QueryError, "column"),
        (lambda run: run.add_query("p", "SELECT 1 FROM R, S"), QueryError, "joined by an equality"),
        (lambda run: run.add_query("p", RS, history="no"), OptionError, "history"),
        (lambda run: run.remove_query("missing"), OptionError, "unknown query"),
        (lambda run: run.replace_query("missing", RS), OptionError, "unknown query"),
        (lambda run: run.rescale(0), OptionError, "workers"),
        (lambda run: run.add_stream(STREAMS[0]), OptionError, "stream of that name"),
    ],
)
def test_refused_at_the_call(ask: object, error: type[ClashError], what: str) -> None:
    run = engine({"q": RS})
    run.batch(tables(0))
    with pytest.raises(error, match=what):
        ask(run)  # type: ignore[operator]
    run.batch(tables(1))
    assert len(run.generations) == 1
    assert run.results("q").num_rows == 64


def test_a_query_that_cannot_be_planned_does_not_disturb_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    run = engine({"q": RS})
    run.batch(tables(0))
    change = run.add_query("p", ST)
    monkeypatch.setattr("clash.coordinator.coordinator.begin_generation", lambda *_: 1 / 0)
    run.batch(tables(1))
    monkeypatch.undo()
    with pytest.raises(ClashError, match="cannot be made"):
        change.wait()
    run.add_query("p", ST)
    run.batch(tables(2))
    assert run.coordinator.generation.setup.query_names == ("q", "p")


def test_a_closed_run_refuses_changes_and_wakes_waiting_callers() -> None:
    run = engine({"q": RS})
    change = run.rescale(3)
    run.coordinator.changes.close()
    with pytest.raises(ClashError, match="ended"):
        change.wait()
    with pytest.raises(ClashError, match="ended"):
        run.rescale(2)


def test_unread_streams_are_dropped_and_a_later_query_is_incomplete() -> None:
    run = engine({"q": RST, "p": RS})
    run.batch(tables(0))
    run.remove_query("q")
    committed = run.batch(tables(1))
    assert set(committed.stores) == {"s_R", "s_S"}
    change = run.add_query("q2", RST)
    run.batch(tables(2))
    assert change.complete_from is None  # nothing ever ends the window: what T had may always be missing
    assert run.results("q2").num_rows > 0
    other = run.add_query("p2", RS)
    run.batch(tables(3))
    assert other.complete_from == other.batch == 3


def test_complete_again_when_windows_have_passed() -> None:
    streams = [
        Stream.of(n, {**dict.fromkeys(c, "bigint"), "ts": "timestamp"}, time="ts", window="2 seconds", lateness="0 seconds")
        for n, c in COLUMNS.items()
    ]

    def timed(batch: int) -> dict[str, pa.Table]:
        times = pa.array([batch * 1_000_000] * 4, pa.timestamp("us", "UTC"))
        return {name: table.append_column("ts", times) for name, table in tables(batch).items()}

    run = engine({"q": RS}, streams)
    for batch in range(3):
        run.batch(timed(batch))
    change = run.add_query("r", RST)  # T was never read
    found = []
    for batch in range(3, 10):
        run.batch(timed(batch))
        found.append(change.complete_from)
    assert found[0] is None
    assert found[-1] in range(4, 8)


def test_rows_of_old_layouts_move_where_nothing_expires(tmp_path: Path) -> None:
    run = engine({"q": RST}, uri=str(tmp_path), tuning={"relayout_rows": 32})
    for batch in range(3):
        run.batch(tables(batch))
    run.rescale(3)
    found = []
    for batch in range(3, 12):
        run.batch(tables(batch))
        found.append(sum(remaining_rows(record) for record in run.coordinator.manifest.containers if record.generation == 0))
    assert found == sorted(found, reverse=True)  # a range with every batch, of large containers too
    assert len(set(found)) > 3
    assert {record.generation for record in run.coordinator.manifest.containers} == {1}
    assert run.results("q").num_rows == (12 * 4) ** 3
    assert len(list((tmp_path / "plans").iterdir())) == 1


def test_layouts_that_change_often_do_not_accumulate_in_long_windows() -> None:
    streams = [
        Stream.of(n, {**dict.fromkeys(c, "bigint"), "ts": "timestamp"}, time="ts", window="1 hour", lateness="0 seconds")
        for n, c in COLUMNS.items()
    ]
    run = engine({"q": RS}, streams)
    most = 0
    for batch in range(24):
        if batch:
            run.rescale(2 + batch % 3)
        times = pa.array([batch * 1_000_000] * 4, pa.timestamp("us", "UTC"))
        run.batch({name: table.append_column("ts", times) for name, table in tables(batch, "RS").items()})
        per_store = {(record.store, record.generation) for record in run.coordinator.manifest.containers}
        most = max(most, *Counter(store for store, _ in per_store).values())
    assert len(run.generations) == 24
    assert most <= 6  # four large ones, one more until it has moved, and today's
    assert run.results("q").num_rows == (24 * 4) ** 2


def test_rows_that_move_expire_as_if_they_had_not() -> None:
    streams = [
        Stream.of(n, {**dict.fromkeys(c, "bigint"), "ts": "timestamp"}, time="ts", window="8 seconds", lateness="0 seconds")
        for n, c in COLUMNS.items()
    ]
    run = engine({"q": RS}, streams, tuning={"old_layouts": 0})
    for batch in range(40):
        if batch % 3 == 1:
            run.rescale(2 + batch % 2)
        times = pa.array([batch * 1_000_000] * 4, pa.timestamp("us", "UTC"))
        run.batch({name: table.append_column("ts", times) for name, table in tables(batch, "RS").items()})
    rows = Counter[str]()
    for record in run.coordinator.manifest.containers:
        rows[record.store] += record.rows
    assert all(count <= 4 * 12 for count in rows.values())  # of 40 batches those of the window, and what shares a container with them


def test_intermediate_stores_are_backfilled(tmp_path: Path) -> None:
    run = engine({"q": RST}, uri=str(tmp_path), mirs=False, tuning={"relayout_rows": 8}, workers=2)
    for batch in range(4):
        run.batch(tables(batch))
    rare = Statistics(rates={"R": 100_000, "S": 10, "T": 10}, selectivities={"R.b = S.b": 0.1, "S.c = T.c": 1e-6})
    wide = replace(run.coordinator.changes.setup, mirs=True)
    plan = wide.optimize(rare)
    assert any(store.key.join is not None for store in plan.stores)
    run.replan(plan)
    filling = 0
    for batch in range(4, 16):
        run.batch(tables(batch))
        filling += any(origin.backfills is not None for origin in run.coordinator.loaded_plan.topology.origins)
    assert 2 <= filling < 12
    assert all(rule.before is None for rule in run.coordinator.loaded_plan.topology.rules if hasattr(rule, "before"))
    assert run.results("q").num_rows == (16 * 4) ** 3


@pytest.mark.parametrize("format", ["text", "json", "dot"])
def test_explaining_what_runs_plans_nothing(monkeypatch: pytest.MonkeyPatch, format: Literal["text", "json", "dot"]) -> None:
    run = engine({"q": RS, "p": ST})
    for planning in ("clash.optimizer.replan", "clash.optimizer.plan_queries", "clash.coordinator.control.setup.plan_queries"):
        monkeypatch.setattr(planning, lambda *_, **__: 1 / 0)
    assert "q" in explain_running(run.coordinator, format)


def test_handles_show_what_they_wait_for() -> None:
    run = engine({"q": RS})
    change: Change = run.rescale(3)
    assert repr(change) == "<rescale to 3: waits>"
    run.batch(tables(0))
    assert repr(change) == "<rescale to 3: batch 0>"
    assert change.complete_from == 0


def test_queries_that_have_ended_are_not_kept_in_memory() -> None:
    """Their results are found all the same."""
    run = engine({"q": RS})
    for batch in range(6):
        if batch:
            run.remove_query(f"p{batch - 1}")
        run.add_query(f"p{batch}", ST)
        run.batch(tables(batch))
    assert {*run.coordinator.publisher.queries} == {"q", "p5"}
    assert [run.results(name).num_rows for name in ("p0", "p1")] == [16, 48]  # of the one batch that each had
    assert {*run.coordinator.publisher.queries} == {"q", "p5"}
