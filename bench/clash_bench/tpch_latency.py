"""The latency of small micro-batches, from a source per stream and from one source: relative to Spark's floor, and where the time goes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clash.cli.row_content import Content
from clash.errors import ClashError
from clash_bench.monitor import load
from clash_bench.spark_jobs import SparkJob, jobs_after, last_job
from clash_bench.tables import note, write
from clash_bench.tpch_data import Data
from clash_bench.tpch_duckdb import measure_duckdb
from clash_bench.tpch_queries import tpch_streams
from clash_bench.tpch_run import PARTS, Job, RunResult, run_once
from clash_bench.tpch_show import show_latency, show_waterfall
from clash_bench.tpch_sources import run_floor, write_one_source
from clash_bench.waterfall import WaterfallRow, waterfall
from clash_bench.waterfall_plot import draw_waterfall

MEASURED_BATCHES = 60  # the last ones of a run
_SPARK_PARTS = {
    "add_batch": "addBatch", "planning": "queryPlanning", "get_batch": "getBatch", "latest_offset": "latestOffset",
    "wal_commit": "walCommit", "commit_offsets": "commitOffsets",
}  # fmt: skip


@dataclass(frozen=True)
class LatencyRow:
    """A line of the CSV file: medians in milliseconds over the last `measured` batches of a run."""

    what: str
    """`clash`, or `floor`: a batch function that does nothing, over the same sources."""
    sources: str
    """`several` if each stream has a source of its own, `one` if all come from one."""
    queries: int
    strategy: str
    workers: int
    run: int
    batches: int
    measured: int
    tuples_per_batch: float | None
    trigger: float
    """From trigger to commit."""
    lowest: float
    """The smallest such time."""
    tenth: float
    """One batch in ten takes longer than this."""
    floor_ratio: float
    """`trigger` over that of the floor with the same sources, measured just before."""
    add_batch: float
    """The parts of `trigger` by Spark's names begin here."""
    planning: float
    get_batch: float
    latest_offset: float
    wal_commit: float
    commit_offsets: float
    tasks: float | None
    """Our code, summed over tasks."""
    spark_tasks: float | None
    """Spark's tasks per batch, on average: 1 if all measured batches ran as one task."""
    results: int | None
    equal: bool | None
    """Whether the results equal DuckDB's."""
    load: float


def measure_latency(spark: Any, data: Data, job: Job, repeat: int, out: Path) -> None:
    """Runs floor and engine, from a source per stream and from one source, `repeat` times; then writes and shows what was measured. If
    results differ from DuckDB's, only `tpch-latency.csv` is written."""
    rows, falls = list[LatencyRow](), list[list[WaterfallRow]]()
    with TemporaryDirectory(prefix="clash-latency-") as name:
        expected = measure_duckdb(data, job.queries, Path(name) / "duckdb").contents
        one_source = Path(name) / "one"
        write_one_source(data, tpch_streams(job.queries), one_source)
        for number in range(1, repeat + 1):
            for sources, source in (("several", None), ("one", one_source)):
                measured_rows, fall = _measure(spark, data, replace(job, one_source=source), sources, number, expected)
                rows += measured_rows
                falls.append(fall)
                ours = measured_rows[-1]
                note(f"run {number}, sources: {sources}: {ours.trigger:.0f} ms, {ours.floor_ratio:.1f} times the floor")
    write(out / "tpch-latency.csv", LatencyRow, rows)
    if not all(row.equal for row in rows if row.what == "clash"):
        raise ClashError("results differ from DuckDB's", f"see `equal` in {out / 'tpch-latency.csv'}", "this is a bug of ours")
    write(out / "tpch-waterfall.csv", WaterfallRow, (row for fall in falls for row in fall))
    best = _best_runs(rows)
    shown = {fall[0].sources: fall for fall in falls if fall[0].run == best[fall[0].sources].run}
    floors = {sources: row.trigger / row.floor_ratio for sources, row in best.items()}
    draw_waterfall(shown, floors, out / "tpch-waterfall.png")
    show_latency(rows)
    show_waterfall(shown)


def _measure(
    spark: Any, data: Data, job: Job, sources: str, number: int, expected: Mapping[str, Content]
) -> tuple[list[LatencyRow], list[WaterfallRow]]:
    load_before = load()
    floor = run_floor(spark, data, tpch_streams(job.queries), job.one_source)[-MEASURED_BATCHES:]
    floor_trigger = _median(floor, "triggerExecution")
    floor_row = _row("floor", sources, job, number, floor, floor_trigger, load_before)
    before = last_job(spark)
    ran = run_once(spark, data, job)
    last = ran.progress[-MEASURED_BATCHES:]
    row = _row("clash", sources, job, number, [entry["durationMs"] for entry in last], floor_trigger, ran.load)
    jobs = jobs_after(spark, before)
    rows = [replace(floor_row, batches=len(ran.progress)), _with_work(row, ran, last, jobs, expected)]
    return rows, waterfall(sources, number, last, jobs)


def _row(
    what: str, sources: str, job: Job, number: int, durations: Sequence[Mapping[str, int]], floor: float, load_before: float
) -> LatencyRow:
    triggers = [report.get("triggerExecution", 0) for report in durations]
    return LatencyRow(
        what=what,
        sources=sources,
        queries=len(job.queries),
        strategy=job.strategy,
        workers=job.workers,
        run=number,
        batches=len(durations),
        measured=len(durations),
        tuples_per_batch=None,
        trigger=statistics.median(triggers),
        lowest=min(triggers),
        tenth=statistics.quantiles(triggers, n=10)[-1],
        floor_ratio=statistics.median(triggers) / floor,
        tasks=None,
        spark_tasks=None,
        results=None,
        equal=None,
        load=load_before,
        **{column: _median(durations, name) for column, name in _SPARK_PARTS.items()},
    )


def _with_work(
    row: LatencyRow, ran: RunResult, last: Sequence[Mapping[str, Any]], jobs: Sequence[SparkJob], expected: Mapping[str, Content]
) -> LatencyRow:
    """Adds what a run of ours did, of which `last` are the measured batches."""
    measured = {entry["batch"] for entry in last}
    return replace(
        row,
        batches=len(ran.progress),
        tuples_per_batch=statistics.mean(sum(entry["input"].values()) for entry in last),
        tasks=1000 * statistics.median(_task_seconds(entry["seconds"]) for entry in last),
        spark_tasks=sum(len(stage) for job in jobs if job.batch in measured for stage in job.stages) / len(last),
        results=sum(content.rows for content in ran.contents.values()),
        equal=dict(ran.contents) == expected,
    )


def _best_runs(rows: Sequence[LatencyRow]) -> dict[str, LatencyRow]:
    """By kind of sources, the run with the smallest median."""
    best: dict[str, LatencyRow] = {}
    for row in rows:
        if row.what == "clash" and (row.sources not in best or row.trigger < best[row.sources].trigger):
            best[row.sources] = row
    return best


def _median(durations: Sequence[Mapping[str, int]], name: str) -> float:
    return float(statistics.median(report.get(name, 0) for report in durations))


def _task_seconds(seconds: Mapping[str, float]) -> float:
    return sum(seconds.get(name, 0.0) for name in PARTS if name != "source")
