"""Random queries with aggregates, DISTINCT, window functions and SELECTs around them, over random joins and UNION ALL.

The join core is computed by brute force, what is over it by DuckDB: together they are what DuckDB gives for the whole text. So the split of
a query is right, whatever the names and levels in it; on Spark, `tests/spark/test_outer_queries.py` runs both parts.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clash.errors import QueryError
from clash.model.query import Query
from clash.sql import parse_query

from .evaluate import run
from .nested_queries import Generator, grouped_query
from .test_semantics import _PLAIN, _duck, _tables

_TYPES = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "boolean": pa.bool_()}


def _answer(query: Query, tables: dict[str, list[dict[str, Any]]]) -> Counter[tuple[Any, ...]]:
    """DuckDB's, over the rows of the join core."""
    assert query.outer is not None
    rows = list(run(query, tables).elements())
    names = [output.name for output in query.outputs]
    columns = [pa.array([row[at] for row in rows], _TYPES[output.expression.type]) for at, output in enumerate(query.outputs)]
    with duckdb.connect() as db:
        db.register("join_core", pa.table(columns, names))
        groups = db.sql(sqlglot.transpile(query.outer.sql, "spark", "duckdb")[0]).to_arrow_table()
        db.register("join_groups", groups)
        final = query.outer.final or "SELECT * FROM join_groups"
        return Counter(db.sql(sqlglot.transpile(final, "spark", "duckdb")[0]).fetchall())


@settings(max_examples=80)
@given(st.integers(0, 10**9), _tables)
def test_results_are_duckdbs(seed: int, tables: dict[str, list[dict[str, Any]]]) -> None:
    text = grouped_query(Generator(Random(seed)))
    try:
        query = parse_query("q", text, _PLAIN)
    except QueryError as error:
        assert "UNION ALL makes more" in error.what, text
        assume(False)
    assume(all(len(branch.aliases) <= 4 for branch in query.branches))
    assert _answer(query, tables) == _duck(text, tables), text
