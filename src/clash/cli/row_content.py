"""A fingerprint of a multiset of rows, independent of their order and of the files that hold them; computed by DuckDB.

The demo and the benchmarks compare results with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

THREADS = 2


@dataclass(frozen=True)
class Content:
    """Equal for two multisets of the same rows; unequal for others, except with a probability of 1 in 2^64."""

    rows: int
    hashes: int
    """The sum of the rows' hashes."""


def file_content(pattern: str) -> Content:
    """The rows of all Parquet files that match a glob pattern; none if no file does."""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        if not connection.execute("FROM glob(?)", [pattern]).fetchall():
            return Content(0, 0)
        return source_content(connection, f"read_parquet('{pattern}')")


def table_content(table: Any) -> Content:
    """The rows of an Arrow table."""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        connection.register("results", table)
        return source_content(connection, "results")


def source_content(connection: Any, source: str) -> Content:
    """The rows of anything that DuckDB can read: a table, a table function, a query in brackets."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    # the hash of a number depends on its width; as text, only the value counts
    columns = ", ".join(f'"{name}"' if kind in ("BIGINT", "VARCHAR") else f'"{name}"::VARCHAR' for name, kind, *_ in described)
    rows, hashes = connection.execute(f"SELECT count(*), coalesce(sum(hash({columns})), 0) FROM {source}").fetchone()
    return Content(int(rows), int(hashes))
