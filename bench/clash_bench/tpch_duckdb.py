"""DuckDB over the same files: the batch join of every query, to compare the time with and to check the results against."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from clash.cli.row_content import THREADS, Content, file_content
from clash_bench.monitor import Monitor
from clash_bench.tpch_data import Data
from clash_bench.tpch_queries import TABLES


@dataclass(frozen=True)
class DuckDBResult:
    """What was measured of DuckDB, for all queries together."""

    seconds: float
    """With results written to Parquet files; likewise `cpu_seconds`."""
    cpu_seconds: float
    count_seconds: float
    """With results only counted."""
    contents: dict[str, Content]
    """The results by query."""


def connect(data: Data) -> Any:
    """A connection with one view per table."""
    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("SET preserve_insertion_order = false")  # both threads may write
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS FROM read_parquet('{data.folder}/{table}/*.parquet')")
    return connection


def measure_duckdb(data: Data, queries: Mapping[str, str], out: Path) -> DuckDBResult:
    """Writes the results of all queries into the folder `out`, and then counts them again without writing."""
    out.mkdir(parents=True, exist_ok=True)
    with connect(data) as connection:
        connection.execute(f"CREATE TABLE warm AS {next(iter(queries.values()))} LIMIT 1")  # loads code and files before the measurement
        with Monitor() as monitor:
            started = time.perf_counter()
            for name, text in queries.items():
                connection.execute(f"COPY ({text}) TO '{out}/{name}.parquet' (FORMAT parquet)")
            seconds = time.perf_counter() - started
        started = time.perf_counter()
        counts = {name: connection.execute(f"SELECT count(*) FROM ({text})").fetchone()[0] for name, text in queries.items()}
        count_seconds = time.perf_counter() - started
    contents = {name: file_content(f"{out}/{name}.parquet") for name in queries}
    if counts != {name: content.rows for name, content in contents.items()}:
        raise AssertionError(f"DuckDB counts {counts}, but writes {contents}")
    return DuckDBResult(seconds, monitor.cpu["driver"], count_seconds, contents)
