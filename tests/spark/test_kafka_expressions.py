"""Expressions over streams of Kafka, which tasks decode: Spark computes them of the joined rows, tasks compute keys."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.servers import KafkaServer

import clash

from .expression_job import values

PROJECTED = """SELECT R.a, hex(R.x) AS h, levenshtein(string(R.x), string(S.y)) AS d FROM R JOIN S ON R.a = S.a
    WHERE crc32(string(R.x)) % 2 = 0 AND sha1(string(R.x)) < sha1(string(S.y))"""
QUERIES = {"keys": "SELECT R.x, S.y FROM R JOIN S ON R.x % 5 = S.y % 3", "text": "SELECT R.x, S.y FROM R JOIN S ON S.t = R.x"}


def test_results_are_sparks(spark: Any, kafka_server: KafkaServer, tmp_path: Path) -> None:
    name = f"e{uuid4().hex[:8]}"
    kafka_server.create(f"{name}-R", f"{name}-S", partitions=2)

    def engine() -> clash.Engine:
        made = clash.Engine(spark, tmp_path / "ck", workers=2)
        source = clash.sources.Kafka(spark, kafka_server.servers)
        made.stream("R", source.json(f"{name}-R", "a long, x long"))
        made.stream("S", source.json(f"{name}-S", "a long, y long, t string"))
        made.query("projected", PROJECTED, sink=clash.sinks.Kafka(f"{name}-out", servers=kafka_server.servers, create=1))
        for query, text in QUERIES.items():
            made.query(query, text)
        with pytest.raises(clash.QueryError, match="a key of a stream that only tasks read cannot be computed by Spark"):
            made.query("refused", "SELECT R.a FROM R JOIN S ON sha1(string(R.x)) = sha1(string(S.y))")
        return made

    rows: dict[str, list[dict[str, Any]]] = {"R": [], "S": []}
    for start in (0, 30):
        for at in range(start, start + 30):
            rows["R"].append({"a": at % 7, "x": at})
            rows["S"].append({"a": at % 7, "y": at, "t": str(at // 2)})
        for stream, records in rows.items():
            kafka_server.produce(f"{name}-{stream}", [json.dumps(record) for record in records[start:]])
        run = engine().start(available_now=True)
        assert run.await_termination(300)
    assert "COMPUTED by tasks" in run.explain()
    for stream, kinds in (("R", "a long, x long"), ("S", "a long, y long, t string")):
        spark.createDataFrame(rows[stream], kinds).createOrReplaceTempView(stream)
    for query, text in QUERIES.items():
        assert values(run.results(query)) == values(spark.sql(text)) != Counter()
    found = Counter(str([*json.loads(message.value()).values()]) for message in kafka_server.consume(f"{name}-out"))
    assert found == values(spark.sql(PROJECTED)) != Counter()
