"""Jobs whose results Spark computes of joined rows, with computed columns, computed keys and aggregates, killed: they go on exactly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.state.failpoints import NAMES

from .process import running
from .projection_queries import ADDED, QUERIES

JOB = Path(__file__).with_name("projection_job.py")
FILES, ROWS, KEYS = 3, 60, 12
TEXTS = ["ab", "Ab", "abc", "xyz", "zz", "", None]


def write(root: Path, seed: int) -> dict[str, pa.Table]:
    random = Random(seed)
    whole: dict[str, pa.Table] = {}
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("x", pa.string())])
    for stream in "RS":
        (root / stream).mkdir(parents=True)
        tables = []
        for number in range(FILES):
            rows = [{"a": random.randrange(KEYS), "b": random.randrange(9), "x": random.choice(TEXTS)} for _ in range(ROWS)]
            tables.append(pa.Table.from_pylist(rows, schema))
            pq.write_table(tables[-1], root / stream / f"{number}.parquet")
        whole[stream] = pa.concat_tables(tables)
    return whole


def expected(data: dict[str, pa.Table], text: str) -> list[str]:
    with duckdb.connect() as connection:
        for name, table in data.items():
            connection.register(name, table)
        return sorted(str([*row]) for row in connection.sql(text).fetchall())


def check(data: dict[str, pa.Table], found: dict[str, Any], queries: dict[str, str]) -> None:
    for name, text in queries.items():
        wanted = expected(data, text)
        assert wanted
        assert found[name] == wanted, name


def killed(tmp_path: Path, points: Sequence[str]) -> None:
    """A start for each point at which it is killed, and one that ends."""
    data = write(tmp_path / "in", 3)
    for point in points:
        with running(tmp_path, job=JOB) as process:
            process.play(fail=point)  # a task that is killed is run again
    with running(tmp_path, job=JOB) as process:
        found = process.play()
        assert found is not None, process.log()
        check(data, found, QUERIES)
    assert not [*tmp_path.rglob("_staging/*.parquet")]


def test_killed_around_the_projection(tmp_path: Path) -> None:
    killed(tmp_path, ["before-projection@1", "after-projection@2"])


@pytest.mark.slow
def test_a_task_of_the_projection_is_killed(tmp_path: Path) -> None:
    killed(tmp_path, ["projection-results@1", "after-manifest@2"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_anywhere_with_changes(tmp_path: Path, seed: int) -> None:
    """Queries come and go over starts that are killed at random points."""
    random = Random(seed)
    data = write(tmp_path / "in", seed)
    points = sorted(NAMES - {"before-handover", "after-handover", "before-transaction", "in-transaction", "after-transaction"})
    for _ in range(4):
        with running(tmp_path, job=JOB) as process:
            added = {"added": "added"} if random.random() < 0.4 else {}
            process.play(fail=f"{random.choice(points)}@{random.randrange(1, 3)}", **added)
    with running(tmp_path, job=JOB) as process:
        found = process.play()
        assert found is not None, process.log()
    check(data, found, QUERIES)
    if "added" in found:  # from some batch on
        assert set(found["added"]) <= set(expected(data, ADDED))
