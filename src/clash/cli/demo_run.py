"""The shop's streams on local Spark: fed while they are joined, watched while they run, and checked against DuckDB at the end."""

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

from clash.bench.content import THREADS, Content, file_content, source_content
from clash.cli.demo_data import SLICE, Feeder, history
from clash.errors import ClashError
from clash.model.durations import parse_duration
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.spark.local_session import local_session
from clash.sql import parse_queries

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LATENESS = "1 minute"
PAUSE = 0.3  # seconds between two slices: a hundred times as fast as the shop's own time
FILES = 4  # of a stream in one micro-batch, at most: who is behind catches up in steps that can be watched
LOOK = 0.2


@dataclass(frozen=True)
class Shop:
    """What the demo runs. `questions` and `queries` are by query name."""

    streams: tuple[Stream, ...]
    statistics: Statistics
    questions: Mapping[str, str]
    queries: Mapping[str, str]
    window: str
    minutes: int
    workers: int


def run_shop(console: Console, shop: Shop) -> dict[str, int]:
    """Runs it to the end, shows how it goes, and raises if a result is missing or wrong. The results per query."""
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
                reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES)
                frame = reader.parquet(str(folder / "in" / stream.name))
                engine.stream(stream.name, frame, time=stream.time, window=shop.window, lateness=LATENESS)
            for query, text in shop.queries.items():
                engine.query(query, text, sink=clash.sinks.Parquet(folder / "out" / query))
            run = engine.start()
            _watch(console, shop, run, feeder)
            late = sum(run.progress["totals"]["late"].values())
        if late:
            raise ClashError("rows came too late", f"{late:,} rows", "none should: this is a bug of the demo")
        with console.status("the same joins by DuckDB, over the files as they are now"):
            return check(shop, folder)


def _watch(console: Console, shop: Shop, run: Any, feeder: Feeder) -> None:
    """Feeds the streams and shows them until all is read."""
    from rich.live import Live

    began = time.perf_counter()
    feeder.start()
    try:
        with Live(console=console, refresh_per_second=5, transient=False) as live:
            while run.is_active and feeder.error is None and sum(run.progress["totals"]["input"].values()) < feeder.rows:
                live.update(_picture(shop, run.progress, feeder, time.perf_counter() - began))
                time.sleep(LOOK)
            run.process_all_available()  # raises what the run failed with
            live.update(_picture(shop, run.progress, feeder, time.perf_counter() - began))
    finally:
        feeder.halt()
        run.stop()
    if not console.is_terminal:
        console.print()  # there Live shows its last picture only, and ends no line
    if feeder.error is not None:
        raise ClashError("the demo's data cannot be written", str(feeder.error), "make room in the folder for temporary files")


def _picture(shop: Shop, progress: Mapping[str, Any], feeder: Feeder, seconds: float) -> RenderableType:
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
        f"[bold]{sum(store['rows'] for store in stores):,}[/] rows kept in {len(stores)} stores,"
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
    """Every query once more, as a batch join of all files, with the window spelled out."""
    found = {query: file_content(f"{folder}/out/{query}/*.parquet") for query in shop.queries}
    wanted = _batch_joins(shop, folder)
    for query, content in wanted.items():
        if found[query] != content:
            detail = f"{query}: {found[query].rows:,} results, DuckDB has {content.rows:,}"
            raise ClashError("results differ from DuckDB's", detail, "this is a bug of ours: please report it")
    return {query: content.rows for query, content in found.items()}


def _batch_joins(shop: Shop, folder: Path) -> dict[str, Content]:
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
