"""Results of the parsed query against those of DuckDB for the same text, on small random tables with NULLs."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from clash.errors import QueryError
from clash.model.stream import Stream
from clash.sql import parse_query

from .evaluate import run
from .streams import STREAMS

_START = datetime(2024, 1, 1)
_small = st.none() | st.integers(-2, 3)
_name = st.none() | st.sampled_from(["", "a", "b", "ab", "B%"])
_time = st.none() | st.integers(0, 8).map(lambda s: _START + timedelta(seconds=s))
_tables = st.fixed_dictionaries(
    {
        "R": st.lists(st.fixed_dictionaries({"a": _small, "b": _small, "name": _name, "ts": _time}), max_size=6),
        "S": st.lists(st.fixed_dictionaries({"a": _small, "b": _small, "name": _name, "ts": _time}), max_size=6),
        "T": st.lists(st.fixed_dictionaries({"b": _small, "c": _name, "ok": st.none() | st.booleans()}), max_size=6),
    }
)
_KINDS = {"a": "BIGINT", "b": "INTEGER", "name": "VARCHAR", "c": "VARCHAR", "ts": "TIMESTAMP", "ok": "BOOLEAN"}
_COLUMNS = {"R": ("a", "b", "name", "ts"), "S": ("a", "b", "name", "ts"), "T": ("b", "c", "ok")}


_DB = duckdb.connect()  # one connection for all tests: opening one takes longer than a query
_DB.execute("PRAGMA disable_optimizer")  # DuckDB 2.0 gets `CASE … END IN (0)` over NULLs wrong with it


def _duck(text: str, tables: dict[str, list[dict[str, Any]]]) -> Counter[tuple[Any, ...]]:
    for name, rows in tables.items():
        columns = _COLUMNS[name]
        _DB.execute(f"CREATE OR REPLACE TABLE {name} ({', '.join(f'{c} {_KINDS[c]}' for c in columns)})")
        if rows:
            marks = ", ".join(f"({', '.join('?' for _ in columns)})" for _ in rows)
            _DB.execute(f"INSERT INTO {name} VALUES {marks}", [row[c] for row in rows for c in columns])
    return Counter(_DB.execute(text).fetchall())


@st.composite
def _number(draw: st.DrawFn, aliases: tuple[tuple[str, str], ...], depth: int = 2) -> str:
    alias, stream = draw(st.sampled_from(aliases))
    kind = draw(st.integers(0, 8 if depth else 1))
    if kind == 0:
        return str(draw(st.integers(-3, 4)))
    if kind <= 2:
        return f"{alias}.{draw(st.sampled_from([c for c in _COLUMNS[stream] if c in ('a', 'b')]))}"
    left, right = draw(_number(aliases, depth - 1)), draw(_number(aliases, depth - 1))
    return [
        f"({left} + {right})",
        f"({left} - {right})",
        f"({left} * {right})",
        f"-({left})",
        f"COALESCE({left}, {right})",
        f"CASE WHEN {left} > {right} THEN {left} ELSE 0 END",
        f"GREATEST({left}, {right})",
    ][draw(st.integers(0, 6))]


@st.composite
def _condition(draw: st.DrawFn, aliases: tuple[tuple[str, str], ...], depth: int = 2) -> str:
    kind = draw(st.integers(0, 9 if depth else 5))
    left, right = draw(_number(aliases, 1)), draw(_number(aliases, 1))
    if kind <= 1:
        return f"{left} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {right}"
    if kind == 2:
        values = ", ".join(str(v) for v in draw(st.lists(st.integers(-2, 3), min_size=1, max_size=3)))
        return f"{left} {draw(st.sampled_from(['IN', 'NOT IN']))} ({values})"
    if kind == 3:
        return f"{left} {draw(st.sampled_from(['BETWEEN', 'NOT BETWEEN']))} {right} AND {draw(_number(aliases, 0))}"
    if kind == 4:
        return f"{left} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"
    if kind == 5:
        alias, stream = draw(st.sampled_from(aliases))
        pattern = draw(st.sampled_from(["a%", "_", "%b", ""]))
        return f"{alias}.{'c' if stream == 'T' else 'name'} {draw(st.sampled_from(['LIKE', 'NOT LIKE']))} '{pattern}'"
    inner, other = draw(_condition(aliases, depth - 1)), draw(_condition(aliases, depth - 1))
    return [f"NOT ({inner})", f"({inner} AND {other})", f"({inner} OR {other})", f"(({inner}) OR NOT ({other}))"][kind - 6]


@st.composite
def _query(draw: st.DrawFn) -> str:
    streams = draw(st.lists(st.sampled_from("RST"), min_size=1, max_size=3))
    aliases = tuple((f"x{at}", stream) for at, stream in enumerate(streams))
    text = f"FROM {streams[0]} x0"
    where: list[str] = []
    for at in range(1, len(aliases)):
        alias, stream = aliases[at]
        other, left = draw(st.sampled_from(aliases[:at]))
        column = draw(st.sampled_from([c for c in _COLUMNS[stream] if c in ("a", "b")]))
        match = draw(st.sampled_from([c for c in _COLUMNS[left] if c in ("a", "b")]))
        link = f"{alias}.{column} = {other}.{match}"
        style = draw(st.integers(0, 3))
        if style == 0 and "JOIN" not in text:
            text += f", {stream} {alias}"
            where.append(link)
        elif style == 1 and at == 1:
            text += f" JOIN {stream} {alias} USING (b)"
        elif style == 2:
            text += f" CROSS JOIN {stream} {alias}"
        else:
            extra = f" AND {draw(_condition(aliases[: at + 1]))}" if draw(st.booleans()) and "," not in text else ""
            text += f" JOIN {stream} {alias} ON {link}{extra}" if "," not in text else f" CROSS JOIN {stream} {alias}"
    where += draw(st.lists(_condition(aliases), max_size=3))
    outputs = ", ".join(f"{draw(_number(aliases))} AS o{n}" for n in range(draw(st.integers(1, 3))))
    return f"SELECT {outputs} {text}" + (f" WHERE {' AND '.join(where)}" if where else "")


@settings(max_examples=250)
@given(_query(), _tables)
def test_results_are_duckdbs(text: str, tables: dict[str, list[dict[str, Any]]]) -> None:
    try:
        query = parse_query("q", text, STREAMS)
    except QueryError as error:
        # the generator may produce a constant condition; everything else that it produces is supported
        assert error.what in ("the condition is never true", "the condition names no column"), f"{text}\n{error}"
        return
    assert run(query, tables) == _duck(text, tables), text


_PLAIN = {
    name: Stream.of(name, {c: k for c, k in STREAMS[name].columns if c in columns}, time="ts" if "ts" in columns else None)
    for name, columns in _COLUMNS.items()
}
_FIXED = [
    "SELECT x.a FROM R x, R y WHERE x.a = y.a AND x.ts BETWEEN y.ts - INTERVAL 2 SECONDS AND y.ts + INTERVAL 1 SECOND",
    "SELECT R.b, S.b AS c FROM R JOIN S ON R.a = S.a WHERE R.ts - INTERVAL 1 SECOND < S.ts",
    "SELECT R.b FROM R JOIN S ON R.a = S.a WHERE R.ts - S.ts >= INTERVAL 1 SECOND",
    "SELECT R.b FROM R JOIN S ON R.a = S.a WHERE R.ts > '2024-01-01 00:00:03'",
    "SELECT b, a, name, c, ok FROM R NATURAL JOIN T",  # not *: DuckDB orders its columns otherwise than Spark
    "SELECT T.* FROM R JOIN T USING (b) WHERE ok",
    "SELECT R.a FROM R JOIN T USING (b) WHERE NOT ok OR R.a = 1",
    "SELECT R.a FROM R, S WHERE (R.a = S.a AND R.b = 1) OR (R.a = S.a AND S.b = 2)",
    "SELECT R.a FROM R, S, T WHERE R.a = S.a AND S.b = T.b AND R.a + S.b > T.b",
    "SELECT R.a FROM R JOIN S ON R.a = S.a AND R.a = R.b",
    "SELECT a FROM R WHERE a = a AND b IS NOT DISTINCT FROM a",
    "SELECT a FROM R WHERE a % 2 = 1 OR a % 2 = -1",
    "SELECT NULLIF(a, b) AS n, UPPER(name) AS u, LENGTH(name) AS l, name || '!' AS e, ABS(a) AS p FROM R",
    "SELECT R.a FROM R JOIN S ON R.a = S.a AND S.a = R.b AND S.name = R.name",
    "SELECT r.A FROM r JOIN s ON r.NAME = s.Name WHERE r.Name LIKE 'a%'",
    "SELECT a FROM R WHERE a NOT IN (1, NULL)",
    "SELECT a FROM R WHERE a IN (1, NULL)",
    "SELECT a FROM R WHERE CASE a WHEN 1 THEN name WHEN 2 THEN 'b' END = 'b'",
    "SELECT a FROM R WHERE LEAST(a, b) = 1 AND SUBSTRING(name, 1, 1) = 'a'",
]


@settings(max_examples=150)
@given(st.sampled_from(_FIXED), _tables)
def test_results_of_fixed_queries_are_duckdbs(text: str, tables: dict[str, list[dict[str, Any]]]) -> None:
    assert run(parse_query("q", text, _PLAIN), tables) == _duck(text, tables), text
