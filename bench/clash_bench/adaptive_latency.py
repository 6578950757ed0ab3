"""Latency as seen from outside: from when a tuple was due to the commit of the batch that read it, which also commits its results.

Invariant: which batch read a file follows from the number of rows that the run reports per batch, because Spark reads files in order and
as a whole; a batch that ends within a file is an error, never a guess. A tuple that was not committed when the run ended counts with the
time that it had waited.
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

from clash.errors import ClashError
from clash_bench.adaptive_feed import Script, due_times

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FileBatches:
    """The files of a stream, one entry per file."""

    ticks: Sequence[int]
    rows: Sequence[int]
    batches: Sequence[int]
    """The batch that read the file; -1 if none did."""


@dataclass(frozen=True)
class Latencies:
    """One entry per tuple or result."""

    due: Floats
    """When the tuple, or the last part of the result, was due: seconds from the start."""
    latency: Floats
    """In seconds."""
    open: NDArray[np.bool_]
    """Whether it was not committed when the run ended; then `latency` is a lower bound."""

    def of_second(self, second: int) -> Latencies:
        chosen = (self.due >= second) & (self.due < second + 1)
        return Latencies(self.due[chosen], self.latency[chosen], self.open[chosen])

    def quantile(self, share: float) -> float | None:
        """A quantile of the latency, in milliseconds; None if there are no entries."""
        return round(float(np.quantile(self.latency, share)) * 1000, 1) if len(self.latency) else None


def commit_times(progress: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    """By batch: when it was committed, in seconds since 1970."""
    return {entry["batch"]: datetime.fromisoformat(entry["timestamp"]).timestamp() for entry in progress}


def assign_files(script: Script, progress: Sequence[Mapping[str, Any]]) -> dict[str, FileBatches]:
    """By stream: which batch read which file."""
    counts: dict[str, list[tuple[int, int]]] = {stream: [] for stream in script.columns}
    for tick in range(script.ticks):
        for stream, columns in script.rows(tick).items():
            rows = len(next(iter(columns.values())))
            counts[stream] += [(tick, rows)] if rows else []
    assigned = {}
    for stream, files in counts.items():
        ends = list(accumulate(rows for _, rows in files))
        batches, next_file, read = [-1] * len(files), 0, 0
        for entry in progress:
            read += entry["input"].get(stream, 0)
            while next_file < len(ends) and ends[next_file] <= read:
                batches[next_file] = entry["batch"]
                next_file += 1
            if read != (ends[next_file - 1] if next_file else 0):
                raise ClashError(
                    "a batch ends within a file", f"stream {stream}, batch {entry['batch']}, {read} rows", "this is a bug of ours"
                )
        assigned[stream] = FileBatches([tick for tick, _ in files], [rows for _, rows in files], batches)
    return assigned


def tuple_latencies(files: Mapping[str, FileBatches], committed: Mapping[int, float], start: float, end: float) -> Latencies:
    """The latencies of all tuples. `end`: when the run was ended, in seconds since 1970."""
    due, waited, open_ = [], [], []
    for of_stream in files.values():
        for tick, rows, batch in zip(of_stream.ticks, of_stream.rows, of_stream.batches, strict=True):
            due.append(due_times(tick, rows))
            waited.append(committed.get(batch, end) - start - due[-1])
            open_.append(np.full(rows, batch not in committed))
    return Latencies(_concatenate(due), _concatenate(waited), np.concatenate(open_) if open_ else np.empty(0, bool))


def result_latencies(folder: Path, times: Sequence[str], committed: Mapping[int, float], start: float) -> Latencies:
    """The latencies of all results in the folder of a Parquet sink. `times`: the result columns that hold the event times of the parts."""
    if not any(folder.glob("*.parquet")):
        return Latencies(np.empty(0), np.empty(0), np.empty(0, bool))
    last = f"greatest({', '.join(times)})" if len(times) > 1 else times[0]
    with duckdb.connect() as connection:
        columns = connection.execute(
            f"SELECT epoch_us({last}) AS last, regexp_extract(filename, 'part-(\\d+)-', 1)::BIGINT AS batch "
            f"FROM read_parquet('{folder}/*.parquet', filename = true)"
        ).fetchnumpy()
    due = columns["last"] / 1e6 - start
    batches, positions = np.unique(columns["batch"], return_inverse=True)
    commit_seconds = np.array([committed[int(batch)] for batch in batches]) - start
    return Latencies(due, commit_seconds[positions] - due, np.zeros(len(due), bool))


def _concatenate(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.empty(0)
