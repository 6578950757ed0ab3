"""Latency from the outside: from when a tuple was due to the commit of the batch that took it in, which is the commit of its results.

Invariant: which batch took a file in is read off the numbers of rows that the run reports per batch, since Spark reads files in order and
whole; numbers that do not end with a file are an error, not a guess. What was not committed at the end counts with the time it had waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from clash.bench.adaptive_feed import Script, due
from clash.errors import ClashError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Taken:
    """Files of a stream: their ticks and rows, and the batch that took each in, -1 if none did."""

    ticks: Sequence[int]
    rows: Sequence[int]
    batches: Sequence[int]


@dataclass(frozen=True)
class Tuples:
    """One entry per tuple or result: seconds from the start at which it (its last part) was due, and its latency in seconds."""

    due: Floats
    latency: Floats
    open: NDArray[np.bool_]  # not committed: the latency is at least this

    def of_second(self, second: int) -> Tuples:
        chosen = (self.due >= second) & (self.due < second + 1)
        return Tuples(self.due[chosen], self.latency[chosen], self.open[chosen])

    def quantile(self, share: float) -> float | None:
        """In milliseconds; None if there is none."""
        return round(float(np.quantile(self.latency, share)) * 1000, 1) if len(self.latency) else None


def commits(progress: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    """When batches were committed, in seconds since 1970."""
    return {entry["batch"]: datetime.fromisoformat(entry["timestamp"]).timestamp() for entry in progress}


def taken(script: Script, progress: Sequence[Mapping[str, Any]]) -> dict[str, Taken]:
    """Per stream which batch took which file in."""
    counts: dict[str, list[tuple[int, int]]] = {stream: [] for stream in script.columns}
    for tick in range(script.ticks):
        for stream, columns in script.rows(tick).items():
            rows = len(next(iter(columns.values())))
            counts[stream] += [(tick, rows)] if rows else []
    found = {}
    for stream, files in counts.items():
        ends = list(accumulate(rows for _, rows in files))
        batches, at, read = [-1] * len(files), 0, 0
        for entry in progress:
            read += entry["input"].get(stream, 0)
            while at < len(ends) and ends[at] <= read:
                batches[at] = entry["batch"]
                at += 1
            if read != (ends[at - 1] if at else 0):
                raise ClashError(
                    "a batch ends within a file", f"stream {stream}, batch {entry['batch']}, {read} rows", "this is a bug of ours"
                )
        found[stream] = Taken([tick for tick, _ in files], [rows for _, rows in files], batches)
    return found


def of_tuples(found: Mapping[str, Taken], committed: Mapping[int, float], start: float, end: float) -> Tuples:
    """All tuples; `end`: when one stopped looking."""
    arrived, waited, open_ = [], [], []
    for files in found.values():
        for tick, rows, batch in zip(files.ticks, files.rows, files.batches, strict=True):
            arrived.append(due(tick, rows))
            waited.append(committed.get(batch, end) - start - arrived[-1])
            open_.append(np.full(rows, batch not in committed))
    return Tuples(_joined(arrived), _joined(waited), np.concatenate(open_) if open_ else np.empty(0, bool))


def of_results(folder: Path, times: Sequence[str], committed: Mapping[int, float], start: float) -> Tuples:
    """All results in a folder of a Parquet sink; `times`: their columns with the times of their parts."""
    if not any(folder.glob("*.parquet")):
        return Tuples(np.empty(0), np.empty(0), np.empty(0, bool))
    last = f"greatest({', '.join(times)})" if len(times) > 1 else times[0]
    with duckdb.connect() as connection:
        columns = connection.execute(
            f"SELECT epoch_us({last}) AS last, regexp_extract(filename, 'part-(\\d+)-', 1)::BIGINT AS batch "
            f"FROM read_parquet('{folder}/*.parquet', filename = true)"
        ).fetchnumpy()
    arrived = columns["last"] / 1e6 - start
    batches, where = np.unique(columns["batch"], return_inverse=True)
    when = np.array([committed[int(batch)] for batch in batches]) - start
    return Tuples(arrived, when[where] - arrived, np.zeros(len(arrived), bool))


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.empty(0)
