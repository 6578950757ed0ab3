"""A stream that is declared otherwise than before: at a restart, and at run time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.errors import CheckpointError, OptionError
from clash.inprocess.engine import InProcessEngine
from clash.model.durations import show_duration
from clash.model.stream import Stream

COLUMNS = {"k": "bigint", "v": "bigint", "ts": "timestamp"}
Q = "SELECT R.v AS r, S.v AS s FROM R JOIN S ON R.k = S.k"
START = datetime(2026, 1, 1, tzinfo=UTC)


def stream(name: str, columns: dict[str, str] | None = None, **options: Any) -> Stream:
    return Stream.of(name, columns or COLUMNS, **{"time": "ts", "window": "10 seconds", "lateness": "0 seconds", **options})


def job(*streams: Stream, **queries: str) -> JobSpec:
    return JobSpec(streams, tuple(QueryRequest(*query) for query in queries.items()), 2, epoch=1, adaptive=False)


def engine(*streams: Stream, **options: Any) -> InProcessEngine:
    return InProcessEngine(streams, {"q": Q}, **options)


def rows(v: int, second: int, **others: Any) -> pa.Table:
    """One row that matches all others, with its value and its event time."""
    times = pa.array([START + timedelta(seconds=second)], pa.timestamp("us", tz="UTC"))
    return pa.table({"k": pa.array([1], pa.int64()), "v": pa.array([v], pa.int64()), "ts": times, **{n: [x] for n, x in others.items()}})


def pairs(run: InProcessEngine, query: str = "q") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in run.results(query).to_pylist())


def test_a_column_that_nobody_reads_changes_nothing() -> None:
    run = engine(stream("R"), stream("S"))
    run.batch({"R": rows(1, 0), "S": rows(1, 0)})
    before = run.coordinator.manifest.complete_from
    run.restart(job(stream("R", {**COLUMNS, "x": "string"}), stream("S"), q=Q))
    run.batch({"R": rows(2, 1, x="a"), "S": rows(2, 1)})
    assert run.coordinator.manifest.complete_from == before
    assert run.coordinator.generation.reason == "column R.x added"
    assert run.coordinator.generation.setup.query("q").changed_batch is None
    assert pairs(run) == [(1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.mark.parametrize("keep", ["needed", "all"])
def test_rows_from_before_a_column_lack_it(keep: str) -> None:
    """They are no part of results that need it: NULL would be a wrong value."""
    run = engine(stream("R", keep=keep), stream("S", keep=keep))
    run.batch({"R": rows(1, 0), "S": rows(1, 0)})
    run.restart(job(stream("R", {**COLUMNS, "x": "string"}, keep=keep), stream("S", keep=keep), q=Q))
    run.batch({"R": rows(2, 1, x="a")})
    change = run.add_query("p", "SELECT R.x, S.v FROM R JOIN S ON R.k = S.k")
    run.batch({"S": rows(2, 2)})
    assert pairs(run, "p") == ([("a", 2)] if keep == "all" else [])
    run.batch({"R": rows(3, 3, x="b")})
    assert pairs(run, "p") == [("a", 2)] * (keep == "all") + [("b", 1), ("b", 2)]
    assert change.complete_from is None
    run.batch({"R": rows(4, 20, x="c"), "S": rows(4, 20)})
    run.batch({"S": rows(5, 20)})
    assert change.complete_from == run.coordinator.last
    assert pairs(run) == sorted([(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (4, 4), (4, 5)])


def test_a_longer_window_is_complete_when_what_was_lost_has_left_it() -> None:
    run = engine(stream("R"), stream("S"))
    for second in (0, 5, 12, 12):
        run.batch({"R": rows(second, second), "S": rows(second, second)})
    assert run.coordinator.manifest.lost_until["s_R"] == _micros(0)
    change = run.change_stream("R", window="1 minute")
    assert change.complete_from is None
    run.batch({"S": rows(61, 61)})
    assert (change.batch, change.complete_from) == (4, None)  # R's row of second 0 is gone
    assert {r for r, s in pairs(run) if s == 61} == {5, 12}
    run.batch({"R": rows(70, 70), "S": rows(70, 70)})
    run.batch({"S": rows(71, 71)})
    assert change.complete_from == 5  # from second 61 on
    assert {r for r, s in pairs(run) if s == 71} == {12, 70}


def test_a_shorter_window_counts_from_the_boundary_on() -> None:
    run = engine(stream("R"), stream("S"))
    run.batch({"R": rows(0, 0)})
    run.batch({"S": rows(9, 9)})
    change = run.change_stream("R", window="5 seconds")
    run.batch({"S": rows(8, 9), "R": rows(9, 9)})
    assert (change.batch, change.complete_from) == (2, 2)
    assert pairs(run) == [(0, 9), (9, 8), (9, 9)]
    assert run.coordinator.generation.reason == "window of stream R '10 seconds' → '5 seconds'"


def test_a_window_that_a_query_gives_itself_stays() -> None:
    run = InProcessEngine(
        [stream("R"), stream("S")], {"q": Q, "p": Q, "o": f"/*+ WINDOW(R, '3 seconds') */ {Q}"}, windows={"p": {"R": "2 s"}}
    )
    run.batch({"R": rows(0, 0)})
    change = run.change_stream("R", window=None)
    assert change.queries == ("q",)
    run.batch({"S": rows(3, 3)})
    run.batch({"S": rows(90, 90)})
    assert [pairs(run, name) for name in "qpo"] == [[(0, 3), (0, 90)], [], [(0, 3)]]


def test_a_watermark_never_falls() -> None:
    run = engine(stream("R"), stream("S"))
    run.batch({"R": rows(0, 20), "S": rows(0, 20)})
    run.batch({"S": rows(0, 20)})
    run.change_stream("R", lateness="15 seconds")
    assert run.batch({"R": rows(1, 19)}).late == {"R": 1}
    assert run.batch({"R": rows(2, 40)}).late == {}
    done = run.batch({"R": rows(3, 26)})
    assert done.late == {}
    assert done.watermarks["R"] == _micros(25)
    run.change_stream("R", lateness=None)
    assert run.batch({"R": rows(4, 24)}).late == {"R": 1}  # it stays where it was
    run.change_stream("R", lateness="0 seconds")
    assert run.batch({"R": rows(5, 39)}).late == {"R": 1}


def test_what_a_call_changed_stays_unless_the_program_changes_it() -> None:
    program = job(stream("R"), stream("S"), q=Q)
    run = InProcessEngine(program.streams, {"q": Q})
    run.batch({"R": rows(0, 0)})
    run.change_stream("R", window="1 minute", lateness="5 seconds")
    run.batch({"S": rows(1, 1)})
    run.restart(program)
    run.batch({"S": rows(2, 50)})
    assert _options(run, "R") == ("1 minute", "5 seconds")
    run.restart(job(stream("R", lateness="1 second"), stream("S"), q=Q))
    run.batch({"S": rows(3, 51)})
    assert _options(run, "R") == ("1 minute", "1 second")
    assert pairs(run) == [(0, 1), (0, 2), (0, 3)]


def test_a_query_without_history_keeps_its_beginning() -> None:
    """Another window does not make it forget what came since it was added, nor see what came before."""
    run = engine(stream("R"), stream("S"))
    run.batch({"R": rows(0, 0)})
    run.add_query("p", Q, history=False)
    run.batch({"R": rows(1, 1)})
    change = run.change_stream("R", window="1 minute")
    run.batch({"S": rows(2, 2)})
    assert pairs(run, "p") == [(1, 2)]
    assert pairs(run) == [(0, 2), (1, 2)]
    assert change.complete_from == 2


def test_a_live_query_keeps_its_columns() -> None:
    """`*` means the columns of the time when the query was added, also if windows change later."""
    star = "SELECT R.* FROM R JOIN S ON R.k = S.k"
    run = InProcessEngine([stream("R"), stream("S")], {"q": star})
    run.batch({"R": rows(0, 0)})
    wider = stream("R", {**COLUMNS, "x": "string"}, window="1 minute")
    run.restart(job(wider, stream("S"), q=star))
    run.batch({"S": rows(1, 1)})
    assert run.results("q").column_names == ["k", "v", "ts"]
    run.replace_query("q", star)
    run.batch({"R": rows(2, 2, x="a")})
    assert run.results("q").column_names == ["k", "v", "ts", "x"]


def test_a_column_may_change_its_type_while_nobody_reads_it() -> None:
    """The rows that are stored have the old type, and are no part of results that need the new one."""
    run = InProcessEngine([stream("R", lateness=None, window=None), stream("S", lateness=None, window=None)], {"q": Q})
    reads_x = "SELECT R.x, S.v FROM R JOIN S ON R.x = S.x"
    both = {name: stream(name, {**COLUMNS, "x": "bigint"}, lateness=None, window=None) for name in "RS"}
    run.restart(job(*both.values(), q=Q, p=reads_x))
    run.batch({"R": rows(0, 0, x=7), "S": rows(0, 0, x=7)})
    text = {name: stream(name, {**COLUMNS, "x": "string"}, lateness=None, window=None) for name in "RS"}
    with pytest.raises(CheckpointError) as error:
        run.restart(job(*text.values(), q=Q))
    assert "column R.x was bigint, now string, and query p reads it" in error.value.detail
    run.restart(job(*both.values(), q=Q))
    run.batch({"R": rows(1, 1, x=8)})
    run.restart(job(*text.values(), q=Q, p=reads_x))
    run.batch({"R": rows(2, 2, x="7"), "S": rows(2, 2, x="7")})
    run.rescale(3)
    run.batch({"S": rows(3, 3, x="8")})
    assert pairs(run, "p") == [("7", 2)]
    assert pairs(run) == sorted((r, s) for r in (0, 1, 2) for s in (0, 2, 3))


def test_another_event_time_is_for_streams_that_nobody_reads() -> None:
    columns = {**COLUMNS, "at": "timestamp"}
    one = [stream("R"), stream("S"), stream("T", columns)]
    other = [*one[:2], stream("T", columns, time="at")]
    run = InProcessEngine(one, {"q": Q, "p": "SELECT T.v FROM T JOIN S ON T.k = S.k"})
    early = pa.array([START], pa.timestamp("us", tz="UTC"))
    run.batch({"T": rows(0, 90).append_column("at", early)})
    with pytest.raises(CheckpointError) as error:
        run.restart(job(*other, q=Q))
    assert "time of stream T was 'ts', now 'at', and query p reads the stream" in error.value.detail
    run.restart(job(*one, q=Q))
    run.batch({"R": rows(0, 0)})
    run.restart(job(*other, q=Q, p="SELECT T.v FROM T JOIN S ON T.k = S.k"))
    run.batch({"T": rows(1, 91).append_column("at", early), "S": rows(1, 0)})
    assert pairs(run, "p") == [(1,)]  # not late: the watermark of the other column is not that of this one
    assert run.coordinator.manifest.complete_from == {"q": 0}


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        (stream("R", {"k": "bigint", "ts": "timestamp"}), "column R.v is missing, and query q reads it"),
        (stream("R", {**COLUMNS, "v": "string"}), "column R.v was bigint, now string, and query q reads it"),
        (stream("R", {**COLUMNS, "at": "timestamp"}, time="at"), "time of stream R was 'ts', now 'at', and query q reads the stream"),
    ],
)
def test_what_stored_rows_forbid_is_refused(changed: Stream, detail: str) -> None:
    run = engine(stream("R"), stream("S"))
    run.batch({"R": rows(0, 0)})
    with pytest.raises(CheckpointError, match="another job") as error:
        run.restart(job(changed, stream("S"), q=Q))
    assert detail in error.value.detail
    assert "window, lateness, idle and keep may change" in str(error.value.hint)
    run.restart(job(stream("R"), stream("S"), q=Q))
    run.batch({"S": rows(1, 1)})
    assert pairs(run) == [(0, 1)]


def test_what_keep_all_retains_has_its_type() -> None:
    run = engine(stream("R", {**COLUMNS, "x": "bigint"}, keep="all"), stream("S"))
    with pytest.raises(CheckpointError) as error:
        run.restart(job(stream("R", {**COLUMNS, "x": "string"}, keep="all"), stream("S"), q=Q))
    assert 'column R.x was bigint, now string, and keep="all" retains it' in error.value.detail


def test_what_is_retained_may_change() -> None:
    """From `needed` to `all` and back: what is there stays, as far as it is needed."""
    run = engine(stream("R"), stream("S"))
    run.batch({"R": rows(0, 0)})
    run.change_stream("R", keep="all")
    run.batch({"R": rows(1, 1)})
    run.change_stream("R", keep="needed")
    run.batch({"S": rows(2, 2)})
    assert pairs(run) == [(0, 2), (1, 2)]


def test_a_stream_that_nobody_reads_may_be_retained_for_a_while() -> None:
    """Once, its store stayed in the plan, without anything that bounds it."""
    run = engine(stream("R"), stream("S"), stream("T"))
    run.batch({"T": rows(0, 0)})
    for keep, stored in (("all", True), ("needed", False), ("all", True)):
        run.change_stream("T", keep=keep)
        run.batch({"T": rows(1, 1)})
        assert ("s_T" in run.coordinator.generation.topology.store) == stored
    change = run.add_query("p", "SELECT T.v AS t, S.v AS s FROM T JOIN S ON T.k = S.k")
    run.batch({"S": rows(2, 2)})
    assert pairs(run, "p") == [(1, 2)]
    assert change.complete_from is None  # of what came while it was not retained nothing is known


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        ("X", {"window": "1 second"}, "unknown stream"),
        ("R", {"window": "soon"}, "the window of stream R is not a duration"),
        ("R", {"keep": "some"}, "unknown value of keep"),
        ("R", {"lateness": None, "idle": "1 second"}, "idle needs lateness"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(name: str, options: dict[str, Any], what: str) -> None:
    run = engine(stream("R"), stream("S"))
    with pytest.raises(OptionError, match=what):
        run.change_stream(name, **options)
    assert run.coordinator.changes.peek().changes == ()


def test_a_change_that_is_requested_while_another_one_begins() -> None:
    """A query that is given another window before its first batch is recorded is the query that begins."""
    run = engine(stream("R"), stream("S"))
    run.batch({"R": rows(0, 0)})
    changes = run.coordinator.changes
    run.add_query("p", Q)
    taken = changes.peek()
    run.change_stream("R", window="1 minute")
    running = replace(taken.setup, queries=tuple(replace(q, batch=1, arrival=5) for q in taken.setup.queries))
    changes.settle(taken, replace(changes._running, setup=running), 1)
    live = changes.peek().setup.query("p")
    assert (live.batch, live.arrival) == (1, 5)
    assert {window for _, window in live.query.join.windows} == {60_000_000, 10_000_000}


def _options(run: InProcessEngine, name: str) -> tuple[str, str]:
    declared = run.coordinator.generation.setup.streams_by_name[name]
    return show_duration(declared.window), show_duration(declared.lateness)


def _micros(second: int) -> int:
    return int((START + timedelta(seconds=second)).timestamp()) * 1_000_000
