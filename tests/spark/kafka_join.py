"""A job whose streams come out of Kafka, and whose results go there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.servers import KafkaCluster, KafkaServer

import clash

TEXT = "SELECT R.a, R.x, S.y FROM R JOIN S ON R.a = S.a"
KEYS = 7


class KafkaJoin:
    """R and S out of topics, and their join into a topic, all through the same addresses and options."""

    def __init__(self, spark: Any, server: KafkaServer | KafkaCluster, root: Path, servers: str, options: Mapping[str, str]) -> None:
        self.spark, self.server, self.root, self.servers, self.options = spark, server, root, servers, options
        self.name = f"j{uuid4().hex[:8]}"
        self.rows = 0
        server.create(*(self.topic(stream) for stream in "RS"), partitions=2)

    def topic(self, stream: str) -> str:
        return f"{self.name}-{stream}"

    def engine(self) -> clash.Engine:
        engine = clash.Engine(self.spark, self.root / "ck", workers=2)
        source = clash.sources.Kafka(self.spark, self.servers, options=self.options)
        engine.stream("R", source.json(self.topic("R"), "a long, x long"))
        engine.stream("S", source.json(self.topic("S"), "a long, y long"))
        engine.query("q", TEXT, sink=clash.sinks.Kafka(self.topic("out"), servers=self.servers, create=2, options=self.options))
        return engine

    def feed(self) -> None:
        for stream, column in (("R", "x"), ("S", "y")):
            values = range(self.rows, self.rows + 20)
            self.server.produce(self.topic(stream), [json.dumps({"a": value % KEYS, column: value}) for value in values])
        self.rows += 20

    def check(self) -> None:
        """The topic has the join of all that was fed."""
        found = Counter(tuple(json.loads(message.value()).values()) for message in self.server.consume(self.topic("out")))
        assert found == Counter((x % KEYS, x, y) for x in range(self.rows) for y in range(x % KEYS, self.rows, KEYS))
