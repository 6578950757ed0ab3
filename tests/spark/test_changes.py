"""Queries, workers and streams that come and go while Spark runs, against DuckDB."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.clientserver import ClientServerConnection

import clash
from clash.errors import ClashError
from clash.spark.callback_connection import CallbackConnection
from clash.spark.query_launcher import QueryLauncher

from .files import COLUMNS, JOIN, WITHIN, counted, table

PAIRS = "SELECT R.a, S.b, S.ts AS at FROM R JOIN S ON R.a = S.a"
NEAR = WITHIN.replace(", epoch_us(T.ts)", "")
ALWAYS = range(1_000_000)


class Bench:
    """Three streams of files, a second of event time in each, and what DuckDB says about any query over them."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.seconds = 0
        self.scanned = ""  # streams that Spark has to read, because they are more than plain files
        self.batches: dict[str, list[int]] = {stream: [] for stream in COLUMNS}  # of each file, in order

    def deliver(self, run: Any = None, seconds: int = 1, streams: Iterable[str] = COLUMNS) -> None:
        """And waits until it is read, so that files are read in order."""
        for second in range(self.seconds, self.seconds + seconds):
            for stream in streams:
                folder = self.root / stream
                folder.mkdir(exist_ok=True)
                pq.write_table(table(stream, second), self.root / "new")
                os.utime(self.root / "new", (1_000_000 + second, 1_000_000 + second))
                (self.root / "new").rename(folder / f"{second:03d}.parquet")
        self.seconds += seconds
        if run is not None:
            run.process_all_available()

    def source(self, stream: str) -> Any:
        schema = f"{', '.join(f'{name} bigint' for name in COLUMNS[stream])}, ts timestamp"
        df = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.root / stream))
        return df.selectExpr("*", "1 AS one") if stream in self.scanned else df

    def timed(self, stream: str) -> dict[str, Any]:
        return {"name": stream, "df": self.source(stream), "time": "ts", "window": "500 milliseconds", "lateness": "1 second"}

    def engine(self, streams: str = "RST", **options: Any) -> Any:
        made = clash.Engine(self.spark, str(self.root / "checkpoint"), **{"workers": 2, "epoch": 1, **options})
        for stream in streams:
            made.stream(**self.timed(stream))
        return made

    def note(self, run: Any) -> None:
        """What its batches have read: at most one file of each stream each."""
        for entry in run.recent_progress:
            for stream, rows in entry["input"].items():
                assert rows == 120
                self.batches[stream].append(entry["batch"])

    def expected(self, text: str, schema: pa.Schema, last: range, first: range = ALWAYS, **arrived: range) -> Counter[str]:
        """Results whose last row came in a batch of `last` and first row in one of `first`; `arrived`: per stream, which batches count."""
        relations = [stream for stream in COLUMNS if f"{stream}." in text]
        near = WITHIN if "T" in relations else NEAR
        batches = ", ".join(f"{stream}.batch" for stream in relations)
        conditions = [near, _within(f"greatest({batches})", last), _within(f"least({batches})", first)]
        conditions += [_within(f"{stream}.batch", some) for stream, some in arrived.items()]
        with duckdb.connect() as connection:
            connection.execute("SET timezone = 'UTC'")
            for stream in relations:
                files = sorted((self.root / stream).glob("*.parquet"))
                read = zip(files, self.batches[stream], strict=True)
                whole = [(part := pq.read_table(file)).append_column("batch", pa.array([batch] * len(part))) for file, batch in read]
                connection.register(stream, pa.concat_tables(whole))
            return counted(connection.sql(f"{text} WHERE {' AND '.join(conditions)}").to_arrow_table().cast(schema))

    def check(self, run: Any, query: str, text: str, last: range, first: range = ALWAYS, **arrived: range) -> None:
        found = run.results(query).toArrow()
        wanted = self.expected(text, found.schema, last, first, **arrived)
        assert wanted
        assert counted(found) == wanted, query


def _within(what: str, some: range) -> str:
    return f"{what} BETWEEN {some.start} AND {some.stop - 1}"


