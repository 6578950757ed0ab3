"""Shared stream joins over TPC-H on local Spark: throughput, latency, growth and state, with DuckDB's batch join beside.

Every run is warm: a first job over a hundredth of the data has been through the same JVM and the same Python workers. Results are checked:
as many rows as DuckDB finds in the same files, and the same ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clash.bench.tables import note, write
from clash.bench.tpch_data import Data, tpch_data
from clash.bench.tpch_duckdb import Yardstick, measure_duckdb
from clash.bench.tpch_queries import first_queries, key_statistics, random_queries, tpch_statistics
from clash.bench.tpch_run import PARTS, Job, Ran, run_once, session
from clash.bench.tpch_show import show_growth, show_latency, show_lines, show_state
from clash.errors import ClashError
from clash.planner.plan import STRATEGIES
from clash.planner.search_space import StrategyName

WARM_SCALE, WARM_BATCHES = 0.01, 20
SMALL_BATCHES, MEASURED = 85, 60  # of about 1,000 tuples each, at scale 0.01
GROWTH = 10  # times the data


@dataclass(frozen=True)
class Line:
    """One run. CPU and memory (megabytes, at their peak) are those of this Python (`driver`), of the JVM and of the Python workers.

    `source` to `sink` are seconds of our tasks, summed over tasks: waiting for Spark's scan, ingest, messages, routing, storing, probing,
    writing results; `spark` is what is left of the batches' time. `ratio` is our seconds over DuckDB's, which also writes Parquet;
    `load` the machine's load average before the run.
    """

    queries: int
    scale: float
    batches: int
    strategy: str
    workers: int
    run: int
    tuples: int
    results: int
    counts: str
    seconds: float
    tuples_per_second: float
    batch_seconds: float
    cpu_seconds: float
    cpu_driver: float
    cpu_jvm: float
    cpu_workers: float
    microseconds_per_tuple: float
    memory_driver: float
    memory_jvm: float
    memory_workers: float
    mapped_workers: float
    state_rows: int
    state_bytes: int
    spark: float
    source: float
    ingest: float
    shuffle: float
    route: float
    store: float
    probe: float
    sink: float
    duckdb_seconds: float | None
    duckdb_cpu: float | None
    duckdb_count_seconds: float | None
    ratio: float | None
    equal: bool | None
    load: float


@dataclass(frozen=True)
class Latency:
    """Medians in milliseconds over the last `measured` batches. `trigger` is from trigger to commit; the others are its parts by Spark's
    names, then our tasks' (summed over tasks)."""

    queries: int
    strategy: str
    workers: int
    run: int
    batches: int
    measured: int
    tuples_per_batch: float
    trigger: float
    lowest: float
    tenth: float
    add_batch: float
    planning: float
    get_batch: float
    latest_offset: float
    wal_commit: float
    commit_offsets: float
    tasks: float
    load: float


def run(
    queries: int,
    random: int,
    scale: float,
    batches: int,
    strategy: StrategyName,
    workers: int,
    repeat: int,
    latency: bool,
    growth: bool,
    state: bool,
    data: Path,
    out: Path,
) -> None:
    """Throughput, unless something else is asked for."""
    asked = random_queries(random, queries) if random else first_queries(queries)

    def job(scale: float, strategy: StrategyName = strategy) -> Job:
        known = key_statistics(scale) if random else tpch_statistics(scale)
        return Job(asked, known, strategy, workers)

    with session() as spark:
        warmed: set[str] = set()

        def warm(strategy: StrategyName) -> None:
            if strategy not in warmed:
                note(f"warming up: {len(asked)} queries, {strategy}")
                run_once(spark, tpch_data(WARM_SCALE, WARM_BATCHES, data), job(WARM_SCALE, strategy), check=False)
                warmed.add(strategy)

        def measure(scale: float, batches: int, strategy: StrategyName, path: Path) -> list[Line]:
            warm(strategy)
            cut = tpch_data(scale, batches, data)
            lines = []
            for number in range(1, repeat + 1):
                lines.append(_measure(spark, cut, job(scale, strategy), number))
                note(f"{strategy}, scale {scale:g}, run {number}: {lines[-1].tuples_per_second:,.0f} tuples/s")
            _refuse_wrong(lines, path)
            return lines

        if latency:
            warm(strategy)
            small = tpch_data(WARM_SCALE, SMALL_BATCHES, data)
            found = [_latency(run_once(spark, small, job(WARM_SCALE), check=False), job(WARM_SCALE), n) for n in range(1, repeat + 1)]
            write(out / "tpch-latency.csv", Latency, found)
            show_latency(found)
        if growth:
            small_lines = measure(scale, batches, strategy, out)
            large_lines = measure(scale * GROWTH, batches * GROWTH, strategy, out)
            write(out / "tpch-growth.csv", Line, [*small_lines, *large_lines])
            show_growth(small_lines, large_lines)
        if state:
            each = {name: measure(scale, batches, name, out) for name in STRATEGIES}
            write(out / "tpch-state.csv", Line, [line for lines in each.values() for line in lines])
            show_state(each)
        if not (latency or growth or state):
            lines = measure(scale, batches, strategy, out)
            write(out / "tpch.csv", Line, lines)
            show_lines(lines)


