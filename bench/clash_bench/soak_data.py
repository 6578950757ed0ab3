"""The streams of the soak, and random joins over them.

Invariant: the columns of a row follow from its id, and the ids of a stream count from 0 without a gap. A query returns the ids of its
parts, so these identify a result.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RATE = 20  # tuples per second and stream
TICK = 2.0  # seconds between two files of a stream
WINDOW = 10  # seconds
KEPT = 300  # seconds after which an input file, which was read long ago, is deleted
FILES = ("A", "B", "C")  # streams of Parquet files
GENERATED = "D"  # a stream of Spark's rate source
EXTRA = ("E", "F", "G", "H")  # Parquet files; added one by one while the job runs
FORMULAS = {"k1": "id * 7919 % 100", "k2": "id % 200", "amount": "id * 13 % 100"}  # SQL of both Spark and DuckDB
SCHEMA = ", ".join(["id BIGINT", *(f"{name} BIGINT" for name in FORMULAS), "ts TIMESTAMP"])


@dataclass(frozen=True)
class SoakQuery:
    """A chain of streams, each joined with the one before."""

    streams: tuple[str, ...]
    keys: tuple[str, ...]
    """Of each stream but the first."""
    least: int
    """Rows of the first stream must have a larger amount."""

    @property
    def conditions(self) -> list[str]:
        joins = [f"{before}.{key} = {stream}.{key}" for (before, stream), key in zip(pairwise(self.streams), self.keys, strict=True)]
        return [*joins, f"{self.streams[0]}.amount > {self.least}"]

    @property
    def text(self) -> str:
        ids = ", ".join(f"{stream}.id AS id_{stream}" for stream in self.streams)
        return f"SELECT {ids} FROM {', '.join(self.streams)} WHERE {' AND '.join(self.conditions)}"


def random_query(random: Random, streams: Sequence[str]) -> SoakQuery:
    chosen = tuple(random.sample(list(streams), random.choice((2, 2, 3, 3, 4))))
    keys = tuple(random.choice(("k1", "k2", "k2")) for _ in chosen[1:])
    return SoakQuery(chosen, keys, random.randrange(20, 90) if len(chosen) < 4 else 85)


def tap(stream: str) -> str:
    """A query that has every row of the stream once: its result files say which batch read the row."""
    return f"SELECT {', '.join(f'{stream}.{column}' for column in ('id', *FORMULAS, 'ts'))} FROM {stream}"


def generated(spark: Any) -> Any:
    frame = spark.readStream.format("rate").option("rowsPerSecond", RATE).option("numPartitions", 1).load()
    columns = [f"CAST({formula} AS BIGINT) AS {name}" for name, formula in FORMULAS.items()]
    return frame.withColumnRenamed("value", "id").selectExpr("id", *columns, "timestamp AS ts")


class Feeder:
    """Writes the streams of files in real time, from a thread, and deletes old files. `with Feeder(folder) as feeder: …`"""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._next: dict[str, tuple[float, int]] = {}  # by stream, when its first tuple was due, and the id of the next one
        self._written: deque[tuple[float, Path]] = deque()
        self._stop = Event()
        self._thread = Thread(target=self._feed, name="soak-feeder", daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def add(self, stream: str) -> Path:
        """The folder of a new stream."""
        path = self.folder / stream
        path.mkdir(parents=True)
        self._next = {**self._next, stream: (time.time(), 0)}
        return path

    def _feed(self) -> None:
        while not self._stop.wait(TICK):
            now = time.time()
            for stream, (begin, first) in list(self._next.items()):
                ids = np.arange(first, int((now - begin) * RATE), dtype=np.int64)
                if len(ids):
                    self._write(stream, ids, begin, now)
                    self._next[stream] = begin, first + len(ids)
            while self._written and self._written[0][0] < now - KEPT:
                self._written.popleft()[1].unlink()

    def _write(self, stream: str, ids: np.ndarray[Any, Any], begin: float, now: float) -> None:
        times = ((begin + ids / RATE) * 1e6).astype(np.int64)
        columns = {"id": ids, "k1": ids * 7919 % 100, "k2": ids % 200, "amount": ids * 13 % 100}
        path = self.folder / stream / f"{ids[0]:09d}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(pa.table({**columns, "ts": pa.array(times, pa.timestamp("us", "UTC"))}), hidden, compression="none")
        hidden.rename(path)
        self._written.append((now, path))