@pytest.fixture
def bench(spark: Any, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


def test_queries_come_and_go(bench: Bench) -> None:
    """With history and without, removed, replaced, on more workers and on fewer; and all of it stays so after a restart."""

    def engine() -> Any:
        made = bench.engine()
        made.query("gone", JOIN)
        made.query("same", JOIN, sink=clash.sinks.Memory())
        made.query("other", PAIRS)
        return made

    bench.deliver(seconds=2)
    run = engine().start()
    run.process_all_available()
    late = run.add_query("late", JOIN, sink=clash.sinks.Parquet(bench.root / "late"))
    fresh = run.add_query("fresh", JOIN, history=False)
    assert late.batch is None
    assert run.results("fresh").count() == 0
    assert run.results("fresh").columns == ["a", "x", "b", "y", "at"]
    bench.deliver(run)
    first = late.wait(100)
    assert first == fresh.wait(100) == late.complete_from
    assert set(run.queries) == {"gone", "same", "other", "late", "fresh"}
    gone, other, more = run.remove_query("gone"), run.replace_query("other", JOIN), run.rescale(3)
    bench.deliver(run, 2)
    assert gone.batch == other.batch == more.batch
    assert "gone" not in run.queries
    assert " 3 workers" in run.explain()
    fewer = run.rescale(workers=1)
    bench.deliver(run)
    assert fewer.batch is not None
    run.stop()
    assert run.exception is None
    bench.note(run)
    assert [(g["workers"], len(g["queries"])) for g in run.generations] == [(2, 3), (2, 5), (3, 4), (1, 4)]
    assert run.progress["generation"] == 3
    with pytest.raises(clash.OptionError, match="not active"):
        run.remove_query("late")

    again = engine().start()
    bench.deliver(again)
    again.stop()
    bench.note(again)
    assert again.generations[-1]["workers"] == 1
    assert set(again.queries) == {"same", "other", "late", "fresh"}
    end, moved = again.progress["batch"] + 1, other.batch
    bench.check(again, "gone", JOIN, range(gone.batch))
    bench.check(run, "same", JOIN, range(again.recent_progress[0]["batch"]))
    bench.check(again, "late", JOIN, range(first, end))
    bench.check(again, "fresh", JOIN, range(first, end), range(first, end))
    bench.check(again, "other", JOIN, range(moved, end))
    assert counted(pq.read_table(bench.root / "late")) == counted(again.results("late").toArrow())


@pytest.mark.parametrize("scanned", ["", "T", "RST"])
def test_columns_and_streams_that_were_not_read(bench: Bench, scanned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark query is started again for them, which is no failure of the one before; a new stream is read from its beginning. A function
    has to be given again."""
    bench.scanned = scanned
    queries = []
    start = QueryLauncher.start

    def started(*given: Any) -> Any:
        queries.append(start(*given))
        return queries[-1]

    monkeypatch.setattr(QueryLauncher, "start", started)
    handed: dict[int, Counter[str]] = {}

    def take(df: Any, batch: int) -> None:
        assert batch not in handed
        handed[batch] = counted(df.toArrow())

    bench.deliver(seconds=2)
    engine = bench.engine("RS")
    engine.query("pairs", PAIRS)
    run = engine.start(trigger="50 milliseconds")
    run.process_all_available()
    run.stream(**bench.timed("T")).wait(100)
    change = run.add_query("three", JOIN, sink=clash.sinks.ForeachBatch(take))
    kept = run.add_query("kept", JOIN)
    first = change.wait(100)  # T alone has news
    run.process_all_available()
    bench.deliver(run, 4)
    assert kept.batch == first
    assert change.complete_from is not None
    assert change.complete_from > first
    run.stop()
    assert len(queries) > 1
    assert [query.exception() for query in queries] == [None] * len(queries)
    assert run.exception is None
    bench.note(run)

    engine = bench.engine("RS")
    engine.query("pairs", PAIRS)
    with pytest.raises(clash.CheckpointError, match="stream") as missing:
        engine.start()
    assert "T" in missing.value.detail
    engine = bench.engine()
    engine.query("pairs", PAIRS)
    with pytest.raises(clash.CheckpointError, match="the function"):
        engine.start()
    engine.query("three", JOIN, sink=clash.sinks.ForeachBatch(take))
    bench.deliver()
    again = engine.start(available_now=True)
    assert again.await_termination(300)
    bench.note(again)
    end = again.progress["batch"] + 1
    since = range(first, end)
    bench.check(again, "pairs", PAIRS, range(end))
    bench.check(again, "kept", JOIN, since, R=since)  # of R, x was not read before
    assert sum(handed.values(), Counter()) == counted(again.results("kept").toArrow())
    assert sorted(handed) == [*since]


@pytest.mark.parametrize("scanned", ["", "RST"])
def test_the_last_query_goes_and_another_comes(bench: Bench, scanned: str) -> None:
    """Meanwhile the streams are read past, also over a restart; the program still lists what was removed, and it stays removed."""
    bench.scanned = scanned

    def engine() -> Any:
        made = bench.engine()
        made.query("pairs", PAIRS)
        return made

    def read_past(run: Any) -> None:
        before = run.progress["batch"]
        bench.deliver(run)
        assert run.progress["batch"] > before
        assert run.progress["results"] == run.progress["stores"] == {}
        for batches in bench.batches.values():
            batches.append(run.progress["batch"])

    bench.deliver(seconds=2)
    run = engine().start()
    run.process_all_available()
    gone = run.remove_query("pairs")
    bench.note(run)
    bench.batches["T"] = [*bench.batches["R"]]  # no query has read it so far
    read_past(run)
    read_past(run)
    assert gone.batch is not None
    assert run.queries == {}
    run.stop()
    assert run.exception is None

    run = engine().start()
    read_past(run)
    assert run.queries == {}
    assert run.generations[-1]["queries"] == []
    assert "0 queries" in run.explain()
    change = run.add_query("three", JOIN)
    bench.deliver(run, 7)
    first = change.wait("100 seconds")
    assert change.complete_from is not None
    assert change.complete_from > first
    run.stop()
    assert run.exception is None
    bench.note(run)
    since = range(first, run.progress["batch"] + 1)
    bench.check(run, "pairs", PAIRS, range(gone.batch))
    bench.check(run, "three", JOIN, since, R=since, S=since, T=since)


def test_each_new_stream_waits_for_its_own_query(bench: Bench) -> None:
    """T is declared before S and needed after it: its first rows are not read past meanwhile. A start goes on with them in that order."""
    bench.deliver(seconds=2)
    engine = bench.engine("R")
    engine.query("one", "SELECT R.a, R.ts AS at FROM R")
    run = engine.start()
    run.process_all_available()
    run.stream(**bench.timed("T"))
    run.stream(**bench.timed("S"))
    run.add_query("pairs", PAIRS).wait(100)
    run.process_all_available()
    assert not any("T" in entry["input"] for entry in run.recent_progress)
    run.add_query("two", "SELECT T.b, S.a, S.ts AS at FROM S JOIN T ON S.b = T.b").wait(100)
    bench.deliver(run)
    run.stop()
    assert run.exception is None
    bench.deliver()
    engine = bench.engine()
    engine.query("one", "SELECT R.a, R.ts AS at FROM R")
    again = engine.start(available_now=True)
    assert again.await_termination(300)
    entries = [*run.recent_progress, *again.recent_progress]
    assert {stream: sum(entry["input"].get(stream, 0) for entry in entries) for stream in COLUMNS} == dict.fromkeys(COLUMNS, 4 * 120)


def test_what_has_ended_is_released(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinks of removed queries, and the connections of the threads of Spark queries that were started again."""
    used: set[int] = set()

    def remember(connection: CallbackConnection) -> None:
        connection._port = connection._gateway._gateway_client.get_thread_connection().socket.getpeername()[1]
        used.add(connection._port)

    monkeypatch.setattr(CallbackConnection, "remember", remember)
    bench.deliver(seconds=2)
    engine = bench.engine("R")
    engine.query("one", "SELECT R.a FROM R")
    run = engine.start()
    for stream in "ST":
        run.stream(**bench.timed(stream))
        run.add_query(f"of_{stream}", f"SELECT {stream}.b FROM {stream}").wait(100)
    for number in range(3):
        run.add_query(f"q{number}", "SELECT R.x FROM R", sink=clash.sinks.Memory())
        bench.deliver(run)
        run.remove_query(f"q{number}")
        bench.deliver(run)
    run.add_query("last", "SELECT R.x FROM R", sink=clash.sinks.Memory())
    assert set(engine._sinks) == {"one", "of_S", "of_T", "last"}
    run.stop()
    assert len(used) >= 2
    deadline = time.monotonic() + 60
    while used & _callback_ports() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not used & _callback_ports()


def _callback_ports() -> set[int]:
    """Of the JVM's ends of the connections over which it calls Python; each has a thread of Py4J's in this process."""
    ports = set()
    for thread in threading.enumerate():
        connection = getattr(getattr(thread, "_target", None), "__self__", None)
        if isinstance(connection, ClientServerConnection):
            with suppress(OSError, AttributeError):  # it is being closed
                ports.add(connection.socket.getpeername()[1])
    return ports


def test_a_stream_is_kept_for_a_query_to_come(bench: Bench) -> None:
    """It is read at once, and the query finds what came before it."""
    bench.deliver(seconds=2)
    engine = bench.engine("RS", epoch="1 hour")
    engine.query("pairs", "SELECT R.a, R.x, S.b, S.ts AS at FROM R JOIN S ON R.a = S.a")
    run = engine.start()
    run.process_all_available()
    run.stream(**bench.timed("T"), keep="all")
    run.process_all_available()
    assert any("T" in entry["input"] for entry in run.recent_progress)
    run.stop()
    bench.note(run)
    boundary = run.progress["batch"] + 1
    engine.query("three", JOIN)
    bench.deliver()
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    bench.note(run)
    bench.check(run, "three", JOIN, range(boundary, run.progress["batch"] + 1))


def test_a_changed_program_goes_on(bench: Bench) -> None:
    """Its list is compared with that of its last start. A stream may be new, too."""
    bench.deliver(seconds=2)
    engine = bench.engine("RS", epoch="1 hour")
    engine.query("pairs", PAIRS)
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    bench.note(run)
    boundary = run.progress["batch"] + 1
    engine = bench.engine(epoch="1 hour")
    engine.query("three", JOIN)
    bench.deliver()
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    bench.note(run)
    end = run.progress["batch"] + 1
    assert set(run.queries) == {"three"}
    bench.check(run, "pairs", PAIRS, range(boundary))
    bench.check(run, "three", JOIN, range(boundary, end), R=range(boundary, end))


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda run, df: run.add_query("pairs", PAIRS), "name already"),
        (lambda run, df: run.add_query("q", "SELECT R.z FROM R JOIN S ON R.a = S.a"), "z|column"),
        (lambda run, df: run.add_query("q", PAIRS, sink="out"), "not a sink"),
        (lambda run, df: run.add_query("q", PAIRS, history="yes"), "history"),
        (lambda run, df: run.add_query("q", PAIRS, windows="1 second"), "windows"),
        (lambda run, df: run.add_query("q", PAIRS, windows={"R": ["1 second"]}), "window is not a duration"),
        (lambda run, df: run.add_query("q", PAIRS, windows={1: "1 second"}), "window is not a duration"),
        (lambda run, df: run.add_query(1, PAIRS), "query name"),
        (lambda run, df: run.add_query(["q"], PAIRS), "query name"),
        (lambda run, df: run.add_query("q", None), "query is text"),
        (lambda run, df: run.add_query("q", [PAIRS]), "query is text"),
        (lambda run, df: run.replace_query("pairs", None), "query is text"),
        (lambda run, df: run.replace_query(None, PAIRS), "query name"),
        (lambda run, df: run.replace_query("pairs", PAIRS, sink=clash.sinks.Memory), "not a sink"),
        (lambda run, df: run.replace_query("pair", PAIRS), "unknown query"),
        (lambda run, df: run.remove_query(None), "unknown query"),
        (lambda run, df: run.remove_query(["pairs"]), "unknown query"),
        (lambda run, df: run.remove_query("pair"), "unknown query"),
        (lambda run, df: run.rescale(0), "workers"),
        (lambda run, df: run.rescale(workers=True), "workers"),
        (lambda run, df: run.rescale("x"), "workers"),
        (lambda run, df: run.rescale(None), "workers"),
        (lambda run, df: run.stream("R", df), "stream of that name"),
        (lambda run, df: run.stream("V", "rate"), "not a DataFrame"),
        (lambda run, df: run.stream("V", df, time="z"), "time column"),
        (lambda run, df: run.stream("V", df, time=["ts"]), "time column"),
        (lambda run, df: run.stream("V", df, window=5), "window of stream V"),
        (lambda run, df: run.stream("V", df, lateness=["1 second"]), "lateness of stream V"),
        (lambda run, df: run.stream("V", df, keep=["all"]), "keep"),
        (lambda run, df: run.stream(5, df), "stream name"),
        (lambda run, df: run.stream(["V"], df), "stream name"),
        (lambda run, df: run.stream("V", None), "not a DataFrame"),
        (lambda run, df: run.stream("V", df.sparkSession.range(3)), "not a stream"),
        (lambda run, df: run.results("q"), "unknown query"),
        (lambda run, df: run.result_stream("q"), "unknown query"),
        (lambda run, df: run.results(["pairs"]), "unknown query"),
        (lambda run, df: run.result_stream(None), "unknown query"),
        (lambda run, df: run.late("q"), "unknown stream"),
        (lambda run, df: run.late(["R"]), "unknown stream"),
        (lambda run, df: run.explain("html"), "format"),
        (lambda run, df: run.explain(["text"]), "format"),
        (lambda run, df: run.await_termination("soon"), "timeout is not a duration"),
        (lambda run, df: run.await_termination(True), "timeout"),
        (lambda run, df: run.await_termination(-1), "timeout"),
    ],
)
def test_mistakes(running: tuple[Any, Any], ask: Callable[[Any, Any], object], what: str) -> None:
    """Refused at the call; the run does not notice."""
    run, df = running
    with pytest.raises(ClashError, match=what) as caught:
        ask(run, df)
    assert caught.value.detail
    assert caught.value.hint
    assert run.is_active
    assert set(run.queries) == {"pairs"}


