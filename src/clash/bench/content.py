"""What a set of rows holds, whatever their order and their files: how many there are, and the sum of their hashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

THREADS = 2


@dataclass(frozen=True)
class Content:
    """Equal for two sets that hold the same rows equally often; unequal for others but for a chance of 1 in 2^64."""

    rows: int
    hashes: int


def file_content(pattern: str) -> Content:
    """Of Parquet files; what is not there has no rows."""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        if not connection.execute("FROM glob(?)", [pattern]).fetchall():
            return Content(0, 0)
        return source_content(connection, f"read_parquet('{pattern}')")


def table_content(table: Any) -> Content:
    """Of an Arrow table."""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        connection.register("results", table)
        return source_content(connection, "results")


def source_content(connection: Any, source: str) -> Content:
    """Of anything that DuckDB reads: a table, a function, a query in brackets."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    # a number's hash depends on its width: hashed as text it is the value alone that counts
    columns = ", ".join(f'"{name}"' if kind in ("BIGINT", "VARCHAR") else f'"{name}"::VARCHAR' for name, kind, *_ in described)
    rows, hashes = connection.execute(f"SELECT count(*), coalesce(sum(hash({columns})), 0) FROM {source}").fetchone()
    return Content(int(rows), int(hashes))
