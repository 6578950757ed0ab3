"""Streams of known content, gathered as the engine would gather them, and the exact sizes of their joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import clash
from clash.model.query import Query
from clash.model.stream import Stream
from clash.sql import parse_queries
from clash.statistics import Gatherer, History, Wanted, estimate, merge, collection_spec

Ints = NDArray[np.int64]
Table = Mapping[str, "Ints | pa.Array"]

SECOND = 1_000_000


@dataclass(frozen=True)
class Block:
    rows: int
    columns: Mapping[str, pa.Array]


@dataclass
class Run:
    """Epochs of a job, without the job."""

    streams: dict[str, Stream]
    queries: tuple[Query, ...]
    collection_spec: Wanted
    history: History
    epoch: int = 0

    @staticmethod
    def of(queries: Mapping[str, str] | str, *streams: Stream) -> Run:
        declared = {stream.name: stream for stream in streams}
        parsed, _ = parse_queries({"q": queries} if isinstance(queries, str) else queries, declared)
        return Run(declared, parsed, collection_spec(parsed, declared), History())

    def add(
        self,
        tables: Mapping[str, Table],
        tasks: int = 2,
        share: float = 1.0,
        off: Mapping[str, int | Ints] | None = None,
        **probes: object,
    ) -> None:
        """One epoch of one second, by several tasks. `off`: what is added to the event times of a stream."""
        gathered = []
        for task in range(tasks):
            gatherer = Gatherer(self.wanted, "UTC", share)
            for stream, table in tables.items():
                block = as_block(stream, table, self.epoch * SECOND + (off or {}).get(stream, 0))
                some = np.arange(task, block.rows, tasks)
                for part in np.array_split(some, 2):
                    index = pa.array(part)
                    gatherer.add(stream, Block(len(part), {name: column.take(index) for name, column in block.columns.items()}))
            gathered.append(gatherer.to_json())
        self.epoch += 1
        self.history.add_epoch(merge(gathered), self.wanted, self.streams, **probes)  # type: ignore[arg-type]

    def estimate(self) -> clash.Statistics:
        return estimate(self.history, self.queries, self.streams)


def as_block(stream: str, table: Table, start: int | Ints) -> Block:
    columns = {f"{stream}.{name}": values if isinstance(values, pa.Array) else pa.array(values) for name, values in table.items()}
    rows = len(next(iter(columns.values())))
    return Block(rows, {**columns, "#tau": pa.array(start + np.arange(rows, dtype=np.int64) * SECOND // max(1, rows))})


def found(keys: Ints, among: Ints, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """For each key the number of equal ones, or the sum of their weights."""
    distinct, inverse = np.unique(among, return_inverse=True)
    sums = np.bincount(inverse, weights, len(distinct)).astype(np.float64)
    at = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
    return np.where(distinct[at] == keys, sums[at], 0.0)


def zipf(rng: np.random.Generator, exponent: float, keys: int, rows: int) -> Ints:
    shares = 1 / np.arange(1, keys + 1) ** exponent
    return rng.permutation(keys * 3)[:keys][rng.choice(keys, rows, p=shares / shares.sum())].astype(np.int64)


def joined(parts: Sequence[Table]) -> dict[str, Ints]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}  # type: ignore[arg-type]
