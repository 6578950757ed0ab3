"""Shared stream joins over TPC-H on local Spark: throughput, latency, growth and state, compared with DuckDB's batch join.

Every measured run is warm: the same JVM and Python workers have run a job over data of scale 0.01 before. Results are checked: they must be
exactly the rows that DuckDB finds in the same files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clash.errors import ClashError
from clash.plan.options import STRATEGIES, StrategyName
from clash_bench.tables import note, write
from clash_bench.tpch_data import Data, tpch_data
from clash_bench.tpch_duckdb import DuckDBResult, measure_duckdb
from clash_bench.tpch_latency import measure_latency
from clash_bench.tpch_queries import first_queries, key_statistics, random_queries, tpch_statistics
from clash_bench.tpch_run import PARTS, Job, RunResult, run_once, session
from clash_bench.tpch_show import show_growth, show_lines, show_state

WARM_UP_SCALE, WARM_UP_BATCHES = 0.01, 20
LATENCY_BATCHES = 85  # of about 1,000 tuples each, at scale 0.01
GROWTH = 10  # the factor between the two amounts of data


@dataclass(frozen=True)
class RunRow:
    """A line of the CSV file: one run. `driver` is this Python process; memory is in megabytes, at its peak."""

    queries: int
    scale: float
    batches: int
    strategy: str
    workers: int
    run: int
    tuples: int
    results: int
    counts: str
    """The number of results per query."""
    seconds: float
    tuples_per_second: float
    batch_seconds: float
    """The sum over batches, from trigger to commit."""
    cpu_seconds: float
    cpu_driver: float
    cpu_jvm: float
    cpu_workers: float
    microseconds_per_tuple: float
    memory_driver: float
    memory_jvm: float
    memory_workers: float
    mapped_workers: float
    """Files and shared memory that the Python workers map."""
    state_rows: int
    state_bytes: int
    spark: float
    """Seconds of the batches that are not spent in our tasks."""
    source: float
    """Seconds that tasks wait for Spark's scan; like the next fields, summed over tasks."""
    ingest: float
    shuffle: float
    """Reading and writing messages."""
    route: float
    store: float
    probe: float
    sink: float
    """Writing results."""
    duckdb_seconds: float | None
    """Seconds of DuckDB for all queries, including writing the results to Parquet."""
    duckdb_cpu: float | None
    duckdb_count_seconds: float | None
    """The same where results are only counted."""
    ratio: float | None
    """Our seconds over DuckDB's."""
    equal: bool | None
    """Whether the results equal DuckDB's."""
    load: float
    """The load of the machine before the run."""


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
    """The options are those of the command `tpch`. Measures throughput, unless `latency`, `growth` or `state` is requested."""
    chosen = random_queries(random, queries) if random else first_queries(queries)

    def job(scale: float, strategy: StrategyName = strategy) -> Job:
        statistics = key_statistics(scale) if random else tpch_statistics(scale)
        return Job(chosen, statistics, strategy, workers)

    with session() as spark:
        warmed: set[str] = set()

        def warm_up(strategy: StrategyName) -> None:
            if strategy not in warmed:
                note(f"warming up: {len(chosen)} queries, {strategy}")
                run_once(spark, tpch_data(WARM_UP_SCALE, WARM_UP_BATCHES, data), job(WARM_UP_SCALE, strategy), check=False)
                warmed.add(strategy)

        def measure(scale: float, batches: int, strategy: StrategyName, path: Path) -> list[RunRow]:
            warm_up(strategy)
            streams = tpch_data(scale, batches, data)
            lines = []
            for number in range(1, repeat + 1):
                lines.append(_measure(spark, streams, job(scale, strategy), number))
                note(f"{strategy}, scale {scale:g}, run {number}: {lines[-1].tuples_per_second:,.0f} tuples/s")
            _refuse_wrong(lines, path)
            return lines

        if latency:
            warm_up(strategy)
            measure_latency(spark, tpch_data(WARM_UP_SCALE, LATENCY_BATCHES, data), job(WARM_UP_SCALE), repeat, out)
        if growth:
            small_lines = measure(scale, batches, strategy, out)
            large_lines = measure(scale * GROWTH, batches * GROWTH, strategy, out)
            write(out / "tpch-growth.csv", RunRow, [*small_lines, *large_lines])
            show_growth(small_lines, large_lines)
        if state:
            by_strategy = {name: measure(scale, batches, name, out) for name in STRATEGIES}
            write(out / "tpch-state.csv", RunRow, [line for lines in by_strategy.values() for line in lines])
            show_state(by_strategy)
        if not (latency or growth or state):
            lines = measure(scale, batches, strategy, out)
            write(out / "tpch.csv", RunRow, lines)
            show_lines(lines)


def _measure(spark: Any, data: Data, job: Job, number: int) -> RunRow:
    ran = run_once(spark, data, job)
    with TemporaryDirectory(prefix="clash-duckdb-") as folder:
        duckdb = measure_duckdb(data, job.queries, Path(folder))
    return make_row(data, job, number, ran, duckdb)


def make_row(data: Data, job: Job, number: int, ran: RunResult, duckdb: DuckDBResult | None) -> RunRow:
    cpu = sum(ran.cpu.values())
    megabytes = {kind: memory.private / 1e6 for kind, memory in ran.peak.items()}
    parts = {name: ran.part(name) for name in PARTS}
    return RunRow(
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
        memory_driver=megabytes["driver"],
        memory_jvm=megabytes["jvm"],
        memory_workers=megabytes["workers"],
        mapped_workers=(ran.peak["workers"].file + ran.peak["workers"].shared) / 1e6,
        state_rows=ran.state("rows"),
        state_bytes=ran.state("bytes"),
        spark=ran.spark_seconds,
        duckdb_seconds=None if duckdb is None else duckdb.seconds,
        duckdb_cpu=None if duckdb is None else duckdb.cpu_seconds,
        duckdb_count_seconds=None if duckdb is None else duckdb.count_seconds,
        ratio=None if duckdb is None else ran.seconds / duckdb.seconds,
        equal=None if duckdb is None else dict(ran.contents) == duckdb.contents,
        load=ran.load,
        **parts,
    )


def _refuse_wrong(lines: list[RunRow], out: Path) -> None:
    """Raises if a run has wrong results, which makes its figures meaningless; its rows are written to a file for analysis."""
    wrong = [line for line in lines if line.equal is False]
    if wrong:
        write(out / "tpch-wrong.csv", RunRow, wrong)
        raise ClashError("results differ from DuckDB's", wrong[0].counts, f"see {out / 'tpch-wrong.csv'}; this is a bug of ours")
