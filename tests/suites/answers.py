"""Accepted queries of a suite, run as streams: at the end of the streams, the results are what Spark's batch gives for the same text."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.suites.texts import Schema

import clash

_FILES = 2  # of each stream, in as many batches


def write_files(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        size = -(-table.num_rows // _FILES)
        for number in range(_FILES):
            pq.write_table(table.slice(number * size, size), folder / name / f"{number}.parquet")


def differing(
    spark: Any, folder: Path, schema: Schema, queries: Mapping[str, str], as_tables: Collection[str] = ()
) -> tuple[dict[str, str], dict[str, int]]:
    """By query how its results differ from Spark's batch answer, and the number of rows of all; the one row of an aggregate over nothing
    counts as none. `as_tables`: what is a reference table, and no stream."""
    engine = clash.Engine(spark, folder / "checkpoint", workers=2, adaptive=False)
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    for name, columns in schema.items():
        kinds = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        if name in as_tables:
            engine.table(name, spark.read.schema(kinds).parquet(str(folder / name)))
        else:
            engine.stream(name, spark.readStream.schema(kinds).option("maxFilesPerTrigger", 1).parquet(str(folder / name)))
        session.read.schema(kinds).parquet(str(folder / name)).createOrReplaceTempView(name)
    for name, text in queries.items():
        engine.query(name, text)
    run = engine.start(available_now=True)
    run.await_termination()
    if run.exception is not None:
        raise run.exception
    wrong, counts = {}, {}
    for name, text in queries.items():
        ours, theirs = _rows(run.results(name).collect()), _rows(session.sql(text).collect())
        is_of_nothing = _is_of_nothing(theirs)
        counts[name] = 0 if is_of_nothing else theirs.total()
        if ours != theirs and not (is_of_nothing and not ours):
            wrong[name] = f"{(ours - theirs).most_common(2)} instead of {(theirs - ours).most_common(2)}"
    return wrong, counts


def _is_of_nothing(answer: Counter[str]) -> bool:
    """An aggregate without groups has one row of zeros and NULLs over no rows; of a stream, there is nothing until its first row."""
    return answer.total() == 1 and set(ast.literal_eval(next(iter(answer)))) <= {"0", "None"}


def _rows(rows: Iterable[Any]) -> Counter[str]:
    return Counter(str([f"{value:.9g}" if isinstance(value, float) else str(value) for value in row]) for row in rows)
