"""DuckDB over the same files: the batch join of every query, as a yardstick and as the truth."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from clash.bench.content import THREADS, Content, file_content
from clash.bench.monitor import Monitor
from clash.bench.tpch_data import Data
from clash.bench.tpch_queries import TABLES


@dataclass(frozen=True)
class Yardstick:
    """Seconds and CPU seconds for all queries: written to Parquet files, and counted only."""

    seconds: float
    cpu_seconds: float
    count_seconds: float
    contents: dict[str, Content]


def connect(data: Data) -> Any:
    """A connection with one view per table."""
    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("SET preserve_insertion_order = false")  # both threads may write
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS FROM read_parquet('{data.folder}/{table}/*.parquet')")
    return connection


def measure_duckdb(data: Data, queries: Mapping[str, str], out: Path) -> Yardstick:
    out.mkdir(parents=True, exist_ok=True)
    with connect(data) as connection:
        connection.execute(f"CREATE TABLE warm AS {next(iter(queries.values()))} LIMIT 1")  # code and files are read once before it counts
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
        raise AssertionError(f"DuckDB counts {counts}, and writes {contents}")
    return Yardstick(seconds, monitor.cpu["driver"], count_seconds, contents)
