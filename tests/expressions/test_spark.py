"""Every function against Spark itself, row by row: the same values, and an error in the same rows.

The rows have edge values and random ones; CLASH_RANDOM_ROWS is the seed of the latter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from clash.model.expressions import Call, Expr, columns
from clash.sql.functions import FUNCTIONS
from clash.sql.named_functions import NAMED

from .cases import ALL, CALENDAR_IN_ZONES, TIMES
from .clock_changes import CHANGES, CONVERSIONS, DIFFERENCES, SUMS, clock_table, literals
from .harness import STREAM, answers, expression, plain, raising, same, table, without
from .random_rows import random_table

_ROWS = 110
_RANDOM_ROWS = 120
_OF_DIGITS = re.compile(r"CAST\((f|x) AS (string|decimal)")
_SEED = int(os.environ.get("CLASH_RANDOM_ROWS", "0"))
_AT_ONCE = 40
_RAISING_ROWS = int(os.environ.get("CLASH_RAISING_ROWS", "1"))  # each one is a job: look at more of them when something changes


@pytest.fixture(scope="module")
def spark(spark: Any) -> Any:
    """A session of its own in the Spark of all tests: so few rows are not worth a compilation, nor many partitions."""
    session = spark.newSession()
    for name, value in {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }.items():
        session.conf.set(name, value)
    return session


def _rows(seed: int) -> pa.Table:
    return pa.concat_tables([table(_ROWS, seed), random_table(_RANDOM_ROWS, 1000 * _SEED + seed)]).combine_chunks()


def _view(spark: Any, data: pa.Table) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    numbered = data.append_column("row", pa.array(range(data.num_rows), pa.int64()))
    schema = ", ".join(f"{name} {kind}" for name, kind in (*STREAM.columns, ("row", "bigint")))
    spark.createDataFrame(numbered, schema).createOrReplaceTempView("E")


def _compare(spark: Any, texts: list[str], data: pa.Table, timezone: str) -> list[str]:
    """What differs, one line each."""
    spark.conf.set("spark.sql.session.timeZone", timezone)
    wrong: list[str] = []
    exprs = [expression(text) for text in texts]
    raised = [raising(expr, data, timezone) for expr in exprs]
    shown = []
    for text, rows in zip(texts, raised, strict=True):
        guard = f"CASE WHEN row NOT IN ({', '.join(map(str, rows))}) THEN {text} END" if rows else text
        shown.append(guard)
    try:
        found = spark.sql(f"SELECT {', '.join(f'{text} AS c{at}' for at, text in enumerate(shown))} FROM E ORDER BY row").toArrow()
    except Exception as error:
        if len(texts) == 1:
            return [f"{texts[0]}: only Spark raises: {str(error)[:300]}"]
        return [line for text in texts for line in _compare(spark, [text], data, timezone)]
    for at, (text, expr, rows) in enumerate(zip(texts, exprs, raised, strict=True)):
        left = [row for row in range(data.num_rows) if row not in set(rows)]
        theirs = found.column(at).combine_chunks().take(pa.array(left, pa.int64()))
        ours = answers(expr, without(data, rows), timezone)
        if theirs.type != ours.type and not pa.types.is_timestamp(ours.type):  # whose label of the zone is only that
            wrong.append(f"{text}: type {ours.type}, Spark has {theirs.type}")
            continue
        for row, a, b in zip(left, plain(ours), plain(theirs), strict=True):
            if not same(a, b) and not _is_of_longer_digits(text, a, b) and not any(line.startswith(f"{text}: ") for line in wrong):
                wrong.append(f"{text}: {a!r}, Spark has {b!r} in {_values(expr, data, row)}")
        for row in rows[:_RAISING_ROWS]:
            try:
                got = spark.sql(f"SELECT {text} FROM E WHERE row = {row}").collect()[0][0]
            except Exception:
                continue
            wrong.append(f"{text}: raises, Spark has {got!r} in {_values(expr, data, row)}")
    return wrong


def _is_of_longer_digits(text: str, ours: Any, sparks: Any) -> bool:
    """Java before 19 writes some floating-point numbers with more digits than needed, and makes decimals of these digits."""
    match = _OF_DIGITS.match(text)
    if match is None or ours is None or sparks is None or len(str(sparks)) < len(str(ours)):
        return False
    number = np.float32 if match[1] == "f" else float
    return bool(number(ours) == number(sparks) != 0)


def _values(expr: Any, data: pa.Table, row: int) -> dict[str, Any]:
    return {col.column: plain(data.column(col.column).combine_chunks().slice(row, 1))[0] for col in columns(expr)}


def test_every_function_has_a_case() -> None:
    texts = [text for family in ALL.values() for text in family]
    called = {name.upper() for text in texts for name in re.findall(r"(\w+)\(", text)}
    assert set(NAMED) <= called
    swapped = {">", ">="}  # in normal form
    assert set(FUNCTIONS) - swapped <= {op for text in texts for op in _operators(expression(text))}


def _operators(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Call):
        yield expr.op
        for arg in expr.args:
            yield from _operators(arg)


@pytest.mark.parametrize("family", list(ALL))
def test_answers(spark: Any, family: str) -> None:
    data = _rows(len(family))
    _view(spark, data)
    wrong = []
    for begin in range(0, len(ALL[family]), _AT_ONCE):
        wrong += _compare(spark, ALL[family][begin : begin + _AT_ONCE], data, "UTC")
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong[:40])


@pytest.mark.parametrize("timezone", ["Europe/Berlin", "America/Los_Angeles", "+05:30"])
def test_time_zones(spark: Any, timezone: str) -> None:
    data = _rows(5)
    _view(spark, data)
    wrong = _compare(spark, TIMES, data, timezone) + _compare(spark, CALENDAR_IN_ZONES, data, timezone)
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong[:40])


@pytest.mark.parametrize("timezone", [*CHANGES, "UTC"])
def test_changes_of_the_clock(spark: Any, timezone: str) -> None:
    """Around the gaps and overlaps of zones that change their clocks; UTC reads the same rows."""
    zone = timezone if timezone in CHANGES else "Europe/Berlin"
    data = clock_table(zone, 300)
    _view(spark, data)
    wrong = _compare(spark, [*DIFFERENCES, *SUMS, *CONVERSIONS, *literals(zone)], data, timezone)
    if timezone != "UTC":
        wrong += _compare(spark, CALENDAR_IN_ZONES, data, timezone)
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong[:40])
