"""The tables that `clash bench tpch` prints."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from clash_bench.tpch_run import PARTS

if TYPE_CHECKING:
    from clash.plan.options import StrategyName
    from clash_bench.tpch import RunRow
    from clash_bench.tpch_latency import LatencyRow
    from clash_bench.waterfall import WaterfallRow

WIDTH = 110


def show_lines(lines: Sequence[RunRow]) -> None:
    console = _console()
    first = lines[0]
    console.print(
        f"\n[bold]{first.queries} queries, scale {first.scale:g}: {first.tuples:,} tuples in {first.batches} batches,"
        f" {first.results:,} results[/]   {first.strategy}, {first.workers} workers"
    )
    runs = _table("run", "tuples/s", "seconds", "CPU s", "JVM", "workers", "µs/tuple", "DuckDB s", "ratio", "load")
    for line in lines:
        runs.add_row(
            str(line.run),
            f"[bold]{line.tuples_per_second:,.0f}[/]",
            f"{line.seconds:.2f}",
            f"{line.cpu_seconds:.2f}",
            f"{line.cpu_jvm:.2f}",
            f"{line.cpu_workers:.2f}",
            f"{line.microseconds_per_tuple:.2f}",
            "" if line.duckdb_seconds is None else f"{line.duckdb_seconds:.2f}",
            "" if line.ratio is None else f"{line.ratio:.2f}",
            f"{line.load:.1f}",
        )
    console.print(runs)
    best = max(lines, key=lambda line: line.tuples_per_second)
    split = _table("ms per batch", "spark", *PARTS)
    split.add_row(f"run {best.run}", *(f"{1000 * getattr(best, name) / best.batches:,.0f}" for name in ("spark", *PARTS)))
    console.print(split)
    console.print("[dim]spark: time between trigger and commit outside our tasks; the others: time of our tasks, summed over tasks")
    memory = _table("peak MB, private", "driver", "JVM", "workers", "mapped by workers", "state")
    memory.add_row(
        f"run {best.run}",
        *(f"{value:,.0f}" for value in (best.memory_driver, best.memory_jvm, best.memory_workers, best.mapped_workers)),
        f"{best.state_bytes / 1e6:,.0f} MB, {best.state_rows:,} rows",
    )
    console.print(memory)
    console.print("results  " + "  ".join(f"{name} [bold]{int(rows):,}[/]" for name, rows in map(_split_count, best.counts.split())))
    if all(line.equal for line in lines):
        console.print("[green]counts and contents equal DuckDB's")


def show_latency(rows: Sequence[LatencyRow]) -> None:
    console = _console()
    first = next(row for row in rows if row.what == "clash")
    console.print(
        f"\n[bold]{first.queries} queries, batches of {first.tuples_per_batch:,.0f} tuples[/]   {first.strategy}, {first.workers} workers;"
        f" ms, medians of the last {first.measured} batches"
    )
    names = ("trigger", "lowest", "tenth")
    table = _table("run", "sources", "", *names, "of the floor", "in tasks", "tasks", "load")
    for row in rows:
        times = (f"{getattr(row, name):,.0f}" for name in names)
        tasks = ("", "") if row.tasks is None or row.spark_tasks is None else (f"{row.tasks:,.0f}", f"{row.spark_tasks:.1f}")
        table.add_row(str(row.run), row.sources, row.what, *times, f"{row.floor_ratio:.2f}×", *tasks, f"{row.load:.1f}")
    console.print(table)
    console.print(
        "[dim]floor: a batch function that does nothing, over the same sources\n"
        "tenth: one batch in ten takes longer; in tasks: time of our code, summed over tasks; tasks: Spark's, per batch"
    )
    if all(row.equal for row in rows if row.what == "clash"):
        console.print("[green]counts and contents equal DuckDB's")


def show_waterfall(by_sources: Mapping[str, Sequence[WaterfallRow]]) -> None:
    """The parts of the median batch, for the best run of each kind of sources."""
    console = _console()
    first = next(iter(by_sources.values()))
    table = _table("ms of the median batch", "", *(f"{sources} source{'s' * (sources != 'one')}" for sources in by_sources))
    table.columns[1].justify = "left"
    for at, row in enumerate(first):
        table.add_row(row.part, f"[dim]{row.group}[/]", *(f"{rows[at].milliseconds:.1f}" for rows in by_sources.values()))
    sums = (f"[bold]{sum(row.milliseconds for row in rows):.1f}[/]" for rows in by_sources.values())
    table.add_row("[bold]trigger[/]", "", *sums)
    console.print()
    console.print(table)


def show_growth(small: Sequence[RunRow], large: Sequence[RunRow]) -> None:
    console = _console()
    table = _table("scale", "tuples", "batches", "tuples/s", "CPU µs/tuple", "of workers", "DuckDB ratio")
    for lines in (small, large):
        line = lines[0]
        table.add_row(
            f"{line.scale:g}",
            f"{line.tuples:,}",
            str(line.batches),
            f"{_median(lines, 'tuples_per_second'):,.0f}",
            f"{_median(lines, 'microseconds_per_tuple'):.2f}",
            f"{1e6 * _median(lines, 'cpu_workers') / line.tuples:.2f}",
            f"{_median(lines, 'ratio'):.2f}",
        )
    console.print(table)
    times = _median(large, "microseconds_per_tuple") / _median(small, "microseconds_per_tuple")
    console.print(f"a tuple costs [bold]{times:.2f}[/] times as much CPU with {large[0].tuples / small[0].tuples:.0f} times the data")


def show_state(by_strategy: Mapping[StrategyName, Sequence[RunRow]]) -> None:
    console = _console()
    table = _table("strategy", "state MB", "rows", "tuples/s", "CPU µs/tuple", "share of independent")
    independent = by_strategy["independent"][0].state_bytes
    for name, lines in by_strategy.items():
        table.add_row(
            name,
            f"{lines[0].state_bytes / 1e6:,.1f}",
            f"{lines[0].state_rows:,}",
            f"{_median(lines, 'tuples_per_second'):,.0f}",
            f"{_median(lines, 'microseconds_per_tuple'):.2f}",
            f"{lines[0].state_bytes / independent:.0%}",
        )
    console.print(table)


def _median(lines: Sequence[RunRow], name: str) -> float:
    return float(statistics.median(getattr(line, name) for line in lines))


def _split_count(text: str) -> tuple[str, str]:
    name, _, rows = text.partition(":")
    return name, rows


def _console() -> Console:
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table
