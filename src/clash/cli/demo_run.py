"""The run of the demo: data arrives while Spark joins it, progress is shown live, and the results are checked against DuckDB.

Its story: after a while one more query is added; later the data changes, and the plan with it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
from rich.markup import escape

from clash.cli.demo_data import SLICE, Feeder, Surge, history
from clash.cli.row_content import THREADS, Content, file_content, source_content
from clash.errors import ClashError
from clash.explain.wording import percent
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
ADDED_AT = 0.2  # of the data, when the additional query is added
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
    added: tuple[str, str] | None = None
    """Name and SQL of a query that is added while the others run."""
    surge: Surge | None = None


@contextmanager
def run_shop(console: Console, shop: Shop, ui: str | None = None, has_page: bool = False) -> Iterator[tuple[dict[str, int], str | None]]:
    """Runs to the end of the data, shows the progress, and checks the results. Yields the number of results per query and the address of
    the page; the run and the page are there until the block ends."""
    import clash

    with TemporaryDirectory(prefix="clash-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        slices = shop.minutes * 60 * 1_000_000 // SLICE
        window = parse_duration(shop.window, "the window") / 60e6
        per_minute = {stream.name: shop.statistics.rate(stream.name) / window for stream in shop.streams}
        feeder = Feeder(history(shop.minutes, per_minute, surge=shop.surge), folder / "in", slices, PAUSE)
        with ExitStack() as stack:
            with console.status("starting Spark on this machine"):
                spark = stack.enter_context(local_session("clash demo", min(4, os.cpu_count() or 1), folder / "spark.log"))
            engine = clash.Engine(spark, checkpoint=folder / "checkpoint", workers=shop.workers, statistics=shop.statistics, name="shop")
            for stream in shop.streams:
                schema = ", ".join(f"{column} {kind}" for column, kind in stream.columns)
                reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", MAX_FILES)
                frame = reader.parquet(str(folder / "in" / stream.name))
                engine.stream(stream.name, frame, time=stream.time, window=shop.window, lateness=LATENESS)
            for query, text in shop.queries.items():
                engine.query(query, text, sink=clash.sinks.Parquet(folder / "out" / query))
            run = engine.start()
            stack.callback(run.stop)
            url = None
            if has_page:
                server = clash.serve(run, ui)
                stack.callback(server.stop)
                url = server.url
                console.print(f"[bold]Watch it:[/] [cyan]{url}", soft_wrap=True)
            story = Story(shop, run, folder)
            _watch(console, shop, run, feeder, story)
            late = sum(run.progress["totals"]["late"].values())
            if late:
                raise ClashError("rows arrived too late", f"{late:,} rows", "no row should: this is a bug of the demo")
            with console.status("running the same joins in DuckDB, over all files"):
                checked = check(shop, folder, story.first_files())
            yield checked, url


class Story:
    """What happens while the demo runs beside the stream of data: a query is added, and the plan adapts."""

    def __init__(self, shop: Shop, run: Any, folder: Path) -> None:
        self.shop, self.run, self.folder = shop, run, folder
        self.lines: list[str] = []
        self._change: Any = None
        self._surged = False
        self._known = 1  # generations

    def go_on(self, minute: float) -> None:
        import clash

        shop = self.shop
        if shop.added is not None and self._change is None and minute >= shop.minutes * ADDED_AT:
            name, text = shop.added
            self._change = self.run.add_query(name, text, sink=clash.sinks.Parquet(self.folder / "out" / name))
            self.lines.append(f"minute {minute:.0f}: query [bold cyan]{name}[/] is added, while the others run")
        if shop.surge is not None and not self._surged and minute >= shop.surge.minute:
            self._surged = True
            self.lines.append(f"minute {shop.surge.minute}: {shop.surge.factor} times as many tickets arrive from now on")
        generations = self.run.generations
        for found in generations[self._known :]:
            if found["predicted_old"] is not None:
                gain = percent(1 - found["predicted_new"] / found["predicted_old"])
                reason = escape(found["reason"].partition(":")[0])
                self.lines.append(f"batch {found['batch']}: [bold green]the plan adapts[/], and costs {gain} less: {reason}")
        self._known = len(generations)

    def first_files(self) -> dict[str, int] | None:
        """By stream, the number of the first file that the added query saw as it arrived; None where none was added."""
        if self._change is None or self._change.batch is None:
            return None
        read: Counter[str] = Counter()
        for entry in self.run.recent_progress:
            if entry["batch"] < self._change.batch:
                read.update(entry["input"])
        return {stream.name: _file_after(self.folder / "in" / stream.name, read[stream.name]) for stream in self.shop.streams}


def _file_after(folder: Path, rows: int) -> int:
    """The number of the file that begins after so many rows: files are read whole, and in their order."""
    for file in sorted(folder.glob("*.parquet")):
        if rows <= 0:
            return int(file.stem)
        rows -= pq.read_metadata(file).num_rows
    return 1 << 30


def _watch(console: Console, shop: Shop, run: Any, feeder: Feeder, story: Story) -> None:
    """Feeds the streams and shows the progress until all rows are read."""
    from rich.live import Live

    began = time.perf_counter()
    feeder.start()
    try:
        with Live(console=console, refresh_per_second=5, transient=False) as live:
            while run.is_active and feeder.error is None and sum(run.progress["totals"]["input"].values()) < feeder.rows:
                story.go_on(feeder.done * SLICE / 60e6)
                live.update(_progress(shop, run.progress, feeder, time.perf_counter() - began, story.lines))
                time.sleep(REFRESH)
            run.process_all_available()  # raises what the run failed with
            story.go_on(shop.minutes)
            live.update(_progress(shop, run.progress, feeder, time.perf_counter() - began, story.lines))
    finally:
        feeder.stop()
    if not console.is_terminal:
        console.print()  # without a terminal, Live prints its last state only, and no newline after it
    if feeder.error is not None:
        raise ClashError("the demo's data cannot be written", str(feeder.error), "make room in the folder for temporary files")


def _progress(shop: Shop, progress: Mapping[str, Any], feeder: Feeder, seconds: float, story: Sequence[str] = ()) -> RenderableType:
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
        if name not in shop.queries and name not in progress["results"]:
            continue  # it is not added yet
        table.add_row(name, question, f"{totals['results'].get(name, 0):,}", f"+{progress['results'].get(name, 0):,}")
    return Group(head, numbers, table, *story)


def check(shop: Shop, folder: Path, first_files: Mapping[str, int] | None = None) -> dict[str, int]:
    """Compares the results with batch joins of all input files. Returns the number of results per query.

    `first_files`: by stream, the first file that the added query saw as it arrived. It answers with the results that one of these rows, or
    of later ones, completes."""
    queries = {**shop.queries, **({} if shop.added is None or first_files is None else {shop.added[0]: shop.added[1]})}
    results = {query: file_content(f"{folder}/out/{query}/*.parquet") for query in queries}
    for query, expected in _batch_joins(shop, queries, folder, first_files or {}).items():
        if results[query] != expected:
            detail = f"{query}: {results[query].rows:,} results, DuckDB has {expected.rows:,}"
            raise ClashError("results differ from DuckDB's", detail, "this is a bug of ours: please report it")
    return {query: content.rows for query, content in results.items()}


def _batch_joins(shop: Shop, queries: Mapping[str, str], folder: Path, first_files: Mapping[str, int]) -> dict[str, Content]:
    """The result of every query in DuckDB, where the window becomes a condition."""
    parsed, _ = parse_queries(queries, {stream.name: stream for stream in shop.streams})
    with duckdb.connect(config={"threads": THREADS}) as connection:
        for stream in shop.streams:
            files = f"read_parquet('{folder}/in/{stream.name}/*.parquet', filename = true)"
            number = "CAST(regexp_extract(filename, '([0-9]+)[.]parquet$', 1) AS INTEGER)"
            connection.execute(f"CREATE VIEW {stream.name} AS SELECT * EXCLUDE (filename), {number} AS file_number FROM {files}")
        contents = {}
        for query in parsed:
            aliases = [alias for alias, _ in query.aliases]
            times = ", ".join(f"{alias}.ts" for alias in aliases)
            condition = f"greatest({times}) - least({times}) <= INTERVAL '{shop.window}'"
            if query.name not in shop.queries:
                seen = " OR ".join(f"{alias}.file_number >= {first_files[relation.stream]}" for alias, relation in query.aliases)
                condition += f" AND ({seen})"
            contents[query.name] = source_content(connection, f"({query.text} WHERE {condition})")
        return contents
