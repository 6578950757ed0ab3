"""Conditions of Spark's plans, as tasks evaluate them: the same rows as Spark's, or left to Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clash.expressions import holds
from clash.expressions.arrow_types import arrow_type
from clash.model.relation import Relation
from clash.spark.stream_filters import UnconvertedError, to_expression, to_spark_column

SCHEMA = "id bigint, kind string, n int, small tinyint, d double, f float, flag boolean"
ROWS = [
    (0, "a", 1, 1, 0.0, 0.5, True),
    (1, "b", 2, None, -0.0, None, False),
    (2, None, None, 3, float("nan"), float("nan"), None),
    (3, "A ", -5, 7, 2.5, float("-inf"), True),
    (4, "", 2**31 - 1, -128, None, 1.0, False),
    (5, "it's", 0, 0, float("inf"), 0.0, None),
]


def converted(df: Any, condition: str) -> Any:
    node = df.where(condition)._jdf.queryExecution().analyzed()
    fields = node.child().output()
    names = {fields.apply(at).exprId().id(): str(fields.apply(at).name()) for at in range(fields.size())}
    return to_expression(node.condition(), names, Relation("files"))


@pytest.mark.parametrize(
    "condition",
    [
        "kind = 'a'", "kind = 'it\\'s'", "kind <> 'a'", "kind <=> NULL", "kind IS NULL", "n IS NOT NULL", "n = 2", "n > 1L", "small <= n",
        "n IN (1, 2, NULL)", "kind IN ('a', 'A ')", "NOT kind IN ('a', 'b')", "flag", "NOT flag", "flag = false",
        "kind = 'a' OR n < 0 AND NOT flag", "d = 0", "d < 3.5D", "d > 1e308", "f >= 0.5F", "d <=> d", "n = 1 + 1", "kind < 'b'",
        "kind = concat('i', 't''s')", "CAST(NULL AS boolean)", "true", "kind = NULL",
    ],
)  # fmt: skip
def test_same_rows_as_spark(spark: Any, condition: str) -> None:
    df = spark.createDataFrame(ROWS, SCHEMA)
    expression = converted(df, condition)
    rows = df.toArrow()

    def column(col: Any) -> Any:
        return rows.column(col.column).combine_chunks().cast(arrow_type(col.type))

    satisfied = holds([expression], column, len(ROWS), "UTC")
    expected = [row.id for row in df.where(condition).collect()]
    assert np.flatnonzero(satisfied).tolist() == expected
    assert [row.id for row in df.where(to_spark_column(expression)).collect()] == expected


@pytest.mark.parametrize(
    "condition",
    [
        "n + 1 > 2",
        "lower(kind) = 'a'",
        "CAST(kind AS int) = 1",
        "d = double('NaN')",
        "id > rand()",
        "kind LIKE 'a%'",
        "n BETWEEN 0 AND 3",
        "id > unix_seconds(current_timestamp()) - 3600",
        "id > unix_timestamp()",
        "kind = current_user()",
        "hour(current_timestamp()) < 12 OR n = 1",
    ],
)
def test_what_may_mean_something_else_or_raise_is_left_to_spark(spark: Any, condition: str) -> None:
    with pytest.raises(UnconvertedError):
        converted(spark.createDataFrame(ROWS, SCHEMA), condition)
