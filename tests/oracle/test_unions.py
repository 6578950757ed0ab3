"""UNION ALL of streams through the engine, whatever plan, batches, changes and restarts: what DuckDB gives for the same text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.sql.nested_queries import Generator

from clash.errors import QueryError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.sql import parse_query

_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", tz="UTC")}
_COLUMNS = {
    "R": {"a": "bigint", "b": "int", "name": "string", "ts": "timestamp"},
    "S": {"a": "int", "b": "int", "name": "string", "ts": "timestamp"},
    "T": {"b": "int", "c": "string", "ok": "int"},
}


def _streams(time: str | None = None, **windows: str) -> list[Stream]:
    timed = {name: time if time in columns else None for name, columns in _COLUMNS.items()}
    return [Stream.of(name, columns, time=timed[name], window=windows.get(name), keep="all") for name, columns in _COLUMNS.items()]


def _batch(random: Random) -> dict[str, pa.Table]:
    def value(kind: str) -> Any:
        if kind == "timestamp":
            return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(60))
        return random.choice([None, "", "a", "ab"]) if kind == "string" else random.choice([None, *range(-1, 4)])

    rows = {name: [{c: value(k) for c, k in columns.items()} for _ in range(6)] for name, columns in _COLUMNS.items()}
    return {
        name: pa.Table.from_pylist(found, pa.schema([(c, _TYPES[k]) for c, k in _COLUMNS[name].items()])) for name, found in rows.items()
    }


def _expected(text: str, batches: Iterable[dict[str, pa.Table]]) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for name in _COLUMNS:
            db.register(name, pa.concat_tables([batch[name] for batch in batches]))
        return Counter(db.execute(text).fetchall())


def _found(engine: InProcessEngine, name: str) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*engine.results(name).to_pydict().values(), strict=True))


def _random_text(seed: int, streams: list[Stream]) -> str:
    """A query with UNION ALL of a few joins of at most four streams."""
    random = Random(seed)
    while True:
        text = Generator(random).query()
        try:
            query = parse_query("q", text, {stream.name: stream for stream in streams})
        except QueryError as error:
            assert "UNION ALL makes more" in error.what, text
            continue
        if query.added and len(query.branches) <= 6 and all(len(branch.aliases) <= 4 for branch in query.branches):
            return text


@pytest.mark.parametrize("strategy", ["global", "independent"])
def test_random_queries_over_changes_and_restarts(strategy: Any) -> None:
    streams = _streams()
    for seed in range(6):
        random = Random(seed)
        first, second, third = (_random_text(3 * seed + at, streams) for at in range(3))
        batches = [_batch(random) for _ in range(5)]
        engine = InProcessEngine(streams, {"kept": first, "replaced": second}, workers=random.choice([1, 3]), strategy=strategy)
        engine.batch(batches[0])
        engine.add_query("added", third)
        engine.batch(batches[1])
        engine.restart()
        before, schema = _found(engine, "replaced"), engine.results("replaced").schema
        assert before == _expected(second, batches[:2]), second
        engine.replace_query("replaced", first)
        engine.batch(batches[2])
        engine.remove_query("added")
        engine.rescale(2)
        engine.batch(batches[3])
        engine.restart()
        engine.batch(batches[4])
        assert _found(engine, "kept") == _expected(first, batches), first
        assert _found(engine, "added") == _expected(third, batches[:3]) - _expected(third, batches[:1]), third
        stays = engine.results("replaced").schema == schema  # the results of both are in one folder
        since = _expected(first, batches) - _expected(first, batches[:2])
        assert _found(engine, "replaced") == since + (before if stays else Counter()), first


_ALIKE = "SELECT u.a, u.src, S.name FROM ({}) u JOIN S ON u.a = S.a"
_BRANCHES = ["SELECT a, ts, 'r' AS src FROM R WHERE b > 0", "SELECT a, ts, name FROM S"]


def test_windows_of_each_branch() -> None:
    streams = _streams("ts", R="5 seconds", S="20 seconds")
    text = _ALIKE.format(" UNION ALL ".join(_BRANCHES))
    batches = [_batch(Random(at)) for at in range(6)]
    engine = InProcessEngine(streams, {"q": text, "hint": text.replace("SELECT", "SELECT /*+ WINDOW(`u.R`, '1 second') */", 1)}, workers=2)
    for batch in batches:
        engine.batch(batch)

    def within(seconds: int) -> str:
        latest = "greatest(epoch_us(x.ts), epoch_us(S.ts))"
        bounds = f"{latest} - epoch_us(S.ts) <= 20000000 AND {latest} - epoch_us(x.ts) <= {{}}000000"
        of_r = f"SELECT x.a, 'r' AS src, S.name FROM R x JOIN S ON x.a = S.a WHERE x.b > 0 AND {bounds.format(seconds)}"
        return f"{of_r} UNION ALL SELECT x.a, x.name, S.name FROM S x JOIN S ON x.a = S.a WHERE {bounds.format(20)}"

    assert _found(engine, "q") == _expected(within(5), batches)
    assert _found(engine, "hint") == _expected(within(1), batches) != _found(engine, "q")


def test_a_branch_that_is_never_true_costs_nothing() -> None:
    names = {stream.name: stream for stream in _streams()}
    text = "WITH u AS (SELECT 'r' AS src, a FROM R UNION ALL SELECT 's', a FROM S) SELECT u.a FROM u WHERE src = '{}'"
    query = parse_query("q", text.format("s"), names)
    assert not query.added
    assert query.aliases[0][1].stream == "S"
    with pytest.raises(QueryError, match="never true"):
        parse_query("q", text.format("t"), names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT a FROM R UNION ALL SELECT a, b FROM S", "differ in their number of columns"),
        ("SELECT a FROM R UNION ALL SELECT name FROM S", "differ in a type"),
        ("SELECT a FROM R UNION SELECT a FROM S", "SELECT DISTINCT … FROM"),
        ("SELECT a FROM R UNION ALL SELECT a FROM S ORDER BY a", "ORDER BY is not supported"),
        ("SELECT a FROM R UNION ALL SELECT a FROM S INTERSECT SELECT a FROM S", "INTERSECT is not supported"),
        ("SELECT a FROM R UNION ALL SELECT no FROM S", "unknown column"),
        ("SELECT u.a FROM (SELECT a FROM R UNION ALL SELECT a FROM S) u JOIN T ON u.a > T.b", "not all relations are joined"),
        ("WITH u AS (SELECT a FROM R UNION ALL SELECT a FROM S UNION ALL SELECT b FROM T) SELECT p.a FROM u p JOIN u q USING (a) "
         "JOIN u r USING (a) JOIN u s USING (a)", "more than 64 joins"),
        ("SELECT /*+ WINDOW(T, '1 second') */ a FROM R UNION ALL SELECT a FROM S", "a window for a relation that the query does not have"),
    ],
)  # fmt: skip
def test_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_query("q", text, {stream.name: stream for stream in _streams()})
