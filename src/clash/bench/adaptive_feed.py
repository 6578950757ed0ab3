"""A feeder: writes streams as Parquet files at a given rate, from a process of its own.

Invariant: what is written is a function of the script alone, but for the times: a tuple's `ts` is when it was due, whatever the machine was
doing then. So a feeder that is late, like an engine that is, shows as latency. Files appear whole, and one per stream and tick.
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
_NICE = -5  # before the engine: it is the world outside
Columns = Mapping[str, NDArray[np.int64]]


class Script(Protocol):
    """What is fed: whole numbers, by stream and column, tick by tick."""

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def ticks(self) -> int: ...

    def rows(self, tick: int) -> Mapping[str, Columns]: ...


def due(tick: int, rows: int) -> NDArray[np.float64]:
    """When the tuples of a tick arrive, in seconds from the start: evenly over the tick, before its file is written."""
    return (tick + (np.arange(rows) + 0.5) / max(rows, 1)) * TICK


def write_tick(script: Script, tick: int, folder: Path, start: float) -> None:
    for stream, columns in script.rows(tick).items():
        count = len(next(iter(columns.values())))
        if not count:
            continue
        times = ((start + due(tick, count)) * 1e6).astype(np.int64)
        table = pa.table({**columns, "ts": pa.array(times, pa.timestamp("us", tz="UTC"))})
        hidden, there = folder / stream / f".{tick:06d}", folder / stream / f"{tick:06d}.parquet"
        pq.write_table(table, hidden, compression="none")
        hidden.rename(there)


def make_folders(script: Script, folder: Path) -> None:
    for stream in script.columns:
        (folder / stream).mkdir(parents=True, exist_ok=True)


def write_all(script: Script, folder: Path, start: float) -> None:
    """At once, for runs over what is there; file times keep the order that Spark reads in."""
    make_folders(script, folder)
    for tick in range(script.ticks):
        write_tick(script, tick, folder, start)
        for stream in script.columns:
            with suppress(FileNotFoundError):
                os.utime(folder / stream / f"{tick:06d}.parquet", (start + tick, start + tick))


def feed(script: Script, folder: Path, start: float) -> None:
    """Tick by tick, each when it is over."""
    with suppress(OSError):
        os.nice(_NICE)
    for tick in range(script.ticks):
        time.sleep(max(0.0, start + (tick + 1) * TICK - time.time()))
        write_tick(script, tick, folder, start)


@contextmanager
def feeding(script: Script, folder: Path, start: float) -> Iterator[multiprocessing.process.BaseProcess]:
    """The feeder at work beside the block; it ends with its script, or with the block."""
    process = multiprocessing.get_context("spawn").Process(target=feed, args=(script, folder, start), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join()


def lag(script: Script, folder: Path, start: float) -> float:
    """How late the latest file was, in seconds."""
    late = [
        path.stat().st_mtime - (start + (tick + 1) * TICK)
        for tick in range(script.ticks)
        for stream in script.columns
        if (path := folder / stream / f"{tick:06d}.parquet").exists()
    ]
    return max(late, default=0.0)
