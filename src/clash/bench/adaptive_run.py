"""One run over streams that are fed while it runs, and what it told.

Invariant: an arm (adaptive or static) differs from the other in nothing but `adaptive`: data, first plan and the warm JVM are the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from clash.bench.adaptive_data import QUERY, WINDOW, Selectivity, Small
from clash.bench.adaptive_feed import Script, feeding, lag, make_folders, write_all
from clash.bench.adaptive_latency import Taken, Tuples, commits, of_results, of_tuples, taken
from clash.bench.content import THREADS, Content, file_content, source_content
from clash.bench.monitor import Monitor, load
from clash.model.statistics import Statistics

WORKERS = 2
LATENESS = "1 second"
_LEAD = 2.0  # seconds that the feeder's process may take to come up
DRAIN = 20.0  # seconds that are waited for what was fed
PATIENCE = 180.0  # in a warm-up, in which kernels may have to be compiled
_LOOK = 0.1


@dataclass(frozen=True)
class Ran:
    """`tuples` and `results`: latencies. `plans`: per generation since which second it ran, why, what it kept, and its probe orders."""

    start: float
    progress: Sequence[Mapping[str, Any]]
    tuples: Tuples
    results: Tuples
    plans: Sequence[Mapping[str, Any]]
    lag: float
    load: float
    equal: bool
    rows: int


@contextmanager
def fed_engine(spark: Any, script: Script, folder: Path, adaptive: bool, statistics: Statistics | None, **reader: Any) -> Iterator[Any]:
    """An engine over the folders that the script is written to. `reader`: options of Spark's file source."""
    import clash

    make_folders(script, folder / "in")
    engine = clash.Engine(
        spark, checkpoint=folder / "checkpoint", workers=WORKERS, epoch="1 second", adaptive=adaptive, statistics=statistics
    )
    for stream, columns in script.columns.items():
        schema = ", ".join([*(f"{column} BIGINT" for column in columns), "ts TIMESTAMP"])
        frame = spark.readStream.schema(schema).options(**reader).parquet(str(folder / "in" / stream))
        engine.stream(stream, frame, time="ts", window=f"{WINDOW} seconds", lateness=LATENESS)
    yield engine


