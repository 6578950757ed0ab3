"""Derived tables, common tables and joins in parentheses become one join of streams.

`CLASH_REWRITE=1 pytest tests/sql/test_flattened.py` rewrites the expected joins.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clash.errors import QueryError
from clash.model.query import Query
from clash.model.relation import Relation
from clash.sql import parse_queries, parse_query

from .evaluate import run
from .nested_queries import Generator
from .streams import STREAMS
from .test_semantics import _PLAIN, _duck, _tables

_FILE = Path(__file__).parent / "fixtures" / "flattened.txt"


def _show(query: Query) -> str:
    join = query.join
    lines = {
        "streams": [f"{name} is {relation}" if name != str(relation) else name for name, relation in query.aliases],
        "outputs": [f"{output.name}: {output.expression}" for output in query.outputs],
        "classes": sorted(" = ".join(sorted(map(str, c))) for c in join.classes),
        "filters": sorted(map(str, join.filters)),
        "residuals": sorted(map(str, join.residuals)),
        "crossed": sorted("-".join(sorted(map(str, pair))) for pair in query.links),
    }
    return "\n".join(f"{key}: {'; '.join(values)}" for key, values in lines.items() if values)


def test_joins() -> None:
    blocks = [block.strip("\n").splitlines() for block in _FILE.read_text().split("\n\n")]
    texts = ["\n".join(line[2:] for line in lines if line.startswith("> ")) for lines in blocks[1:]]
    body = ["\n".join([*(f"> {line}" for line in text.splitlines()), _show(parse_query("q", text, STREAMS))]) for text in texts]
    content = "\n\n".join(["\n".join(blocks[0]), *body]) + "\n"
    if os.environ.get("CLASH_REWRITE"):
        _FILE.write_text(content)
    assert content == _FILE.read_text()


@pytest.mark.parametrize(
    ("nested", "flat"),
    [
        ("SELECT d.a FROM (SELECT * FROM R WHERE b > 1) d JOIN S USING (a)", "SELECT R.a FROM R JOIN S ON R.a = S.a WHERE R.b > 1"),
        ("WITH q AS (SELECT a + 1 AS k, a FROM R) SELECT q.k FROM q WHERE k > 5", "SELECT a + 1 AS k FROM R WHERE a + 1 > 5"),
        ("SELECT S.b FROM (R JOIN S USING (a)) JOIN T ON S.b = T.b", "SELECT S.b FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"),
    ],
)
def test_the_join_is_that_of_the_flat_text(nested: str, flat: str) -> None:
    """So that queries share it, however they are written."""
    ours, theirs = parse_query("q", nested, STREAMS), parse_query("q", flat, STREAMS)
    assert (ours.join, ours.outputs, ours.links, ours.bounds) == (theirs.join, theirs.outputs, theirs.links, theirs.bounds)


def test_an_integer_behind_a_name_has_all_digits_of_its_type() -> None:
    """As in Spark, where only a literal itself counts its own digits."""
    texts = ["SELECT d.k * m AS p FROM (SELECT 2 AS k, m FROM T) d", "SELECT 2 AS k, k * m AS p FROM T", "SELECT 2 * m AS p FROM T"]
    types = [parse_query("q", text, STREAMS).outputs[-1].expression.type for text in texts]
    assert types == ["decimal(21,2)", "decimal(21,2)", "decimal(12,2)"]


def test_windows_of_streams_in_derived_tables() -> None:
    text = "SELECT d.a FROM (SELECT x.a FROM R x JOIN R y ON x.a = y.a) d JOIN R ON R.a = d.a"
    first, second, third = (Relation("R", number) for number in range(3))
    for name, expected in {"d": (7, 7, 5), "d.y": (5, 7, 5), "R": (5, 5, 7)}.items():
        windows = dict(parse_query("q", text, STREAMS, {name: "7 seconds"}).join.windows)
        assert [windows[relation] for relation in (first, second, third)] == [seconds * 1_000_000 for seconds in expected]
        hint = f"SELECT /*+ WINDOW(`{name}`, '7 seconds') */{text.removeprefix('SELECT')}"
        assert dict(parse_query("q", hint, STREAMS).join.windows) == windows
    inside = "SELECT d.a FROM (SELECT /*+ WINDOW(d, '7 seconds') */ a FROM R) d"
    assert dict(parse_query("q", inside, STREAMS).join.windows) == {first: 7_000_000}


def test_the_same_stream_twice_without_an_alias() -> None:
    query = parse_query("q", "SELECT x.n FROM (SELECT 1 AS n FROM R CROSS JOIN R) x", STREAMS)
    assert query.aliases == (("x.R", Relation("R")), ("x.R", Relation("R", 1)))
    assert dict(parse_query("q", "SELECT 1 AS n FROM R CROSS JOIN R", STREAMS, {"R": "7 seconds"}).join.windows) == {
        Relation("R"): 7_000_000, Relation("R", 1): 7_000_000}  # fmt: skip


def test_columns_that_grow_with_the_levels_are_refused() -> None:
    text = "SELECT a FROM R"
    for _ in range(12):
        text = f"SELECT a + a AS a FROM ({text})"
    with pytest.raises(QueryError, match="nested too deeply"):
        parse_query("q", text, STREAMS)
    chain = ", ".join(f"p{n} + p{n} AS p{n + 1}" for n in range(30))
    with pytest.raises(QueryError, match="nested too deeply"):
        parse_query("q", f"SELECT a AS p0, {chain} FROM R", STREAMS)
    doubled = ", ".join(f"q{n} AS (SELECT x.a FROM q{n - 1} x JOIN q{n - 1} y ON x.a = y.a)" for n in range(1, 20))
    with pytest.raises(QueryError, match="too many aliases"):
        parse_query("q", f"WITH q0 AS (SELECT a FROM R), {doubled} SELECT a FROM q19", STREAMS)


def test_schemas_from_nested_queries() -> None:
    text = "WITH q AS (SELECT R.a, b FROM R WHERE c > 1) SELECT q.a, d.e FROM q JOIN (SELECT S.f AS e, S.g AS a FROM S) d USING (a)"
    _, streams = parse_queries({"q": text})
    assert {n: {c for c, _ in s.columns} for n, s in streams.items()} == {"R": {"a", "b", "c"}, "S": {"f", "g"}}


@settings(max_examples=150)
@given(st.integers(0, 10**9), _tables)
def test_results_are_duckdbs(seed: int, tables: dict[str, list[dict[str, Any]]]) -> None:
    text = Generator(Random(seed)).query()
    query = parse_query("q", text, _PLAIN)
    if all(len(branch.aliases) <= 5 for branch in query.branches) and len(query.branches) <= 12:
        assert run(query, tables) == _duck(text, tables), text


_SPARK_ONLY = [
    "SELECT * FROM R JOIN S USING (b)", "SELECT S.* FROM R JOIN S USING (name, b)", "SELECT R.*, 1 AS one FROM R JOIN T USING (b)",
    "SELECT * FROM (R JOIN S USING (a)) d(p, q, r, t, u)",
    "SELECT d.* FROM (SELECT a, b FROM R) d JOIN (SELECT name, b FROM S) e USING (b)",
    "SELECT e.* FROM (SELECT a, b FROM R) d JOIN (SELECT name, b FROM S) e USING (b)", "SELECT * FROM (SELECT a, b FROM R) NATURAL JOIN T",
    "SELECT a + 1 AS p, p * 2 AS q, r.B FROM r", "WITH R AS (SELECT a, name FROM R WHERE b > 0) SELECT * FROM r",
    "WITH q AS (SELECT a FROM R), p AS (WITH Q AS (SELECT b FROM R) SELECT * FROM q) SELECT p.b, q.a FROM p JOIN q ON p.b = q.a",
    "SELECT t.a, t.c FROM (SELECT a, b AS k FROM R) t JOIN (SELECT b, c FROM T) t ON k = b", "SELECT 1 AS one FROM R CROSS JOIN R",
    "SELECT R.a, S.a AS sa, T.b AS tb, b FROM (R JOIN S USING (b)) JOIN T USING (b)", "SELECT * FROM R JOIN (S JOIN T USING (b)) USING (b)",
    "SELECT A, d.K FROM (SELECT a, b AS k FROM R) D WHERE k > 0", "SELECT x.k FROM (SELECT a AS k, a AS j, b AS j FROM R) x",
    "(SELECT a FROM R) UNION ALL SELECT a FROM S",
    "((SELECT a FROM R) UNION ALL (SELECT b FROM T)) UNION ALL (SELECT a FROM S WHERE b > 0)",
]  # fmt: skip


def test_results_are_sparks(spark: Any) -> None:
    """Columns in the same order, under the same names, with the same rows; all queries in one job."""
    session = spark.newSession()
    for_tiny_data = {
        "shuffle.partitions": "1", "adaptive.enabled": "false", "leafNodeDefaultParallelism": "1", "autoBroadcastJoinThreshold": "-1",
        "codegen.wholeStage": "false", "codegen.factoryMode": "NO_CODEGEN",
    }  # fmt: skip
    for key, value in for_tiny_data.items():
        session.conf.set(f"spark.sql.{key}", value)
    rng = Random(5)
    streams = {name: [(column, kind) for column, kind in stream.columns if column not in ("ts", "ok")] for name, stream in _PLAIN.items()}
    plain = {name: type(_PLAIN[name]).of(name, dict(columns)) for name, columns in streams.items()}
    values: dict[str, list[Any]] = {"bigint": [None, -1, 0, 1, 2, 3], "int": [None, 0, 1, 2, 3], "string": [None, "", "a", "b", "ab"]}
    tables = {n: [{c: rng.choice(values[k]) for c, k in columns} for _ in range(8)] for n, columns in streams.items()}
    for name, columns in streams.items():
        casts = [f"CAST({'NULL' if row[c] is None else repr(row[c])} AS {k})" for row in tables[name] for c, k in columns]
        rows = [f"({', '.join(casts[at : at + len(columns)])})" for at in range(0, len(casts), len(columns))]
        session.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS {name}({', '.join(c for c, _ in columns)})").createOrReplaceTempView(name)
    generated = [Generator(Random(seed)).query().replace(", ts)", ")").replace(", ok)", ")") for seed in range(25)]
    parsed = [(text, parse_query("q", text, plain)) for text in (*_SPARK_ONLY, *generated)]
    parsed = [(text, query) for text, query in parsed if all(len(branch.aliases) <= 4 for branch in query.branches)]
    union: Any = None
    for number, (text, query) in enumerate(parsed):
        frame = session.sql(text)
        renamed = [name.replace("R_", "").replace("S_", "").replace("T_", "") for name in (output.name for output in query.outputs)]
        assert [column.lower() for column in frame.columns] == [name.lower() for name in renamed], text
        frame = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
        as_json = frame.selectExpr(f"{number} AS q", f"to_json(array({', '.join(f'string({c})' for c in frame.columns)})) AS row")
        union = as_json if union is None else union.union(as_json)
    theirs = Counter((row.q, tuple(json.loads(row.row))) for row in union.collect())
    for number, (text, query) in enumerate(parsed):
        ours = Counter({tuple(None if v is None else str(v) for v in row): n for row, n in run(query, tables).items()})
        assert ours == Counter({row: n for (q, row), n in theirs.items() if q == number}), text
