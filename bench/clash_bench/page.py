"""What an open page costs the stream: the same files, with a client that reads events and without, in alternation.

The page's work is done by threads of the driver, beside those that run batches: its processor time is compared as well as the throughput,
which other programs on the machine disturb.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2 as httpx

import clash
from clash.cli.demo import QUERIES, SELECTIVITIES, STREAMS, WINDOW
from clash.cli.demo_data import SLICE, history, write_slice
from clash.spark.local_session import local_session
from clash_bench import page_plot
from clash_bench.monitor import load
from clash_bench.tables import note, write

MINUTES_OF_WINDOW = 10
FILES = 1  # of a stream in one micro-batch


@dataclass(frozen=True)
class PageRun:
    """One run to the end of the data."""

    page: bool
    """Whether a client received events."""
    repetition: int
    tuples: int
    batches: int
    events: int
    seconds: float
    tuples_per_second: float
    driver_cpu: float
    """Seconds of the processor that the driver's Python took."""
    load: float


def run(minutes: int, repeat: int, out: Path) -> None:
    rows: list[PageRun] = []
    with TemporaryDirectory(prefix="clash-bench-page-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        _write_files(folder / "in", minutes)
        spark = stack.enter_context(local_session("clash bench page", 2, folder / "spark.log"))
        _measure(spark, folder, "warm", page=True, repetition=-1)  # imports, and compiled kernels
        for repetition in range(repeat):
            for page in (False, True) if repetition % 2 else (True, False):
                rows.append(_measure(spark, folder, f"{repetition}-{page}", page, repetition))
                note(f"{rows[-1]}")
    write(out / "page.csv", PageRun, rows)
    page_plot.draw(rows, out / "page.png")
    for part in ("driver_cpu", "tuples_per_second"):
        ratios = [getattr(_of(rows, at, True), part) / getattr(_of(rows, at, False), part) for at in range(repeat)]
        note(f"{part} with a page, over that without: median {statistics.median(ratios):.4f} of {sorted(round(r, 3) for r in ratios)}")


def _of(rows: list[PageRun], repetition: int, page: bool) -> PageRun:
    return next(row for row in rows if (row.repetition, row.page) == (repetition, page))


def _write_files(folder: Path, minutes: int) -> None:
    tables = history(minutes, {name: rate / MINUTES_OF_WINDOW for name, (_, rate) in STREAMS.items()})
    for name in tables:
        (folder / name).mkdir(parents=True)
    for number in range(minutes * 60_000_000 // SLICE):
        write_slice(tables, number, folder)


def _measure(spark: Any, folder: Path, name: str, page: bool, repetition: int) -> PageRun:
    given = clash.Statistics(rates={name: rate for name, (_, rate) in STREAMS.items()}, selectivities=SELECTIVITIES)
    engine = clash.Engine(spark, checkpoint=folder / "checkpoints" / name, workers=4, statistics=given, adaptive=False)
    for stream, (columns, _) in STREAMS.items():
        schema = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES).parquet(str(folder / "in" / stream))
        engine.stream(stream, frame, time="ts", window=WINDOW, lateness="1 minute")
    for query, (_, text) in QUERIES.items():
        engine.query(query, text)
    began, cpu = time.perf_counter(), time.process_time()
    started = engine.start()
    with ExitStack() as stack:
        stack.callback(started.stop)
        reader = Reader(clash.serve(started, "127.0.0.1:0")) if page else None
        if reader is not None:
            stack.callback(reader.stop)
        started.process_all_available()
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
        totals = started.progress["totals"]
        events = 0 if reader is None else reader.events
    tuples = sum(totals["input"].values())
    return PageRun(page, repetition, tuples, totals["batches"], events, seconds, tuples / seconds, used, load())


class Reader(threading.Thread):
    """A page: it receives events for as long as there are some. It counts towards the processor time of the driver, of which it is a
    thread: the measured cost is rather too high."""

    def __init__(self, server: Any) -> None:
        super().__init__(name="page", daemon=True)
        self.server, self.events = server, 0
        self.start()

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self.server.access.token}"}
        try:
            with httpx.stream("GET", f"{self.server.address}/api/events", headers=headers, timeout=None, trust_env=False) as response:
                for line in response.iter_lines():
                    self.events += line.startswith("event:")
        except httpx.HTTPError:
            pass  # the server has been stopped

    def stop(self) -> None:
        self.server.stop()
        self.join(5)