def run_live(spark: Any, script: Selectivity | Small, adaptive: bool, patience: float = DRAIN) -> Ran:
    """Feeds the script in real time; second 0 comes after its lead. `patience`: seconds that are waited for the rest."""
    from clash import sinks

    with TemporaryDirectory(prefix="clash-adaptive-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        busy = load()
        with fed_engine(spark, script, folder, adaptive, script.statistics()) as engine:
            engine.query("q", QUERY, sink=sinks.Parquet(folder / "out"))
            run = engine.start()
            begin = time.time() + _LEAD
            with feeding(script, folder / "in", begin) as feeder:
                feeder.join()
                drain(run, script, patience)
            end = time.time()
            run.stop()
        progress = run.recent_progress
        committed, start = commits(progress), begin + script.timing.lead
        files = taken(script, progress)
        tuples = shifted(of_tuples(files, committed, begin, end), script.timing.lead)
        results = of_results(folder / "out", ("r", "s", "t", "u"), committed, start)
        expected = _expected(folder / "in", files)
        found = file_content(f"{folder}/out/*.parquet")
        plans = plans_of(folder / "checkpoint", run.generations, committed, start)
        return Ran(start, progress, tuples, results, plans, lag(script, folder / "in", begin), busy, found == expected, found.rows)


def drain(run: Any, script: Script, seconds: float) -> None:
    """Waits until all is committed that was fed, or for so long."""
    fed = sum(len(next(iter(columns.values()))) for tick in range(script.ticks) for columns in script.rows(tick).values())
    deadline = time.time() + seconds
    while sum(run.progress["totals"]["input"].values()) < fed and time.time() < deadline and run.is_active:
        time.sleep(_LOOK)
    if not run.is_active:
        run.await_termination()  # raises what it failed with


@dataclass(frozen=True)
class Through:
    """Seconds of the batches, and CPU seconds by kind of process."""

    seconds: float
    cpu: Mapping[str, float]
    tuples: int
    generations: int


def run_through(spark: Any, script: Selectivity, data: Path, adaptive: bool) -> Through:
    """Over files that are there, one per stream and batch."""
    from clash import sinks

    with TemporaryDirectory(prefix="clash-adaptive-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "in").symlink_to(data.absolute())
        with fed_engine(spark, script, folder, adaptive, script.statistics(), maxFilesPerTrigger=1) as engine:
            engine.query("q", QUERY, sink=sinks.Parquet(folder / "out"))
            with Monitor() as monitor:
                run = engine.start(available_now=True)
                run.await_termination()
        progress = run.recent_progress
        seconds = sum(entry["durationMs"].get("triggerExecution", 0) for entry in progress) / 1000
        tuples = sum(sum(entry["input"].values()) for entry in progress)
        return Through(seconds, monitor.cpu, tuples, len(run.generations))


def write_data(script: Selectivity, folder: Path) -> None:
    write_all(script, folder, 1_700_000_000.0)


def shifted(tuples: Tuples, seconds: float) -> Tuples:
    return Tuples(tuples.due - seconds, tuples.latency, tuples.open)


def plans_of(
    checkpoint: Path, generations: Sequence[Mapping[str, Any]], committed: Mapping[int, float], start: float
) -> list[dict[str, Any]]:
    """What each generation is, from what the run tells and what its record in the checkpoint says of stores and orders."""
    from clash.coordinator.checkpoint.plan_record import plan_from_json
    from clash.coordinator.control.setup import Setup

    found = []
    for told in generations:
        record = json.loads((checkpoint / "clash" / "generations" / f"{told['generation']:06d}.json").read_text())
        plan = plan_from_json(record["plan"], Setup.from_json(record["setup"]).by_name)
        batch = told["batch"]
        since = next((committed[b] for b in sorted(committed) if b >= batch), None)
        found.append(
            {
                **told,
                "second": None if since is None else since - start,
                "kept": [str(store) for store in plan.stores],
                "orders": [str(order) for order in plan.probe_orders],
            }
        )
    return found


def _expected(folder: Path, files: Mapping[str, Taken]) -> Content:
    """The batch join of what was taken in. S ⋈ T ⋈ U of what meets no R is large, so it is left out first."""
    near = f"abs(epoch_us({{}}) - epoch_us({{}})) <= {WINDOW * 1_000_000}"
    with duckdb.connect(config={"threads": THREADS}) as connection:
        for stream, all_ in files.items():
            paths = [f"'{folder}/{stream}/{tick:06d}.parquet'" for tick, batch in zip(all_.ticks, all_.batches, strict=True) if batch >= 0]
            connection.execute(f"CREATE TABLE {stream} AS FROM read_parquet([{', '.join(paths)}])")
        connection.execute(
            f"CREATE TABLE ST AS SELECT S.a, S.b, T.c, S.ts AS s, T.ts AS t FROM S JOIN T ON S.b = T.b AND {near.format('S.ts', 'T.ts')} "
            "WHERE S.a IN (SELECT a FROM R)"
        )
        connection.execute(
            f"CREATE TABLE STU AS SELECT ST.*, U.ts AS u FROM ST JOIN U ON ST.c = U.c AND {near.format('s', 'U.ts')} "
            f"AND {near.format('t', 'U.ts')}"
        )
        connection.execute(
            f"CREATE TABLE joined AS SELECT a, b, c, R.ts AS r, s, t, u FROM STU JOIN R USING (a) WHERE {near.format('R.ts', 's')} "
            f"AND {near.format('R.ts', 't')} AND {near.format('R.ts', 'u')}"
        )
        return source_content(connection, "joined")
