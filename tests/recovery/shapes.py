"""The streams and queries of the job that is killed: one query per shape, all in one plan.

Invariant: file b of each stream is batch b, so what a batch has seen follows from its number. Streams have no window of their own;
queries with windows name them. U has no event time, so it is only in queries without windows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 60  # per file
PACE = 1_000_000  # microseconds of event time per file
LATENESS = 300_000
COLUMNS = {
    "R": {"a": "bigint", "c": "int", "v": "int", "ts": "timestamp"},
    "S": {"a": "int", "b": "string", "d": "bigint", "v": "int", "ts": "timestamp"},
    "T": {"b": "string", "c": "bigint", "v": "int", "ts": "timestamp"},
    "U": {"d": "bigint", "p": "decimal(20,2)"},
}
TIMED = ("R", "S", "T")
KEYS = {"a": 25, "b": 25, "c": 25, "d": 25, "v": 100}
QUERIES = {
    "chain": "SELECT R.v AS r, S.v AS s, T.v AS t, T.ts FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b",
    "prefix": "SELECT R.v AS r, S.b, U.p FROM R JOIN S ON R.a = S.a JOIN U ON S.d = U.d",
    "star": "SELECT S.v AS s, R.v AS r, T.v AS t, U.p FROM S JOIN R ON S.a = R.a JOIN T ON S.b = T.b JOIN U ON S.d = U.d",
    "cycle": "SELECT R.a, S.b, T.c FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b AND T.c = R.c",
    "self": "SELECT x.v AS x, y.v AS y, x.a FROM R x JOIN R y ON x.a = y.a WHERE x.v <= y.v",
    "residual": "SELECT R.v + S.v AS total, R.ts FROM R JOIN S ON R.a = S.a AND R.v < S.v WHERE S.b <> 'b3' AND R.v % 2 = 1",
    "windows": "SELECT R.v AS r, S.v AS s, T.v AS t FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b",
    "alone": "SELECT T.b, T.c * 2 AS twice, T.ts FROM T WHERE T.v > 50",
    "handed": "SELECT R.v AS r, S.v AS s FROM R JOIN S ON R.a = S.a WHERE R.v > 80",
}
WINDOWS = {"windows": {"R": 700_000, "S": 1_500_000, "T": 200_000}}
ALIASES = {
    "chain": "RST", "prefix": "RSU", "star": "SRTU", "cycle": "RST", "self": "xy", "residual": "RS", "windows": "RST", "alone": "T",
    "handed": "RS",
}  # fmt: skip
STREAM_OF = {"x": "R", "y": "R"}
STATISTICS = {"rates": {"R": 1000.0, "S": 1000.0, "T": 1000.0, "U": 1000.0}, "selectivities": {"R.a = S.a": 1e-6}}


def spark_schema(stream: str) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in COLUMNS[stream].items())


def table(stream: str, batch: int, rows: int = ROWS) -> pa.Table:
    """Some rows have no key, no time, or come too late."""
    random = np.random.default_rng([ord(stream), batch])
    found: dict[str, pa.Array] = {}
    for name, kind in COLUMNS[stream].items():
        if kind == "timestamp":
            micros = random.integers(batch * PACE, (batch + 1) * PACE, rows) - random.choice([0, 0, 0, 2 * PACE], rows)
            found[name] = pa.array(micros, pa.timestamp("us", tz="UTC"), mask=random.random(rows) < 0.03)
        elif name == "p":
            found[name] = pa.array(random.integers(0, 1000, rows)).cast(pa.decimal128(20, 2))
        else:
            values = random.integers(0, KEYS[name], rows)
            missing = random.random(rows) < 0.05
            if kind == "string":
                found[name] = pa.array([f"b{value}" for value in values], pa.string(), mask=missing)
            else:
                found[name] = pa.array(values, pa.int32() if kind == "int" else pa.int64(), mask=missing if name != "v" else None)
    return pa.table(found)


def write(root: Path, batches: range) -> None:
    """Spark reads files in the order of their times."""
    for batch in batches:
        for stream in COLUMNS:
            (root / stream).mkdir(parents=True, exist_ok=True)
            file = root / stream / f"{batch:03d}.parquet"
            pq.write_table(table(stream, batch), file)
            touch(file, batch)


def touch(file: Path, batch: int) -> None:
    import os

    os.utime(file, (1_700_000_000 + 10 * batch,) * 2)
