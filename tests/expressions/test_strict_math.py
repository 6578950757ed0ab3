"""EXP, LN, LOG10 and POWER have exactly the digits of Java's StrictMath, over all magnitudes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from clash.expressions import strict_math

_EDGES = [
    0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e300, -1e300, 1e-310, -1e-310, 5e-324,
    1.7976931348623157e308, 709.78, 709.782712893384, -745.13, -745.2, -708.5, -740.0, 1e9 + 0.5, 2.0**31, 2.0**31 + 1, 2.0**53,
    2.0**53 + 2, 2.0**64, -(2.0**64), 1 + 2.0**-30, 1 - 2.0**-30, 1 - 2.0**-21, 1e-9, 0.34, 0.35, 1.03, 1.04, 10.0, 100.0, 1 / 3,
]  # fmt: skip


@pytest.fixture(scope="module")
def numbers() -> tuple[Any, Any]:
    random = np.random.default_rng(1)
    bits = random.integers(-(2**63), 2**63 - 1, 5000).view(np.float64)
    bases = [bits, random.uniform(-750, 750, 5000), random.normal(0, 1, 5000), random.uniform(0.99, 1.01, 2500)]
    exponents = [random.permutation(bits), random.normal(0, 100, 5000), random.normal(0, 3, 5000), random.normal(0, 1e6, 2500)]
    x, y = np.meshgrid(_EDGES, _EDGES)
    return np.concatenate([*bases, x.ravel()]), np.concatenate([*exponents, y.ravel()])


def test_as_in_java(spark: Any, numbers: tuple[Any, Any]) -> None:
    x, y = numbers
    rows = pa.table({"row": np.arange(len(x)), "x": x, "y": y})
    spark.createDataFrame(rows, "row bigint, x double, y double").createOrReplaceTempView("doubles")
    found = spark.sql("SELECT exp(x) AS e, ln(x) AS l, log10(x) AS t, power(x, y) AS p FROM doubles ORDER BY row").toArrow()
    positive = x > 0
    ours = {
        "e": strict_math.exp(x),
        "l": np.where(positive | np.isnan(x), strict_math.log(x), np.nan),
        "t": np.where(positive | np.isnan(x), strict_math.log10(x), np.nan),
        "p": strict_math.power(x, y),
    }
    for name, values in ours.items():
        theirs = found.column(name).combine_chunks().fill_null(np.nan).to_numpy(zero_copy_only=False)
        same = (theirs.view(np.int64) == values.view(np.int64)) | (np.isnan(theirs) & np.isnan(values))
        wrong = np.flatnonzero(~same)
        assert not len(wrong), [(name, x[at], y[at], values[at], theirs[at]) for at in wrong[:5]]
