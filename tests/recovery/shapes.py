"""The streams and queries of the job that is killed: one query per shape, all in one plan.

Invariant: a batch reads one file of each stream, but see oracle.read_by. Streams have no window of their own;
queries with windows name them. U has no event time, so it is only in queries without windows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 40  # per file
PACE = 1_000_000  # microseconds of event time per file
LATENESS = 300_000
COLUMNS = {
    "R": {"a": "bigint", "c": "int", "v": "int", "ts": "timestamp"},
    "S": {"a": "int", "b": "string", "d": "bigint", "v": "int", "ts": "timestamp"},
    "T": {"b": "string", "c": "bigint", "v": "int", "ts": "timestamp"},
    "U": {"d": "bigint", "p": "decimal(20,2)"},
}
TIMED = ("R", "S", "T")
KEYS = {"a": 50, "b": 100, "c": 10, "d": 200, "v": 100}
QUERIES = {
    "chain": "SELECT R.v AS r, S.v AS s, T.v AS t, T.ts FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b",
    "prefix": "SELECT R.v AS r, S.b, U.p FROM R JOIN S ON R.a = S.a JOIN U ON S.d = U.d",
    "star": "SELECT S.v AS s, R.v AS r, T.v AS t, U.p FROM S JOIN R ON S.a = R.a JOIN T ON S.b = T.b JOIN U ON S.d = U.d",
    "cycle": "SELECT R.a, S.b, T.c FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b AND T.c = R.c",
    "self": "SELECT x.v AS x, y.v AS y, x.a FROM R x JOIN R y ON x.a = y.a WHERE x.v <= y.v",
    "residual": "SELECT R.v + S.v AS total, R.ts FROM R JOIN S ON R.a = S.a AND R.v < S.v WHERE S.b <> 'b3' AND R.v % 2 = 1",
    "windows": "SELECT R.v AS r, S.v AS s, T.v AS t FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b",
    "alone": "SELECT T.b, T.c * 2 AS twice, T.ts FROM T WHERE T.v > 50",
    "handed": "SELECT R.v AS r, S.v AS s FROM R JOIN S ON R.a = S.a WHERE R.v > 50",
}
ALIASES = {
    "chain": "RST", "prefix": "RSU", "star": "RSTU", "cycle": "RST", "self": "xy", "residual": "RS", "windows": "RST", "alone": "T",
    "handed": "RS",
}  # fmt: skip
STREAM_OF = {"x": "R", "y": "R"}  # other aliases are streams
WINDOWS = {"windows": {"R": 700_000, "S": 1_500_000, "T": 400_000}}
KEPT = "residual"  # has no sink: under the checkpoint
HANDED = "handed"  # goes to a function
OPTIONS = {"workers": 2, "cost": "probe"}  # under this cost model intermediate results are stored, and there are three rounds


def windows(query: str) -> dict[str, str] | None:
    return {stream: f"{micros // 1000} milliseconds" for stream, micros in WINDOWS.get(query, {}).items()} or None


def spark_schema(stream: str) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in COLUMNS[stream].items())


def table(stream: str, batch: int) -> pa.Table:
    """Some rows have no key, no time, or come too late."""
    random = np.random.default_rng([ord(stream), batch])
    return pa.table({name: _column(random, name, kind, batch) for name, kind in COLUMNS[stream].items()})


def _column(random: np.random.Generator, name: str, kind: str, batch: int) -> pa.Array:
    if kind == "timestamp":
        micros = random.integers(batch * PACE, (batch + 1) * PACE, ROWS) - 2 * PACE * (random.random(ROWS) < 0.1)
        return pa.array(micros, pa.timestamp("us", tz="UTC"), mask=random.random(ROWS) < 0.03)
    if name == "p":
        return pa.array(random.integers(0, 1000, ROWS)).cast(pa.decimal128(38, 2)).cast(pa.decimal128(20, 2))
    values, missing = random.integers(0, KEYS[name], ROWS), random.random(ROWS) < (0 if name == "v" else 0.05)
    if kind == "string":
        return pa.array([f"b{value}" for value in values], pa.string(), mask=missing)
    return pa.array(values, pa.int32() if kind == "int" else pa.int64(), mask=missing)


def write(root: Path, batches: Iterable[int]) -> None:
    for batch in batches:
        for stream in COLUMNS:
            (root / stream).mkdir(parents=True, exist_ok=True)
            file = root / stream / f"{batch:03d}.parquet"
            pq.write_table(table(stream, batch), file)
            set_age(file, batch)


def set_age(file: Path, batch: int) -> None:
    """Spark reads files in the order of their times."""
    os.utime(file, (1_700_000_000 + 10 * batch,) * 2)
