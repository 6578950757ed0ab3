"""Queries with common tables, derived tables and functions of the calendar, through the engine: what DuckDB gives for the same text."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

_STREAMS = (
    Stream.of("R", {"a": "int", "b": "int", "ts": "timestamp"}, time="ts"),
    Stream.of("S", {"a": "int", "name": "string", "ts": "timestamp"}, time="ts"),
)
_SCHEMAS = {
    "R": pa.schema([("a", pa.int32()), ("b", pa.int32()), ("ts", pa.timestamp("us", tz="UTC"))]),
    "S": pa.schema([("a", pa.int32()), ("name", pa.string()), ("ts", pa.timestamp("us", tz="UTC"))]),
}
_QUERIES = {
    "pairs": "WITH q AS (SELECT a, b * 2 AS twice, ts FROM R WHERE b > 0)"
    " SELECT x.twice, y.twice AS other FROM q x JOIN q y ON x.a = y.a WHERE x.twice < y.twice",
    "days": "SELECT d.a, d.day, S.name FROM (SELECT a, CAST(date_trunc('day', ts) AS date) AS day FROM R) d"
    " JOIN S ON d.a = S.a WHERE d.day = CAST(date_trunc('day', S.ts) AS date)",
    "names": "SELECT d.k, upper(d.n) AS n FROM (SELECT R.a AS k, S.name AS n FROM (R JOIN S USING (a)) WHERE length(S.name) > 1) d",
}


def _batch(random: Random) -> dict[str, pa.Table]:
    def moment() -> datetime:
        return datetime(2024, 2, 28, 12, tzinfo=UTC) + timedelta(hours=random.randrange(48))

    rows: dict[str, list[dict[str, Any]]] = {
        "R": [{"a": random.choice([None, 1, 2, 3]), "b": random.randrange(-2, 4), "ts": moment()} for _ in range(12)],
        "S": [{"a": random.choice([None, 1, 2, 3]), "name": random.choice([None, "", "a", "bc", "äö"]), "ts": moment()} for _ in range(12)],
    }
    return {name: pa.Table.from_pylist(values, _SCHEMAS[name]) for name, values in rows.items()}


def test_results_are_duckdbs() -> None:
    random = Random(7)
    engine = InProcessEngine(_STREAMS, {name: _QUERIES[name] for name in ("pairs", "days")}, workers=3)
    batches = [_batch(random) for _ in range(4)]
    engine.batch(batches[0])
    engine.add_query("names", _QUERIES["names"])
    engine.batch(batches[1])
    engine.restart()
    engine.batch(batches[2])
    engine.change_stream("R", window="10 days")
    engine.batch(batches[3])
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for name in ("R", "S"):
            db.register(name, pa.concat_tables([batch[name] for batch in batches]))
        for name in ("pairs", "days"):
            expected = Counter(db.execute(_QUERIES[name]).fetchall())
            assert Counter(zip(*engine.results(name).to_pydict().values(), strict=True)) == expected, name
            assert expected.total() > 20
        before = {name: batches[0][name] for name in ("R", "S")}
        everything = Counter(db.execute(_QUERIES["names"]).fetchall())
        for name, table in before.items():
            db.register(name, table)
        earlier = Counter(db.execute(_QUERIES["names"]).fetchall())
        assert Counter(zip(*engine.results("names").to_pydict().values(), strict=True)) == everything - earlier
