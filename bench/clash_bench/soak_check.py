"""Compares the results of the soak with DuckDB's join of the rows that each batch read; in a process of its own, so that its memory is not
that of the driver.

Invariant: the results of every batch are compared once. From `complete_from` on they are exactly what the rows of the streams give, with
those that arrived before the query was added if it has history. Before it some may be missing, none may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from clash.protocol.result_files import origin_of
from clash_bench.soak_data import FORMULAS, WINDOW, SoakQuery

MARGIN = 60  # batches before the first, in which parts of results may have arrived


@dataclass(frozen=True)
class CheckedLife:
    """A query from its first batch to the one that ended it."""

    name: str
    query: SoakQuery
    folder: Path
    history: bool
    added: int
    complete: int | None
    removed: int | None


@dataclass(frozen=True)
class Verdict:
    tuples: int
    results: int
    differences: tuple[str, ...]
    next_ids: dict[str, int]
    """By stream, the id after the last one of the checked batches."""


def check(taps: dict[str, Path], lives: Sequence[CheckedLife], first: int, end: int, next_ids: dict[str, int]) -> Verdict:
    """`taps`: by stream, the folder with its rows. `next_ids`: of the check before."""
    differences: list[str] = []
    tuples = results = 0
    after: dict[str, int] = {}
    with duckdb.connect(config={"threads": 1, "memory_limit": "400MB"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for stream, folder in taps.items():
            columns = ["id", *FORMULAS, "ts"]
            _load(connection, stream, folder, columns, "BIGINT", first - MARGIN, end)
            wrong = " OR ".join(f"{name} <> {formula}" for name, formula in FORMULAS.items())
            count, distinct, least, largest, changed = _row(
                connection,
                f"SELECT count(*), count(DISTINCT id), min(id), max(id), count(*) FILTER ({wrong}) FROM {stream} WHERE batch >= {first}",
            )
            expected = next_ids.get(stream, 0)
            after[stream] = expected if largest is None else largest + 1
            tuples += count
            if count and (changed or least != expected or not count == distinct == largest - least + 1):
                differences.append(f"{stream}: {count} rows, {distinct} ids from {least} (not {expected}) to {largest}, {changed} changed")
        for life in lives:
            results += _check_life(connection, life, first, end, differences)
    return Verdict(tuples, results, tuple(differences), after)


def _check_life(connection: Any, life: CheckedLife, first: int, end: int, differences: list[str]) -> int:
    since, until = max(first, life.added), end if life.removed is None else min(end, life.removed)
    if since >= until:
        return 0
    streams = life.query.streams
    ids = [f"id_{stream}" for stream in streams]
    _load(connection, "results", life.folder, ids, "BIGINT", since, until)
    last, oldest = (f"{which}({', '.join(f'{stream}.batch' for stream in streams)})" for which in ("greatest", "least"))
    near = [f"abs(epoch_us({a}.ts) - epoch_us({b}.ts)) <= {WINDOW * 1_000_000}" for i, a in enumerate(streams) for b in streams[:i]]
    fresh = [] if life.history else [f"{oldest} >= {life.added}"]
    conditions = [*life.query.conditions, *near, f"{last} >= {since}", f"{last} < {until}", *fresh]
    chosen = ", ".join(f"{stream}.id AS id_{stream}" for stream in streams)
    connection.execute(
        f"CREATE OR REPLACE TABLE expected AS SELECT {chosen}, {last} AS batch FROM {', '.join(streams)} WHERE {' AND '.join(conditions)}"
    )
    complete = until if life.complete is None else max(life.complete, since)
    rows = f"SELECT {', '.join(ids)}, batch FROM"
    (wrong,) = _row(connection, f"SELECT count(*) FROM (({rows} results) EXCEPT ALL ({rows} expected))")
    (lost,) = _row(
        connection,
        f"SELECT count(*) FROM (({rows} expected WHERE batch >= {complete}) EXCEPT ALL ({rows} results WHERE batch >= {complete}))",
    )
    if wrong or lost:
        differences.append(f"{life.name} ({life.query.text}), batches {since} to {until - 1}: {wrong} wrong, {lost} missing")
    return int(_row(connection, "SELECT count(*) FROM results")[0])


def _row(connection: Any, sql: str) -> Any:
    return connection.execute(sql).fetchone()


def _load(connection: Any, table: str, folder: Path, columns: Sequence[str], kind: str, first: int, end: int) -> None:
    """The rows of the result files of some batches, each with its batch."""
    paths = [path for path, batch in result_files(folder) if first <= batch < end]
    if paths:
        listed = ", ".join(f"'{path}'" for path in paths)
        batch = r"regexp_extract(filename, 'part-(\d+)-', 1)::BIGINT AS batch"
        source = f"SELECT {', '.join(columns)}, {batch} FROM read_parquet([{listed}], filename = true)"
    else:
        kinds = ["TIMESTAMPTZ" if column == "ts" else kind for column in columns]
        empty = ", ".join(f"NULL::{kind} AS {column}" for column, kind in zip(columns, kinds, strict=True))
        source = f"SELECT {empty}, NULL::BIGINT AS batch WHERE false"
    connection.execute(f"CREATE OR REPLACE TABLE {table} AS {source}")


def result_files(folder: Path) -> Iterable[tuple[Path, int]]:
    """The result files of a folder, each with its batch."""
    for path in sorted(folder.glob("part-*.parquet")):
        origin = origin_of(path.name)
        if origin is not None:
            yield path, origin.batch
