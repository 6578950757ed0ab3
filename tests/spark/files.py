"""Three small streams as Parquet files, and DuckDB's answer over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {"R": ("a", "x"), "S": ("a", "b"), "T": ("b", "y")}
JOIN = "SELECT R.a, R.x, S.b, T.y, R.ts AS at FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"
WINDOW = 500_000  # microseconds
WITHIN = f"""greatest(epoch_us(R.ts), epoch_us(S.ts), epoch_us(T.ts))
             - least(epoch_us(R.ts), epoch_us(S.ts), epoch_us(T.ts)) <= {WINDOW}"""


def table(stream: str, second: int, rows: int = 120, keys: int = 40) -> pa.Table:
    """What comes in one second of event time."""
    random = np.random.default_rng([ord(stream), second])
    columns = {name: random.integers(0, keys, rows) for name in COLUMNS[stream]}
    micros = np.sort(random.integers(second * 1_000_000, (second + 1) * 1_000_000, rows))
    return pa.table(columns).append_column("ts", pa.array(micros, pa.timestamp("us", tz="UTC")))


def write(root: Path, seconds: Iterable[int]) -> None:
    for second in seconds:
        for stream in COLUMNS:
            (root / stream).mkdir(parents=True, exist_ok=True)
            pq.write_table(table(stream, second), root / stream / f"{second:03d}.parquet")


def declare(engine: Any, spark: Any, root: Path, change: Callable[[Any], Any] = lambda df: df) -> None:
    """Two files of each stream per batch."""
    for stream, columns in COLUMNS.items():
        schema = f"{', '.join(f'{name} bigint' for name in columns)}, ts timestamp"
        df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(root / stream))
        engine.stream(stream, change(df), time="ts", window="500 milliseconds", lateness="1 second")


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(map(str, rows.to_pylist()))


def expected(root: Path, schema: pa.Schema) -> Counter[str]:
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        for stream in COLUMNS:
            connection.register(stream, pq.read_table(root / stream))
        return counted(connection.sql(f"{JOIN} WHERE {WITHIN}").to_arrow_table().cast(schema))