@pytest.fixture(scope="module")
def running(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    bench = Bench(spark, tmp_path_factory.mktemp("running"))
    bench.deliver()
    engine = bench.engine("RS")
    engine.query("pairs", PAIRS)
    run = engine.start(trigger="1 hour")
    yield run, bench.source("T")
    run.stop()


def test_a_query_that_fails_can_be_replaced_by_a_new_start(bench: Bench) -> None:
    """The batch that it failed is on record under it; a program that lists it with another text begins with that very batch."""
    failing = PAIRS.replace("S.b", "1 / (S.b - S.b) AS b")

    def engine(**queries: str) -> Any:
        made = bench.engine("RS")
        for name, text in queries.items():
            made.query(name, text)
        return made

    bench.deliver()
    run = engine(pairs=PAIRS).start()
    run.process_all_available()
    run.add_query("bad", failing)
    other = run.add_query("other", PAIRS)
    with pytest.raises(clash.DataError, match="division by zero"):
        bench.deliver(run)
    bench.note(run)
    with pytest.raises(clash.DataError):  # the same program gets no further
        engine(pairs=PAIRS).start().await_termination()
    again = engine(pairs=PAIRS, bad=PAIRS).start()
    bench.deliver(again)
    again.stop()
    bench.note(again)
    first = other.batch
    assert first is not None
    bench.check(again, "pairs", PAIRS, ALWAYS)
    bench.check(again, "other", PAIRS, range(first, 100))
    bench.check(again, "bad", PAIRS, range(first, 100))


def test_a_stream_means_what_it_meant(bench: Bench) -> None:
    """Queries may write a stream's name in another case: a second stream that is called so would change what they mean."""
    bench.deliver()
    engine = bench.engine("RS")
    with pytest.raises(clash.OptionError, match="differ in case only"):
        engine.stream("r", bench.source("T"))
    engine.query("pairs", PAIRS.replace("R", "r"))
    run = engine.start(trigger="1 hour")
    with pytest.raises(clash.OptionError, match="differ in case only"):
        run.stream("r", bench.source("T"))
    run.stop()


def test_a_change_after_the_last_batch_is_refused(bench: Bench) -> None:
    """Waiting for a change that no batch will make ends with an error when the run ends."""
    bench.deliver()
    engine = bench.engine("RS")
    engine.query("pairs", PAIRS)
    run = engine.start(trigger="1 hour")
    while run.progress["batch"] < 0 and run.is_active:
        run.await_termination(0.05)
    change = run.rescale(4)
    assert change.wait(0.01) is None
    assert change.wait("10 milliseconds") is None
    assert not run.await_termination("10 milliseconds")
    run.stop()
    with pytest.raises(ClashError, match="ended"):
        change.wait()
    with pytest.raises(clash.OptionError, match="not active"):
        run.rescale(4)
    with pytest.raises(clash.OptionError, match="not active"):
        run.add_query("q", PAIRS)
    with pytest.raises(clash.OptionError, match="not active"):
        run.stream("V", bench.source("T"))
