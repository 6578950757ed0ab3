"""One run of an adaptive experiment: over streams that are fed while it runs, or over existing files.

Invariant: the two arms (adaptive and static) differ only in the engine's option `adaptive`: data, first plan and the warm JVM are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from clash.cli.row_content import THREADS, Content, file_content, source_content
from clash.coordinator.checkpoint.generation import Generation
from clash.model.statistics import Statistics
from clash.plan.logical import LogicalPlan
from clash_bench.adaptive_data import QUERY, WINDOW, SelectivityChange, StoreIntroduced
from clash_bench.adaptive_feed import Script, feeding, lag, make_folders, write_all
from clash_bench.adaptive_latency import FileBatches, Latencies, assign_files, commit_times, result_latencies, tuple_latencies
from clash_bench.monitor import Monitor, load

WORKERS = 2
LATENESS = "1 second"
FEEDER_START = 2.0  # seconds that the process of the feeder may take to start
DRAIN = 20.0  # seconds to wait until everything that was fed is committed
WARM_UP_DRAIN = 180.0  # the same in a warm-up, in which kernels may have to be compiled
_POLL = 0.1  # seconds between two looks at the progress


@dataclass(frozen=True)
class LiveRun:
    """What was measured of a run over streams that were fed in real time."""

    start: float
    """Second 0, in seconds since 1970."""
    progress: Sequence[Mapping[str, Any]]
    tuples: Latencies
    results: Latencies
    plans: Sequence[Mapping[str, Any]]
    """Per generation: since which second it ran, why, its stores and its probe orders."""
    lag: float
    """The largest delay of the feeder, in seconds."""
    load: float
    """The load of the machine before the run."""
    equal: bool
    """Whether the results equal those of DuckDB."""
    rows: int
    """The number of results."""


@contextmanager
def fed_engine(spark: Any, script: Script, folder: Path, adaptive: bool, statistics: Statistics | None, **reader: Any) -> Iterator[Any]:
    """An engine over the folders that the script is written to; queries are still to be added. `reader`: options of Spark's file source."""
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


def run_live(spark: Any, script: SelectivityChange | StoreIntroduced, adaptive: bool, max_drain: float = DRAIN) -> LiveRun:
    """Feeds the script in real time. `max_drain`: seconds to wait at the end until everything is committed."""
    from clash import sinks

    with TemporaryDirectory(prefix="clash-adaptive-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        load_before = load()
        with fed_engine(spark, script, folder, adaptive, script.statistics()) as engine:
            engine.query("q", QUERY, sink=sinks.Parquet(folder / "out"))
            run = engine.start()
            recorder = PlanRecorder(run)
            begin = time.time() + FEEDER_START
            with feeding(script, folder / "in", begin) as feeder:
                feeder.join()
                drain(run, script, max_drain)
            end = time.time()
            run.stop()
        progress = run.recent_progress
        committed, start = commit_times(progress), begin + script.timing.lead
        files = assign_files(script, progress)
        tuples = shifted(tuple_latencies(files, committed, begin, end), script.timing.lead)
        results = result_latencies(folder / "out", ("r", "s", "t", "u"), committed, start)
        expected = _expected(folder / "in", files)
        content = file_content(f"{folder}/out/*.parquet")
        plans = describe_plans(recorder.plans, run.generations, committed, start)
        delay = lag(script, folder / "in", begin)
        return LiveRun(start, progress, tuples, results, plans, delay, load_before, content == expected, content.rows)


def drain(run: Any, script: Script, seconds: float) -> None:
    """Waits until everything that was fed is committed, at most `seconds`."""
    fed = sum(len(next(iter(columns.values()))) for tick in range(script.ticks) for columns in script.rows(tick).values())
    deadline = time.time() + seconds
    while sum(run.progress["totals"]["input"].values()) < fed and time.time() < deadline and run.is_active:
        time.sleep(_POLL)
    if not run.is_active:
        run.await_termination()  # raises the error that the run failed with


@dataclass(frozen=True)
class BatchRun:
    """What was measured of a run over existing files."""

    seconds: float
    """The sum over all batches."""
    cpu: Mapping[str, float]
    """CPU seconds by kind of process."""
    tuples: int
    generations: int


def run_over_files(spark: Any, script: SelectivityChange, data: Path, adaptive: bool) -> BatchRun:
    """Runs over existing files, one per stream and batch."""
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
        return BatchRun(seconds, monitor.cpu, tuples, len(run.generations))


def write_data(script: SelectivityChange, folder: Path) -> None:
    """Writes the files for `run_over_files`."""
    write_all(script, folder, 1_700_000_000.0)


def shifted(tuples: Latencies, seconds: float) -> Latencies:
    """The same latencies, with due times counted from `seconds` later."""
    return Latencies(tuples.due - seconds, tuples.latency, tuples.open)


class PlanRecorder:
    """The plan of every generation of a run: the checkpoint keeps the plans of those that stored rows belong to, no others."""

    def __init__(self, run: Any) -> None:
        log = run._coordinator.log
        self._write = log.write
        self.plans: dict[int, LogicalPlan] = {0: log.read(0).plan}
        log.write = self._record

    def _record(self, generation: Generation) -> None:
        self.plans[generation.number] = generation.plan
        self._write(generation)


def describe_plans(
    plans: Mapping[int, LogicalPlan], generations: Sequence[Mapping[str, Any]], committed: Mapping[int, float], start: float
) -> list[dict[str, Any]]:
    """Every generation as the run reports it, with the stores and orders of its plan."""
    described = []
    for generation in generations:
        plan = plans[generation["generation"]]
        batch = generation["batch"]
        since = next((committed[b] for b in sorted(committed) if b >= batch), None)
        described.append(
            {
                **generation,
                "second": None if since is None else since - start,
                "stores": [str(store) for store in plan.stores],
                "orders": [str(order) for order in plan.probe_orders],
            }
        )
    return described


def _expected(folder: Path, files: Mapping[str, FileBatches]) -> Content:
    """The batch join of the files that were read. S ⋈ T ⋈ U of rows that match no R is large, so these rows are left out first."""
    in_window = f"abs(epoch_us({{}}) - epoch_us({{}})) <= {WINDOW * 1_000_000}"
    with duckdb.connect(config={"threads": THREADS}) as connection:
        for stream, of_stream in files.items():
            read = [tick for tick, batch in zip(of_stream.ticks, of_stream.batches, strict=True) if batch >= 0]
            paths = [f"'{folder}/{stream}/{tick:06d}.parquet'" for tick in read]
            connection.execute(f"CREATE TABLE {stream} AS FROM read_parquet([{', '.join(paths)}])")
        connection.execute(
            "CREATE TABLE ST AS SELECT S.a, S.b, T.c, S.ts AS s, T.ts AS t FROM S JOIN T ON S.b = T.b "
            f"AND {in_window.format('S.ts', 'T.ts')} WHERE S.a IN (SELECT a FROM R)"
        )
        connection.execute(
            f"CREATE TABLE STU AS SELECT ST.*, U.ts AS u FROM ST JOIN U ON ST.c = U.c AND {in_window.format('s', 'U.ts')} "
            f"AND {in_window.format('t', 'U.ts')}"
        )
        connection.execute(
            f"CREATE TABLE joined AS SELECT a, b, c, R.ts AS r, s, t, u FROM STU JOIN R USING (a) WHERE {in_window.format('R.ts', 's')} "
            f"AND {in_window.format('R.ts', 't')} AND {in_window.format('R.ts', 'u')}"
        )
        return source_content(connection, "joined")
