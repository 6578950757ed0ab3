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
from .nested_queries import Generator
from .test_semantics import _PLAIN, _duck, _tables

_TYPES = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "boolean": pa.bool_()}


def _text(random: Random) -> str:
    generator = Generator(random)
    inner, columns = generator._union(1) if random.random() < 0.3 else generator._select(1)
    numbers = [f"d.{name}" for name, (kind, _) in columns.items() if kind == "number"]
    by = random.sample([f"d.{name}" for name in columns], random.randrange(1, len(columns) + 1))
    value = random.choice(numbers)
    aggregates = random.sample(["count(*)", f"sum({value})", f"min({value})", f"max({value} + 1)", f"count({value})"], 2)
    if random.random() < 0.2:
        grouped = f"SELECT DISTINCT {', '.join(f'{name} AS c{n}' for n, name in enumerate(by))} FROM ({inner}) d"
        return grouped if random.random() < 0.5 else f"SELECT count(*) AS n FROM ({grouped}) g"
    items = [*(f"{name} AS c{n}" for n, name in enumerate(by)), *(f"{text} AS a{n}" for n, text in enumerate(aggregates))]
    if random.random() < 0.3:
        items.append(f"max({aggregates[0]}) OVER (PARTITION BY {by[0]}) AS w")
    having = f" HAVING {aggregates[0]} > {random.randrange(3)}" if random.random() < 0.4 else ""
    grouped = f"SELECT {', '.join(items)} FROM ({inner}) d GROUP BY {', '.join(by)}{having}"
    around = [
        "{0}",
        "SELECT g.a0, g.c0 FROM ({0}) g WHERE g.a0 > 1",
        "WITH g AS ({0}) SELECT x.c0, y.a0 FROM g x JOIN g y ON x.a0 = y.a0",
        "WITH g AS ({0}) SELECT g.c0, g.a0 - (SELECT min(a0) FROM g) AS more FROM g",
        "WITH g AS ({0}) SELECT max(a0) AS m, count(*) AS n FROM g UNION ALL SELECT a0, 1 FROM g",
    ]
    return random.choice(around).format(grouped)


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
    text = _text(Random(seed))
    try:
        query = parse_query("q", text, _PLAIN)
    except QueryError as error:
        assert "UNION ALL makes more" in error.what, text
        assume(False)
    assume(all(len(branch.aliases) <= 4 for branch in query.branches))
    assert _answer(query, tables) == _duck(text, tables), text
