"""A feeder: writes streams as Parquet files at a given rate, from its own process.

Invariant: the rows are a function of the script alone, except for their times: a tuple's `ts` is when it was due, however busy the machine
was. A delay of the feeder therefore counts as latency, as a delay of the engine does. Files appear complete, one per stream and tick.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

TICK = 0.2  # seconds between two files of a stream
_NICE = -5  # priority over the engine: the feeder stands for the outside world, which does not slow down
Columns = Mapping[str, NDArray[np.int64]]


class Script(Protocol):
    """What is fed: integers, by stream and column, tick by tick."""

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def ticks(self) -> int: ...

    def rows(self, tick: int) -> Mapping[str, Columns]: ...


def due_times(tick: int, rows: int) -> NDArray[np.float64]:
    """When the tuples of a tick arrive, in seconds from the start: evenly over the tick, before its file is written."""
    return (tick + (np.arange(rows) + 0.5) / max(rows, 1)) * TICK


def write_tick(script: Script, tick: int, folder: Path, start: float) -> None:
    """Writes one file per stream that has rows in the tick. `start`: the time of tick 0, in seconds since 1970."""
    for stream, columns in script.rows(tick).items():
        count = len(next(iter(columns.values())))
        if not count:
            continue
        times = ((start + due_times(tick, count)) * 1e6).astype(np.int64)
        table = pa.table({**columns, "ts": pa.array(times, pa.timestamp("us", tz="UTC"))})
        unfinished, final = folder / stream / f".{tick:06d}", folder / stream / f"{tick:06d}.parquet"
        pq.write_table(table, unfinished, compression="none")
        unfinished.rename(final)


def make_folders(script: Script, folder: Path) -> None:
    for stream in script.columns:
        (folder / stream).mkdir(parents=True, exist_ok=True)


def write_all(script: Script, folder: Path, start: float) -> None:
    """Writes all ticks at once, for runs over existing files; Spark reads them in the order of their modification times."""
    make_folders(script, folder)
    for tick in range(script.ticks):
        write_tick(script, tick, folder, start)
        for stream in script.columns:
            with suppress(FileNotFoundError):
                os.utime(folder / stream / f"{tick:06d}.parquet", (start + tick, start + tick))


def feed(script: Script, folder: Path, start: float) -> None:
    """Writes every tick in real time, when it is over."""
    with suppress(OSError):
        os.nice(_NICE)
    for tick in range(script.ticks):
        time.sleep(max(0.0, start + (tick + 1) * TICK - time.time()))
        write_tick(script, tick, folder, start)


@contextmanager
def feeding(script: Script, folder: Path, start: float) -> Iterator[multiprocessing.process.BaseProcess]:
    """Runs the feeder while the block runs; it ends with its script or with the block, whichever is first."""
    process = multiprocessing.get_context("spawn").Process(target=feed, args=(script, folder, start), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join()


def lag(script: Script, folder: Path, start: float) -> float:
    """The largest delay of any file, in seconds."""
    delays = [
        path.stat().st_mtime - (start + (tick + 1) * TICK)
        for tick in range(script.ticks)
        for stream in script.columns
        if (path := folder / stream / f"{tick:06d}.parquet").exists()
    ]
    return max(delays, default=0.0)
