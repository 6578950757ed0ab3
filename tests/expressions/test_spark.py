"""Every function against Spark itself, row by row: the same values, and an error in the same rows."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest

from .cases import ALL, CALENDAR_IN_ZONES, TIMES
from .clock_changes import CHANGES, CONVERSIONS, DIFFERENCES, SUMS, clock_table, literals
from .harness import STREAM, answers, expression, plain, raising, same, table, without

_ROWS = 110
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
            if not same(a, b) and not any(line.startswith(f"{text}: ") for line in wrong):
                wrong.append(f"{text}: {a!r}, Spark has {b!r} in {_values(expr, data, row)}")
        for row in rows[:_RAISING_ROWS]:
            try:
                got = spark.sql(f"SELECT {text} FROM E WHERE row = {row}").collect()[0][0]
            except Exception:
                continue
            wrong.append(f"{text}: raises, Spark has {got!r} in {_values(expr, data, row)}")
    return wrong


def _values(expr: Any, data: pa.Table, row: int) -> dict[str, Any]:
    from clash.model.expressions import columns

    return {col.column: plain(data.column(col.column).combine_chunks().slice(row, 1))[0] for col in columns(expr)}


@pytest.mark.parametrize("family", list(ALL))
def test_answers(spark: Any, family: str) -> None:
    data = table(_ROWS, seed=len(family))
    _view(spark, data)
    wrong = []
    for begin in range(0, len(ALL[family]), _AT_ONCE):
        wrong += _compare(spark, ALL[family][begin : begin + _AT_ONCE], data, "UTC")
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong[:40])


@pytest.mark.parametrize("timezone", ["Europe/Berlin", "America/Los_Angeles", "+05:30"])
def test_time_zones(spark: Any, timezone: str) -> None:
    data = table(_ROWS, seed=5)
    _view(spark, data)
    wrong = _compare(spark, TIMES, data, timezone)
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
