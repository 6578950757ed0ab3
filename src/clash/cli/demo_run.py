"""The run of the demo: data arrives while Spark joins it, progress is shown live, and the results are checked against DuckDB."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb

from clash.cli.demo_data import SLICE, Feeder, history
from clash.cli.row_content import THREADS, Content, file_content, source_content
from clash.errors import ClashError
from clash.model.durations import parse_duration
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.spark.local_session import local_session
from clash.sql import parse_queries

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LATENESS = "1 minute"
PAUSE = 0.3  # seconds between two slices of 30 seconds: a hundred times as fast as event time
MAX_FILES = 4  # of a stream in one micro-batch: a backlog is worked off in several batches, so that progress is visible
REFRESH = 0.2  # seconds between two updates of the live display


@dataclass(frozen=True)
class Shop:
    """What the demo runs."""

    streams: tuple[Stream, ...]
    statistics: Statistics
    questions: Mapping[str, str]
    """By query: what it answers, in words."""
    queries: Mapping[str, str]
    """By query: its SQL."""
    window: str
    minutes: int
    """Event time that the data covers."""
    workers: int


def run_shop(console: Console, shop: Shop) -> dict[str, int]:
    """Runs to the end of the data, shows the progress, and checks the results. Returns the number of results per query."""
    import clash

    with TemporaryDirectory(prefix="clash-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        slices = shop.minutes * 60 * 1_000_000 // SLICE
        window = parse_duration(shop.window, "the window") / 60e6
        per_minute = {stream.name: shop.statistics.rate(stream.name) / window for stream in shop.streams}
        feeder = Feeder(history(shop.minutes, per_minute), folder / "in", slices, PAUSE)
        with ExitStack() as stack:
            with console.status("starting Spark on this machine"):
                spark = stack.enter_context(local_session("clash demo", min(4, os.cpu_count() or 1), folder / "spark.log"))
            engine = clash.Engine(spark, checkpoint=folder / "checkpoint", workers=shop.workers, statistics=shop.statistics)
            for stream in shop.streams:
                schema = ", ".join(f"{column} {kind}" for column, kind in stream.columns)
                reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", MAX_FILES)
                frame = reader.parquet(str(folder / "in" / stream.name))
                engine.stream(stream.name, frame, time=stream.time, window=shop.window, lateness=LATENESS)
            for query, text in shop.queries.items():
                engine.query(query, text, sink=clash.sinks.Parquet(folder / "out" / query))
            run = engine.start()
            _watch(console, shop, run, feeder)
            late = sum(run.progress["totals"]["late"].values())
        if late:
            raise ClashError("rows arrived too late", f"{late:,} rows", "no row should: this is a bug of the demo")
        with console.status("running the same joins in DuckDB, over all files"):
            return check(shop, folder)


def _watch(console: Console, shop: Shop, run: Any, feeder: Feeder) -> None:
    """Feeds the streams and shows the progress until all rows are read."""
    from rich.live import Live

    began = time.perf_counter()
    feeder.start()
    try:
        with Live(console=console, refresh_per_second=5, transient=False) as live:
            while run.is_active and feeder.error is None and sum(run.progress["totals"]["input"].values()) < feeder.rows:
                live.update(_progress(shop, run.progress, feeder, time.perf_counter() - began))
                time.sleep(REFRESH)
            run.process_all_available()  # raises what the run failed with
            live.update(_progress(shop, run.progress, feeder, time.perf_counter() - began))
    finally:
        feeder.stop()
        run.stop()
    if not console.is_terminal:
        console.print()  # without a terminal, Live prints its last state only, and no newline after it
    if feeder.error is not None:
        raise ClashError("the demo's data cannot be written", str(feeder.error), "make room in the folder for temporary files")


def _progress(shop: Shop, progress: Mapping[str, Any], feeder: Feeder, seconds: float) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    totals, stores = progress["totals"], progress["stores"].values()
    tuples = sum(totals["input"].values())
    head = Table.grid(padding=(0, 2, 0, 0))
    minute = feeder.done * SLICE / 60e6
    head.add_row(
        ProgressBar(total=feeder.slices, completed=feeder.done, width=30),
        f"{minute:4.1f} of {shop.minutes} minutes of the shop",
        f"[dim]{totals['batches']} micro-batches in {seconds:.0f} s",
    )
    numbers = Table.grid(padding=(0, 2, 0, 0))
    numbers.add_row(
        f"[bold]{tuples:,}[/] tuples read",
        f"[bold]{tuples / seconds:,.0f}[/] per second" if seconds > 1 else "",
        f"[bold]{sum(store['rows'] for store in stores):,}[/] rows in {len(stores)} stores,"
        f" {sum(store['bytes'] for store in stores) / 1e6:.1f} MB",
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("query", style="bold cyan", no_wrap=True)
    table.add_column("", style="italic")
    table.add_column("results", justify="right")
    table.add_column("in the last batch", justify="right", style="green")
    for name, question in shop.questions.items():
        table.add_row(name, question, f"{totals['results'].get(name, 0):,}", f"+{progress['results'].get(name, 0):,}")
    return Group(head, numbers, table)


def check(shop: Shop, folder: Path) -> dict[str, int]:
    """Compares the results with batch joins of all input files. Returns the number of results per query."""
    results = {query: file_content(f"{folder}/out/{query}/*.parquet") for query in shop.queries}
    for query, expected in _batch_joins(shop, folder).items():
        if results[query] != expected:
            detail = f"{query}: {results[query].rows:,} results, DuckDB has {expected.rows:,}"
            raise ClashError("results differ from DuckDB's", detail, "this is a bug of ours: please report it")
    return {query: content.rows for query, content in results.items()}


def _batch_joins(shop: Shop, folder: Path) -> dict[str, Content]:
    """The result of every query in DuckDB, where the window becomes a condition."""
    parsed, _ = parse_queries(shop.queries, {stream.name: stream for stream in shop.streams})
    with duckdb.connect(config={"threads": THREADS}) as connection:
        for stream in shop.streams:
            connection.execute(f"CREATE VIEW {stream.name} AS FROM read_parquet('{folder}/in/{stream.name}/*.parquet')")
        contents = {}
        for query in parsed:
            times = ", ".join(f"{alias}.ts" for alias, _ in query.aliases)
            window = f"greatest({times}) - least({times}) <= INTERVAL '{shop.window}'"
            contents[query.name] = source_content(connection, f"({query.text} WHERE {window})")
        return contents
