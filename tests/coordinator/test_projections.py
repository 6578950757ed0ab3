"""Expressions across streams and computed keys, in process: killed between any two changes on disk, changed, restarted, planned anew."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from clash.coordinator.control.job import SinkSpec
from clash.errors import QueryError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.sql import parse_with_spark

from .projecting import DuckTypes, ProjectingEngine
from .test_kills import Killed, killed_after

STREAMS = [Stream.of(name, {"k": "bigint", "x": "string", "n": "bigint"}) for name in "RST"]
QUERIES = {
    "distance": "SELECT R.k, levenshtein(R.x, S.x) AS d, R.n + S.n AS n FROM R JOIN S ON R.k = S.k",
    "near": "SELECT R.x, T.x AS t FROM R JOIN S ON R.k = S.k JOIN T ON T.k = S.k WHERE levenshtein(R.x, T.x) < 2 AND md5(S.x) > md5(T.x)",
    "computed": "SELECT R.n, S.n AS m, md5(R.x) AS h FROM R JOIN S ON R.n % 4 = S.n % 3",
    "lower": "SELECT md5(d.w) AS w FROM (SELECT R.x || S.x AS w, R.k FROM R JOIN S ON lower(R.x) = lower(S.x)) d JOIN T ON T.k + 1 = d.k",
    "union": """SELECT d.h, S.n, md5(S.x || d.k) AS s
        FROM (SELECT md5(x) AS h, k FROM R UNION ALL SELECT x, k FROM T WHERE n > 1) d JOIN S ON d.k = S.k""",
    "nulls": "SELECT R.n, S.k FROM R JOIN S ON R.x <=> S.x AND levenshtein(R.x || 'a', S.x || 'bb') <= 2",
}
COMPUTED_KEYS = ("computed", "lower", "nulls")
PLAIN = "SELECT R.k, S.n FROM R JOIN S ON R.k = S.k"


def tables(seed: int) -> dict[str, pa.Table]:
    random = Random(seed)
    texts = ["ab", "Ab", "abc", "xyz", "zz", None]
    kinds = pa.schema([("k", pa.int64()), ("x", pa.string()), ("n", pa.int64())])
    rows = {name: [{"k": random.randrange(5), "x": random.choice(texts), "n": random.randrange(9)} for _ in range(12)] for name in "RST"}
    return {name: pa.Table.from_pylist(of, kinds) for name, of in rows.items()}


def expected(text: str, seeds: range) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name in "RST":
            connection.register(name, pa.concat_tables([tables(seed)[name] for seed in seeds]))
        return Counter(connection.sql(sqlglot.transpile(text, read="spark", write="duckdb")[0]).fetchall())


def found(engine: ProjectingEngine, name: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in engine.results(name).to_pylist())


def check(engine: ProjectingEngine, queries: Mapping[str, str], seeds: range) -> None:
    for name, text in queries.items():
        results = found(engine, name)
        assert results == expected(text, seeds), name
        assert results, name


@pytest.mark.parametrize("seed", range(6))
def test_changes_restarts_and_plans(seed: int) -> None:
    """A history of queries that come and go, workers that are more or fewer, and starts; the streams retain everything."""
    random = Random(seed)
    streams = [replace(stream, keep="all") for stream in STREAMS]
    engine = ProjectingEngine(streams, {"distance": QUERIES["distance"], "plain": PLAIN}, seed=seed, adaptive=True)
    live = {"distance": (QUERIES["distance"], 0), "plain": (PLAIN, 0)}
    for batch in range(8):
        if batch % 2:
            name = random.choice([*QUERIES])
            if name in live:
                engine.remove_query(name)
                del live[name]
            elif random.random() < 0.5:
                engine.add_query(name, QUERIES[name])
                live[name] = QUERIES[name], batch
            else:
                engine.rescale(random.randrange(1, 4))
        if random.random() < 0.3:
            engine.batch({})
            engine.restart()
        engine.batch(tables(batch))
    for name, (text, first) in live.items():
        if first and name in COMPUTED_KEYS:  # rows that came before it have no such columns, unless an earlier query had them computed
            results = found(engine, name)
            assert expected(text, range(first, 8)) <= results <= expected(text, range(8)) - expected(text, range(first)), name
        else:  # what is complete in its first batch, or later
            before = expected(text, range(first)) if first else Counter()
            assert found(engine, name) == expected(text, range(8)) - before, name
    check(engine, {"plain": PLAIN}, range(8))


def test_results_are_those_of_the_batch_join() -> None:
    engine = ProjectingEngine(STREAMS, QUERIES)
    for batch in range(4):
        engine.batch(tables(batch))
        if batch == 1:
            engine.restart()
    check(engine, QUERIES, range(4))
    assert engine.results("distance").schema.names == ["k", "d", "n"]


def test_a_batch_that_is_killed(tmp_path: Path) -> None:
    """Files of joined rows are never results, and none is left."""

    def start(folder: Path) -> ProjectingEngine:
        engine = ProjectingEngine(STREAMS, {name: QUERIES[name] for name in ("near", "computed", "distance")}, uri=str(folder / "c"))
        queries = tuple(
            replace(request, sink=SinkSpec("parquet", str(folder / "out"))) if request.name == "distance" else request
            for request in engine.job.queries
        )
        engine.restart(replace(engine.job, queries=queries))
        return engine

    changes, is_complete = 0, False
    while not is_complete:
        folder = tmp_path / str(changes)
        engine = start(folder)
        engine.batch(tables(0))
        try:
            with killed_after(changes):
                engine.batch(tables(1))
                is_complete = True
        except Killed:
            changes += 1
        engine = start(folder)
        if engine.coordinator.last < 1:
            engine.batch(tables(1))
        else:
            engine.coordinator.publish(1)
        engine.batch(tables(2))
        check(engine, {name: QUERIES[name] for name in ("near", "computed", "distance")}, range(3))
        assert not [*folder.rglob("_staging/*.parquet")]
        shutil.rmtree(folder)
    assert changes > 15


def test_a_key_that_no_task_can_compute() -> None:
    text, streams = "SELECT R.k FROM R JOIN S ON md5(R.x) = md5(S.x)", {stream.name: stream for stream in STREAMS}
    with pytest.raises(QueryError, match="a key of a stream that only tasks read cannot be computed by Spark"):
        parse_with_spark("q", text, streams, None, DuckTypes())
    with pytest.raises(QueryError, match="the function MD5 is not supported"):
        InProcessEngine(STREAMS, {"q": text})
