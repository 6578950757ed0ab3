"""Random queries on Spark, equal to Spark's batch over the same rows: common and derived tables, UNION ALL, functions of our evaluator and
of Spark's, aggregates, and a reference table among the streams. All queries of a seed run in one engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sql.nested_queries import COMPUTED, CONDITIONS, Generator, grouped_query

import clash

COLUMNS = {**dict.fromkeys("RS", "a bigint, b int, name string, ts timestamp"), "T": "b int, c string, ok boolean"}
KINDS = {"a": pa.int64(), "b": pa.int32(), "name": pa.string(), "c": pa.string(), "ts": pa.timestamp("us", "UTC"), "ok": pa.bool_()}
FILES, ROWS, QUERIES = 2, 8, 10
TABLE = "T"
FUNCTIONS = {
    "number": (
        *COMPUTED["number"], "abs({0})", "{0} % 3", "CASE WHEN {0} > 1 THEN {0} ELSE 0 END", "pmod({0}, 4)", "bit_count({0})",
        "hash({0}) % 7", "cast(ceil(sqrt(abs({0}))) AS int)", "width_bucket({0}, -3, 3, 4)",
    ),
    "text": (
        *COMPUTED["text"], "md5({0})", "concat({0}, '-', {0})", "lpad({0}, 3, 'xy')", "soundex({0})", "reverse({0})",
        "regexp_replace({0}, '[ab]', 'z')", "coalesce(substring({0}, 2), 'none')", "translate({0}, 'ab', 'ba')",
    ),
}  # fmt: skip
PREDICATES = {
    "number": (*CONDITIONS["number"], "factorial(abs({0}) % 4) < 6", "{0} BETWEEN -1 AND 2", "{0} % 2 = 0"),
    "text": (*CONDITIONS["text"], "{0} RLIKE '^[ab]'", "length({0}) < 2", "levenshtein({0}, 'ab') < 2"),
}
REFUSED = "UNION ALL makes more|the query reads no stream"


def rows(stream: str, random: Random) -> pa.Table:
    values = {
        "a": lambda: random.choice([None, -2, 0, 1, 2, 3]),
        "b": lambda: random.choice([None, -1, 1, 2, 3]),
        "name": lambda: random.choice([None, "", "a", "b", "ab", "B%"]),
        "c": lambda: random.choice([None, "a", "bb", "ä"]),
        "ts": lambda: random.randrange(10_000_000),
        "ok": lambda: random.choice([None, True, False]),
    }
    names = [column.split()[0] for column in COLUMNS[stream].split(", ")]
    return pa.table({name: pa.array([values[name]() for _ in range(ROWS)], KINDS[name]) for name in names})


def write(root: Path, random: Random) -> None:
    for stream in COLUMNS:
        for file in range(FILES):
            (root / stream).mkdir(parents=True, exist_ok=True)
            pq.write_table(rows(stream, random), root / stream / f"{file}.parquet")


def engine_of(session: Any, root: Path, checkpoint: str) -> clash.Engine:
    engine = clash.Engine(session, checkpoint, workers=2, adaptive=False)
    for stream, columns in COLUMNS.items():
        folder = str(root / stream)
        if stream == TABLE:
            engine.table(stream, session.read.schema(columns).parquet(folder))
        else:
            engine.stream(stream, session.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(folder))
    return engine


def texts(random: Random) -> Iterator[str]:
    while True:
        generator = Generator(random, FUNCTIONS, PREDICATES)
        yield grouped_query(generator) if random.random() < 0.4 else generator.query()


def accepted(engine: clash.Engine, random: Random) -> dict[str, str]:
    queries: dict[str, str] = {}
    for text in texts(random):
        name = f"q{len(queries)}"
        try:
            engine.query(name, text)
        except clash.QueryError as error:
            assert any(words in f"{error.what}: {error.detail}" for words in REFUSED.split("|")), f"{text}\n{error}"
            continue
        queries[name] = text
        if len(queries) == QUERIES:
            break
    return queries


def answer(frame: Any) -> Counter[str]:
    return Counter(str([f"{value:.9g}" if isinstance(value, float) else value for value in row]) for row in frame.collect())


def check(spark: Any, root: Path, seed: int) -> None:
    random = Random(seed)
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    write(root, random)
    for stream, columns in COLUMNS.items():
        session.read.schema(columns).parquet(str(root / stream)).createOrReplaceTempView(stream)
    engine = engine_of(session, root, str(root / "checkpoint"))
    queries = accepted(engine, random)
    run = engine.start(available_now=True)
    assert run.await_termination(600)
    found = {name: answer(run.results(name)) for name in queries}
    expected = {name: answer(session.sql(text)) for name, text in queries.items()}
    wrong = {name: queries[name] for name in queries if found[name] != expected[name]}
    answers = "\n".join(f"{text}\n{found[name]}\n{expected[name]}" for name, text in wrong.items())
    assert not wrong, f"{answers}\n{run.explain()}"
    assert sum(map(bool, expected.values())) > len(queries) / 2


@pytest.mark.parametrize("seed", [1, 2])
def test_results_are_those_of_sparks_batch(spark: Any, tmp_path: Path, seed: int) -> None:
    check(spark, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 15))
def test_more_results_are_those_of_sparks_batch(spark: Any, tmp_path: Path, seed: int) -> None:
    check(spark, tmp_path, seed)
