"""Twenty queries added one by one to a running job and removed again: throughput, latency, and every result checked.

Invariant: which rows a query has to answer follows from the batches alone: those whose last part came in a batch from its first one on and
before that of its removal; without history their first part, too. From `complete_from` on results have to be exactly those; before that
some may lack, because columns were not kept, but none may be wrong.
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

from clash.bench.adaptive_data import WINDOW
from clash.bench.adaptive_feed import feeding, lag
from clash.bench.adaptive_latency import Taken, Tuples, commits, of_tuples, taken
from clash.bench.adaptive_run import DRAIN, PATIENCE, drain, fed_engine
from clash.bench.changes_data import BASE, QUESTIONS, Question, Shop
from clash.bench.changes_plot import draw_changes
from clash.bench.content import THREADS
from clash.bench.tables import note, write
from clash.bench.tpch_run import session
from clash.errors import ClashError

_LEAD = 2.0  # seconds that the feeder's process may take to come up
CALM = 6.0  # seconds before the first change, between the last addition and the first removal, and after the last
WARM_RATE, WARM_EVERY = 200, 0.4


@dataclass(frozen=True)
class Asked:
    """A query's life. Seconds count from the first tuple; `call`: milliseconds that `add_query` took. `early`: results from before
    `complete_from`; `lacking`: how many more there would have been then if all columns had been kept."""

    query: str
    text: str
    history: bool
    asked: float
    ended: float
    call: float
    added: int
    complete_from: int | None
    removed: int
    results: int
    early: int
    lacking: int
    exact: bool


@dataclass(frozen=True)
class Second:
    """`committed` and `results`: tuples and results of batches, spread over the time since the batch before. Latencies: milliseconds from
    when a tuple was due to the commit of its batch."""

    second: int
    queries: int
    due: int
    committed: float
    results: float
    p50: float | None
    p95: float | None
    generation: int


@dataclass(frozen=True)
class Ran:
    asked: Sequence[Asked]
    seconds: Sequence[Second]
    lag: float


@dataclass(frozen=True)
class _Life:
    """Of a query, while it is being measured."""

    question: Question
    second: float
    call: float
    change: Any
    ended: float = 0.0
    removal: Any = None


def run(rate: int, every: float, out: Path) -> None:
    with session() as spark:
        note("warming up")
        change_all(spark, WARM_RATE, WARM_EVERY, 2.0, QUESTIONS[:5], PATIENCE)
        ran = change_all(spark, rate, every)
    write(out / "changes-queries.csv", Asked, ran.asked)
    write(out / "changes.csv", Second, ran.seconds)
    note(f"{len(ran.asked)} queries, {sum(a.results for a in ran.asked):,} results, feeder late by {ran.lag:.2f} s")
    wrong = [asked.query for asked in ran.asked if not asked.exact]
    if wrong:
        raise ClashError("results differ from DuckDB's", ", ".join(wrong), f"see {out / 'changes-queries.csv'}; this is a bug of ours")
    draw_changes(ran, rate, out / "changes.png")


def change_all(
    spark: Any, rate: int, every: float, calm: float = CALM, questions: Sequence[Question] = QUESTIONS, patience: float = DRAIN
) -> Ran:
    from clash import sinks

    script = Shop(rate, 2 * every * len(questions) + 3 * calm)
    with TemporaryDirectory(prefix="clash-changes-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with fed_engine(spark, script, folder, adaptive=True, statistics=None) as engine:
            engine.query(BASE.name, BASE.text, sink=sinks.Parquet(folder / BASE.name))
            running = engine.start()
            start = time.time() + _LEAD
            with feeding(script, folder / "in", start) as feeder:
                lives = _change(running, questions, folder, start, every, calm, sinks.Parquet)
                feeder.join()
                drain(running, script, patience)
            end = time.time()
            generations = running.generations
            for life in lives:
                life.removal.wait(1)
            running.stop()
        progress = running.recent_progress
        files, committed = taken(script, progress), commits(progress)
        tuples = of_tuples(files, committed, start, end)
        with duckdb.connect(config={"threads": THREADS}) as connection:
            _read(connection, folder / "in", files)
            asked = [_checked(connection, life, folder) for life in lives]
        first = {g["batch"]: g["generation"] for g in generations}
        seconds = _seconds(progress, tuples, committed, start, script, asked, first)
        return Ran(asked, seconds, lag(script, folder / "in", start))


def _change(
    running: Any, questions: Sequence[Question], folder: Path, start: float, every: float, calm: float, sink: Callable[[Path], Any]
) -> list[_Life]:
    lives = []
    for at, question in enumerate(questions):
        _until(start + calm + at * every)
        called = time.time()
        change = running.add_query(question.name, question.text, sink=sink(folder / question.name), history=question.history)
        lives.append(_Life(question, called - start, (time.time() - called) * 1000, change))
    over = []
    for at, life in enumerate(lives):
        _until(start + 2 * calm + (len(lives) + at) * every)
        removal = running.remove_query(life.question.name)
        over.append(replace(life, ended=time.time() - start, removal=removal))
    return over


def _until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))


def _read(connection: Any, folder: Path, files: Mapping[str, Taken]) -> None:
    """A table per stream, with the batch that took each row in."""
    for stream, all_ in files.items():
        rows = ", ".join(f"('{folder}/{stream}/{tick:06d}.parquet', {batch})" for tick, batch in zip(all_.ticks, all_.batches, strict=True))
        connection.execute(
            f"CREATE TABLE {stream} AS SELECT data.* EXCLUDE (filename), epoch_us(ts) AS tau, batch "
            f"FROM read_parquet('{folder}/{stream}/*.parquet', filename = true) data "
            f"JOIN (VALUES {rows}) AS read (filename, batch) USING (filename) WHERE batch >= 0"
        )


def _checked(connection: Any, life: _Life, folder: Path) -> Asked:
    question, added, removed = life.question, life.change.batch, life.removal.batch
    if added is None or removed is None:
        raise ClashError("a change was never made", f"query {question.name}", "this is a bug of ours")
    aliases = [alias for alias, _ in question.parts]
    numbers = ", ".join(f"n_{alias}" for alias in aliases)
    near = [f"abs({a}.tau - {b}.tau) <= {WINDOW * 1_000_000}" for at, a in enumerate(aliases) for b in aliases[:at]]
    last, first = (f"{which}({', '.join(f'{alias}.batch' for alias in aliases)})" for which in ("greatest", "least"))
    belongs = [*question.where, *near, f"{last} >= {added}", f"{last} < {removed}", *([] if question.history else [f"{first} >= {added}"])]
    connection.execute(
        f"CREATE OR REPLACE TABLE wanted AS SELECT {question.numbers}, {last} AS batch FROM {question.tables} WHERE {' AND '.join(belongs)}"
    )
    out = folder / question.name
    source = "SELECT *, 0 AS batch FROM wanted LIMIT 0"
    if any(out.glob("*.parquet")):
        source = (
            f"SELECT {numbers}, regexp_extract(filename, 'part-(\\d+)-', 1)::BIGINT AS batch "
            f"FROM read_parquet('{out}/*.parquet', filename = true)"
        )
    connection.execute(f"CREATE OR REPLACE TABLE given AS {source}")
    complete = life.change.complete_from
    since = removed if complete is None else max(complete, added)
    rows = f"SELECT {numbers}, batch FROM"

    def count(sql: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM ({sql})").fetchone()[0])

    wrong = count(f"({rows} given) EXCEPT ALL ({rows} wanted)")
    lost = count(f"({rows} wanted WHERE batch >= {since}) EXCEPT ALL ({rows} given WHERE batch >= {since})")
    lacking = count(f"({rows} wanted WHERE batch < {since}) EXCEPT ALL ({rows} given WHERE batch < {since})")
    results, early = count(f"{rows} given"), count(f"{rows} given WHERE batch < {since}")
    return Asked(
        question.name, question.text, question.history, round(life.second, 2), round(life.ended, 2),
        life.call, added, complete, removed, results, early, lacking,
        wrong == 0 and lost == 0,
    )  # fmt: skip


def _seconds(
    progress: Sequence[Mapping[str, Any]],
    tuples: Tuples,
    committed: Mapping[int, float],
    start: float,
    script: Shop,
    asked: Sequence[Asked],
    first: Mapping[int, int],
) -> list[Second]:
    length = round(script.seconds)
    ends = np.array([committed[entry["batch"]] - start for entry in progress])
    flows = {
        "committed": spread(ends, [sum(entry["input"].values()) for entry in progress], length),
        "results": spread(ends, [sum(entry["results"].values()) for entry in progress], length),
    }
    found = []
    for second in range(length):
        at = tuples.of_second(second)
        batch = max((entry["batch"] for entry, end in zip(progress, ends, strict=True) if end <= second + 1), default=-1)
        live = 1 + sum(query.added <= batch < query.removed for query in asked)
        generation = max((number for since, number in first.items() if since <= batch), default=0)
        flow = float(flows["committed"][second]), float(flows["results"][second])
        found.append(Second(second, live, len(at.due), *flow, at.quantile(0.5), at.quantile(0.95), generation))
    return found


def spread(ends: np.ndarray[Any, Any], amounts: Sequence[int], seconds: int) -> np.ndarray[Any, Any]:
    """What batches did per second, if each was at it from the end of the one before to its own."""
    total = np.concatenate([[0.0], np.cumsum(amounts)])
    moments = np.concatenate([[min(0.0, float(ends[0])) if len(ends) else 0.0], ends])
    return np.diff(np.interp(np.arange(seconds + 1), moments, total))