def _measure(spark: Any, data: Data, job: Job, number: int) -> Line:
    ran = run_once(spark, data, job)
    with TemporaryDirectory(prefix="clash-duckdb-") as folder:
        yardstick = measure_duckdb(data, job.queries, Path(folder))
    return make_line(data, job, number, ran, yardstick)


def make_line(data: Data, job: Job, number: int, ran: Ran, yardstick: Yardstick | None) -> Line:
    cpu = sum(ran.cpu.values())
    mega = {kind: memory.private / 1e6 for kind, memory in ran.peak.items()}
    parts = {name: ran.part(name) for name in PARTS}
    return Line(
        queries=len(job.queries),
        scale=data.scale,
        batches=data.batches,
        strategy=job.strategy,
        workers=job.workers,
        run=number,
        tuples=ran.tuples,
        results=sum(content.rows for content in ran.contents.values()),
        counts=" ".join(f"{name}:{content.rows}" for name, content in ran.contents.items()),
        seconds=ran.seconds,
        tuples_per_second=ran.tuples / ran.seconds,
        batch_seconds=sum(ran.triggers) / 1000,
        cpu_seconds=cpu,
        cpu_driver=ran.cpu["driver"],
        cpu_jvm=ran.cpu["jvm"],
        cpu_workers=ran.cpu["workers"],
        microseconds_per_tuple=cpu / ran.tuples * 1e6,
        memory_driver=mega["driver"],
        memory_jvm=mega["jvm"],
        memory_workers=mega["workers"],
        mapped_workers=(ran.peak["workers"].file + ran.peak["workers"].shared) / 1e6,
        state_rows=ran.state("rows"),
        state_bytes=ran.state("bytes"),
        spark=ran.own,
        duckdb_seconds=None if yardstick is None else yardstick.seconds,
        duckdb_cpu=None if yardstick is None else yardstick.cpu_seconds,
        duckdb_count_seconds=None if yardstick is None else yardstick.count_seconds,
        ratio=None if yardstick is None else ran.seconds / yardstick.seconds,
        equal=None if yardstick is None else dict(ran.contents) == yardstick.contents,
        load=ran.load,
        **parts,
    )


def _latency(ran: Ran, job: Job, number: int) -> Latency:
    last = ran.progress[-MEASURED:]
    triggers = ran.triggers[-MEASURED:]

    def median(name: str) -> float:
        return float(statistics.median(entry["durationMs"].get(name, 0) for entry in last))

    return Latency(
        queries=len(job.queries),
        strategy=job.strategy,
        workers=job.workers,
        run=number,
        batches=len(ran.progress),
        measured=len(last),
        tuples_per_batch=statistics.mean(sum(entry["input"].values()) for entry in last),
        trigger=statistics.median(triggers),
        lowest=min(triggers),
        tenth=statistics.quantiles(triggers, n=10)[-1],
        add_batch=median("addBatch"),
        planning=median("queryPlanning"),
        get_batch=median("getBatch"),
        latest_offset=median("latestOffset"),
        wal_commit=median("walCommit"),
        commit_offsets=median("commitOffsets"),
        tasks=1000 * statistics.median(_tasks(entry["seconds"]) for entry in last),
        load=ran.load,
    )


def _tasks(seconds: Mapping[str, float]) -> float:
    return sum(seconds.get(name, 0.0) for name in PARTS if name != "source")


def _refuse_wrong(lines: list[Line], out: Path) -> None:
    """A figure of a run with wrong results is worth nothing; the lines are kept to look into."""
    wrong = [line for line in lines if line.equal is False]
    if wrong:
        write(out / "tpch-wrong.csv", Line, wrong)
        raise ClashError("results differ from DuckDB's", wrong[0].counts, f"see {out / 'tpch-wrong.csv'}; this is a bug of ours")
