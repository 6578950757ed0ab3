"""Streams of known content, with statistics collected as the engine collects them, and the exact sizes of their joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import clash
from clash.columnar.block import Block
from clash.model.block_columns import EVENT_TIME
from clash.model.query import Query
from clash.model.stream import Stream
from clash.sql import parse_queries
from clash.statistics import CollectionSpec, Collector, ProbeStep, StatisticsHistory, build_collection_spec, estimate, merge

Ints = NDArray[np.int64]
Table = Mapping[str, "Ints | pa.Array"]

SECOND = 1_000_000


@dataclass
class Run:
    """Collects statistics epoch by epoch, without an engine."""

    streams: dict[str, Stream]
    queries: tuple[Query, ...]
    collection_spec: CollectionSpec
    history: StatisticsHistory = field(default_factory=StatisticsHistory)
    epoch: int = 0
    hints: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def of(queries: Mapping[str, str] | str, *streams: Stream) -> Run:
        declared = {stream.name: stream for stream in streams}
        parsed, _ = parse_queries({"q": queries} if isinstance(queries, str) else queries, declared)
        return Run(declared, parsed, build_collection_spec(parsed, declared))

    def add(
        self,
        tables: Mapping[str, Table],
        tasks: int = 2,
        share: float = 1.0,
        off: Mapping[str, int | Ints] | None = None,
        matches: Mapping[str, tuple[float, float]] | None = None,
        steps: Mapping[str, ProbeStep] | None = None,
    ) -> None:
        """One epoch of one second, by several tasks. `off` is added to the event times of a stream."""
        parts = []
        for task in range(tasks):
            collector = Collector(self.collection_spec, "UTC", share, self.hints)
            for stream, table in tables.items():
                block = as_block(stream, table, self.epoch * SECOND + (off or {}).get(stream, 0))
                for rows in np.array_split(np.arange(task, block.rows, tasks, dtype=np.int32), 2):
                    collector.add(stream, block.take(rows))
            parts.append(collector.collected())
        self.epoch += 1
        self.history.add_epoch(merge(parts), self.collection_spec, self.streams, matches, steps)

    def estimate(self) -> clash.Statistics:
        return estimate(self.history, self.queries, self.streams)


def as_block(stream: str, table: Table, start: int | Ints) -> Block:
    columns = {f"{stream}.{name}": values if isinstance(values, pa.Array) else pa.array(values) for name, values in table.items()}
    rows = len(next(iter(columns.values())))
    return Block(rows, {**columns, EVENT_TIME: pa.array(start + np.arange(rows, dtype=np.int64) * SECOND // max(1, rows))})


def count_matches(keys: Ints, among: Ints, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """For each key the number of equal ones, or the sum of their weights."""
    distinct, inverse = np.unique(among, return_inverse=True)
    sums = np.bincount(inverse, weights, len(distinct)).astype(np.float64)
    at = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
    return np.where(distinct[at] == keys, sums[at], 0.0)


def zipf(rng: np.random.Generator, exponent: float, keys: int, rows: int) -> Ints:
    shares = 1 / np.arange(1, keys + 1) ** exponent
    return rng.permutation(keys * 3)[:keys][rng.choice(keys, rows, p=shares / shares.sum())].astype(np.int64)


def concatenate(parts: Sequence[Table]) -> dict[str, Ints]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}  # type: ignore[arg-type]
