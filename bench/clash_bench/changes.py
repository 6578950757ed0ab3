"""Twenty queries added one by one to a running job and removed again: throughput, latency, and a check of every result.

Invariant: which results a query must have follows from the batches alone: those whose last part arrived in its first batch or later, and
before the batch of its removal; without history, the first part must have arrived then, too. From `complete_from` on, the results must be
exactly these. Before it some may be missing, because columns were not retained for the query, but none may be wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np

from clash.cli.row_content import THREADS
from clash.errors import ClashError
from clash_bench.adaptive_data import WINDOW
from clash_bench.adaptive_feed import feeding, lag
from clash_bench.adaptive_latency import FileBatches, Latencies, assign_files, commit_times, tuple_latencies
from clash_bench.adaptive_run import DRAIN, FEEDER_START, WARM_UP_DRAIN, drain, fed_engine
from clash_bench.changes_data import BASE, QUERIES, JoinQuery, ShopScript
from clash_bench.changes_plot import draw_changes
from clash_bench.tables import note, write
from clash_bench.tpch_run import session

CALM = 6.0  # seconds before the first change, between the last addition and the first removal, and after the last removal
WARM_UP_RATE, WARM_UP_EVERY = 200, 0.4


@dataclass(frozen=True)
class QueryRow:
    """A line of the CSV file: one query. Seconds count from the first tuple."""

    query: str
    text: str
    history: bool
    asked: float
    """The second in which `add_query` was called."""
    ended: float
    """The second in which `remove_query` was called."""
    call: float
    """Milliseconds that `add_query` took."""
    added: int
    """Its first batch."""
    complete_from: int | None
    removed: int
    """The first batch without it."""
    results: int
    early: int
    """Results from before `complete_from`."""
    lacking: int
    """Further results from before `complete_from` that there would be if all columns had been retained."""
    exact: bool
    """Whether no result is wrong, and none is missing from `complete_from` on."""


@dataclass(frozen=True)
class SecondRow:
    """A line of the CSV file: one second of the run."""

    second: int
    queries: int
    due: int
    """Tuples that were due in this second."""
    committed: float
    """Tuples of batches, distributed evenly over the time since the batch before; likewise `results`."""
    results: float
    p50: float | None
    """Milliseconds from when a tuple was due to the commit of its batch; likewise `p95`."""
    p95: float | None
    generation: int


@dataclass(frozen=True)
class ChangesRun:
    """What was measured of the run."""

    queries: Sequence[QueryRow]
    seconds: Sequence[SecondRow]
    lag: float
    """The largest delay of the feeder, in seconds."""


@dataclass(frozen=True)
class _QueryLife:
    """A query while it is measured; fields are as in `QueryRow`."""

    query: JoinQuery
    asked: float
    call: float
    change: Any
    """What `add_query` returned."""
    ended: float = 0.0
    removal: Any = None
    """What `remove_query` returned."""


def run(rate: int, every: float, out: Path) -> None:
    """The options are those of the command `changes`."""
    with session() as spark:
        note("warming up")
        run_changes(spark, WARM_UP_RATE, WARM_UP_EVERY, 2.0, QUERIES[:5], WARM_UP_DRAIN)
        ran = run_changes(spark, rate, every)
    write(out / "changes-queries.csv", QueryRow, ran.queries)
    write(out / "changes.csv", SecondRow, ran.seconds)
    note(f"{len(ran.queries)} queries, {sum(query.results for query in ran.queries):,} results, feeder late by {ran.lag:.2f} s")
    wrong = [query.query for query in ran.queries if not query.exact]
    if wrong:
        raise ClashError("results differ from DuckDB's", ", ".join(wrong), f"see {out / 'changes-queries.csv'}; this is a bug of ours")
    draw_changes(ran, rate, out / "changes.png")


def run_changes(
    spark: Any, rate: int, every: float, calm: float = CALM, queries: Sequence[JoinQuery] = QUERIES, max_drain: float = DRAIN
) -> ChangesRun:
    """Adds and then removes the queries, one every `every` seconds, while the streams are fed in real time."""
    from clash import sinks

    script = ShopScript(rate, 2 * every * len(queries) + 3 * calm)
    with TemporaryDirectory(prefix="clash-changes-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with fed_engine(spark, script, folder, adaptive=True, statistics=None) as engine:
            engine.query(BASE.name, BASE.text, sink=sinks.Parquet(folder / BASE.name))
            running = engine.start()
            start = time.time() + FEEDER_START
            with feeding(script, folder / "in", start) as feeder:
                lives = _add_and_remove(running, queries, folder, start, every, calm, sinks.Parquet)
                feeder.join()
                drain(running, script, max_drain)
            end = time.time()
            generations = running.generations
            for life in lives:
                life.removal.wait(1)
            running.stop()
        progress = running.recent_progress
        files, committed = assign_files(script, progress), commit_times(progress)
        tuples = tuple_latencies(files, committed, start, end)
        with duckdb.connect(config={"threads": THREADS}) as connection:
            _create_tables(connection, folder / "in", files)
            query_rows = [_check(connection, life, folder) for life in lives]
        generation_starts = {g["batch"]: g["generation"] for g in generations}
        seconds = _seconds(progress, tuples, committed, start, script, query_rows, generation_starts)
        return ChangesRun(query_rows, seconds, lag(script, folder / "in", start))


def _add_and_remove(
    running: Any, queries: Sequence[JoinQuery], folder: Path, start: float, every: float, calm: float, sink: Callable[[Path], Any]
) -> list[_QueryLife]:
    lives = []
    for i, query in enumerate(queries):
        _sleep_until(start + calm + i * every)
        called = time.time()
        change = running.add_query(query.name, query.text, sink=sink(folder / query.name), history=query.history)
        lives.append(_QueryLife(query, called - start, (time.time() - called) * 1000, change))
    ended = []
    for i, life in enumerate(lives):
        _sleep_until(start + 2 * calm + (len(lives) + i) * every)
        removal = running.remove_query(life.query.name)
        ended.append(replace(life, ended=time.time() - start, removal=removal))
    return ended


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))


def _create_tables(connection: Any, folder: Path, files: Mapping[str, FileBatches]) -> None:
    """A table per stream, with the batch that read each row."""
    for stream, of_stream in files.items():
        batches = zip(of_stream.ticks, of_stream.batches, strict=True)
        rows = ", ".join(f"('{folder}/{stream}/{tick:06d}.parquet', {batch})" for tick, batch in batches)
        connection.execute(
            f"CREATE TABLE {stream} AS SELECT data.* EXCLUDE (filename), epoch_us(ts) AS tau, batch "
            f"FROM read_parquet('{folder}/{stream}/*.parquet', filename = true) data "
            f"JOIN (VALUES {rows}) AS read (filename, batch) USING (filename) WHERE batch >= 0"
        )


def _check(connection: Any, life: _QueryLife, folder: Path) -> QueryRow:
    """Compares the results of a query with the batch join of the rows that it must join."""
    query, added, removed = life.query, life.change.batch, life.removal.batch
    if added is None or removed is None:
        raise ClashError("a change was never made", f"query {query.name}", "this is a bug of ours")
    aliases = [alias for alias, _ in query.parts]
    numbers = ", ".join(f"n_{alias}" for alias in aliases)
    in_window = [f"abs({a}.tau - {b}.tau) <= {WINDOW * 1_000_000}" for i, a in enumerate(aliases) for b in aliases[:i]]
    last, first = (f"{which}({', '.join(f'{alias}.batch' for alias in aliases)})" for which in ("greatest", "least"))
    conditions = [
        *query.where,
        *in_window,
        f"{last} >= {added}",
        f"{last} < {removed}",
        *([] if query.history else [f"{first} >= {added}"]),
    ]
    connection.execute(
        f"CREATE OR REPLACE TABLE expected AS SELECT {query.numbers}, {last} AS batch FROM {query.tables} WHERE {' AND '.join(conditions)}"
    )
    out = folder / query.name
    source = "SELECT *, 0 AS batch FROM expected LIMIT 0"
    if any(out.glob("*.parquet")):
        source = (
            f"SELECT {numbers}, regexp_extract(filename, 'part-(\\d+)-', 1)::BIGINT AS batch "
            f"FROM read_parquet('{out}/*.parquet', filename = true)"
        )
    connection.execute(f"CREATE OR REPLACE TABLE results AS {source}")
    complete = life.change.complete_from
    since = removed if complete is None else max(complete, added)
    rows = f"SELECT {numbers}, batch FROM"

    def count(sql: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM ({sql})").fetchone()[0])

    wrong = count(f"({rows} results) EXCEPT ALL ({rows} expected)")
    lost = count(f"({rows} expected WHERE batch >= {since}) EXCEPT ALL ({rows} results WHERE batch >= {since})")
    lacking = count(f"({rows} expected WHERE batch < {since}) EXCEPT ALL ({rows} results WHERE batch < {since})")
    results, early = count(f"{rows} results"), count(f"{rows} results WHERE batch < {since}")
    return QueryRow(
        query.name, query.text, query.history, round(life.asked, 2), round(life.ended, 2),
        life.call, added, complete, removed, results, early, lacking,
        wrong == 0 and lost == 0,
    )  # fmt: skip


def _seconds(
    progress: Sequence[Mapping[str, Any]],
    tuples: Latencies,
    committed: Mapping[int, float],
    start: float,
    script: ShopScript,
    queries: Sequence[QueryRow],
    generation_starts: Mapping[int, int],
) -> list[SecondRow]:
    """`generation_starts`: by first batch, the number of the generation."""
    length = round(script.seconds)
    ends = np.array([committed[entry["batch"]] - start for entry in progress])
    flows = {
        "committed": spread(ends, [sum(entry["input"].values()) for entry in progress], length),
        "results": spread(ends, [sum(entry["results"].values()) for entry in progress], length),
    }
    rows = []
    for second in range(length):
        latencies = tuples.of_second(second)
        batch = max((entry["batch"] for entry, end in zip(progress, ends, strict=True) if end <= second + 1), default=-1)
        live = 1 + sum(query.added <= batch < query.removed for query in queries)
        generation = max((number for since, number in generation_starts.items() if since <= batch), default=0)
        flow = float(flows["committed"][second]), float(flows["results"][second])
        quantiles = latencies.quantile(0.5), latencies.quantile(0.95)
        rows.append(SecondRow(second, live, len(latencies.due), *flow, *quantiles, generation))
    return rows


def spread(ends: np.ndarray[Any, Any], amounts: Sequence[int], seconds: int) -> np.ndarray[Any, Any]:
    """The amounts of batches per second, each distributed evenly from the end of the batch before to its own end."""
    total = np.concatenate([[0.0], np.cumsum(amounts)])
    moments = np.concatenate([[min(0.0, float(ends[0])) if len(ends) else 0.0], ends])
    return np.diff(np.interp(np.arange(seconds + 1), moments, total))
