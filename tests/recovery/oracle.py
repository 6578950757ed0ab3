"""What the job must have given after each batch: DuckDB over the admitted rows of the files up to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from clash.coordinator.checkpoint.offset_entry import NO_OFFSET, OffsetEntry

from . import shapes

Rows = Counter[tuple[Any, ...]]


class Expected:
    """`batches`: per stream, the batch of each file. `results(query, b)` and `late(stream, b)` are those of batches up to b."""

    def __init__(self, batches: Mapping[str, Sequence[int]]) -> None:
        self.batches = batches
        self._late: dict[str, list[tuple[int, tuple[Any, ...]]]] = {}
        self._results: dict[str, list[tuple[int, tuple[Any, ...]]]] = {}
        with duckdb.connect() as connection:
            connection.execute("SET timezone = 'UTC'")
            for stream in shapes.COLUMNS:
                rows = pa.concat_tables([_numbered(stream, file, batch) for file, batch in enumerate(batches[stream])])
                connection.register(f"{stream}_all", rows)
                admitted = _ADMITTED if stream in shapes.TIMED else "true"
                connection.execute(f"CREATE TABLE {stream}_marked AS SELECT *, {_mark(stream)} AS __mark FROM {stream}_all")
                connection.execute(f"CREATE TABLE {stream} AS SELECT * FROM {stream}_marked WHERE {admitted}")
                late = connection.sql(f"SELECT __batch, {', '.join(shapes.COLUMNS[stream])} FROM {stream}_marked WHERE NOT ({admitted})")
                self._late[stream] = [(row[0], plain(row[1:])) for row in late.fetchall()]
            for query in shapes.QUERIES:
                self._results[query] = [(row[-1], plain(row[:-1])) for row in connection.sql(_text(query)).fetchall()]

    def results(self, query: str, last: int) -> Rows:
        return Counter(row for batch, row in self._results[query] if batch <= last)

    def from_batch(self, query: str, number: int) -> Rows:
        return Counter(row for batch, row in self._results[query] if batch == number)

    def late(self, stream: str, last: int) -> Rows:
        return Counter(row for batch, row in self._late[stream] if batch <= last)


def read_by(checkpoint: Path, files: int, streams: Iterable[str] = shapes.COLUMNS) -> dict[str, list[int]]:
    """Per stream, the batch of each file, by Spark's own record. Mostly file b is batch b; but a run that is stopped while Spark looks
    for files has them on record already, and the next batch reads one file more. Files that have not been read yet come after all others.
    """
    offsets = {int(file.name): OffsetEntry.parse(file.read_bytes()).lines for file in (checkpoint / "spark" / "offsets").glob("[0-9]*")}
    found: dict[str, list[int]] = {}
    for at, stream in enumerate(streams):
        ends = [(json.loads(lines[at])["logOffset"], batch) for batch, lines in sorted(offsets.items()) if lines[at] != NO_OFFSET]
        found[stream] = [min((batch for end, batch in ends if end >= file), default=UNREAD + file) for file in range(files)]
    return found


UNREAD = 1_000_000
_ADMITTED = "ts IS NOT NULL AND (__mark IS NULL OR epoch_us(ts) >= __mark)"


def _mark(stream: str) -> str:
    """The watermark is of earlier batches alone."""
    if stream not in shapes.TIMED:
        return "NULL"
    return f"max(epoch_us(ts)) OVER (ORDER BY __batch RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) - {shapes.LATENESS}"


def _numbered(stream: str, file: int, batch: int) -> pa.Table:
    return shapes.table(stream, file).append_column("__batch", pa.array([batch] * shapes.ROWS, pa.int64()))


def _text(query: str) -> str:
    aliases = list(shapes.ALIASES[query])
    select, _, rest = shapes.QUERIES[query].partition(" FROM ")
    text = f"{select}, greatest({', '.join(f'{alias}.__batch' for alias in aliases)}) FROM {rest}"
    taus = {alias: f"epoch_us({alias}.ts)" for alias in aliases}
    within = [f"greatest({', '.join(taus.values())}) - {taus[a]} <= {width}" for a, width in shapes.WINDOWS.get(query, {}).items()]
    if not within:
        return text
    return f"{text} {'AND' if ' WHERE ' in rest else 'WHERE'} {' AND '.join(within)}"


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Moments of any zone label compare."""
    return tuple(value.timestamp() if isinstance(value, datetime) else value for value in row)


def counted(rows: pa.Table) -> Rows:
    columns = [column.to_pylist() for column in rows.columns]
    return Counter(plain(row) for row in zip(*columns, strict=True))
