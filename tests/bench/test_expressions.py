"""The benchmark of expressions: each variant computes them where it says, and all give the same rows. No time is asserted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clash.model.computed import REFUSED
from clash.model.stream import Stream
from clash.spark.computed_columns import ExpressionTypes
from clash.sql import parse_with_spark
from clash_bench.expressions import VARIANTS, _measure, _write

ROWS, BATCHES = 40, 3
SPARKS = {"evaluator": (False, False), "joined rows": (True, False), "scan": (False, True), "both": (True, True)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_expressions_are_computed_where_a_variant_says(spark: Any, tmp_path: Path, variant: str) -> None:
    frames = {stream: spark.readStream.schema("k bigint, v bigint, x string").parquet(str(tmp_path)) for stream in "RS"}
    streams = {stream: Stream.of(stream, {"k": "bigint", "v": "bigint", "x": "string"}) for stream in "RS"}
    query, computed = parse_with_spark("q", VARIANTS[variant], streams, None, ExpressionTypes(spark, frames, {}))
    of_streams = [column for column in computed if column.stream in streams and column.evaluated is None and column.type != REFUSED]
    assert (query.projection is not None, bool(of_streams)) == SPARKS[variant]


def test_all_variants_give_the_same_rows(spark: Any, tmp_path: Path) -> None:
    _write(tmp_path / "in", ROWS, BATCHES)
    measured = [_measure(spark, tmp_path / variant, tmp_path / "in", variant, 2 * ROWS, BATCHES) for variant in VARIANTS]
    assert len({contents for _, contents in measured}) == 1
    assert {each.variant: each.rows for each, _ in measured} == dict.fromkeys(VARIANTS, 2 * ROWS)
    assert all(each.results > 0 for each, _ in measured)
