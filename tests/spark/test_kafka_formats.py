"""Avro and CSV out of a real broker; Avro also with a schema registry whose schema changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from uuid import uuid4

import pytest
from fastavro import parse_schema, schemaless_writer
from tests.servers import KafkaServer, SchemaRegistry

import clash
from clash.errors import OptionError

OLD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
NEW = {"type": "record", "name": "R", "fields": [*OLD["fields"], {"name": "x", "type": ["null", "string"], "default": None}]}


@pytest.fixture
def registry(topic: str) -> Iterator[str]:
    answers = {f"/schemas/ids/{id}": (200, {"schema": json.dumps(schema)}) for id, schema in ((1, OLD), (2, NEW))}
    latest = {"id": 2, "version": 2, "subject": f"{topic}-value", "schema": json.dumps(NEW)}
    with SchemaRegistry({**answers, f"/subjects/{topic}-value/versions/latest": (200, latest)}) as server:
        yield server.url


def avro(schema: Any, value: dict[str, Any], id: int | None = None) -> bytes:
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return (b"" if id is None else b"\0" + id.to_bytes(4, "big")) + out.getvalue()


def read(spark: Any, checkpoint: str, stream: Any, text: str) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The rows of a query over one stream, and the reasons for which records of it are rejected."""
    engine = clash.Engine(spark, checkpoint)
    engine.stream("R", stream)
    engine.query("q", text)
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    rows = [tuple(row.values()) for row in run.results("q").toArrow().to_pylist()]
    return sorted(rows, key=str), [row["reason"] for row in run.rejected("R").toArrow().sort_by("offset").to_pylist()]


@pytest.fixture
def topic(kafka_server: KafkaServer) -> str:
    name = f"f{uuid4().hex[:8]}"
    kafka_server.create(name)
    return name


def test_avro_with_a_registry(spark: Any, checkpoint: str, kafka_server: KafkaServer, topic: str, registry: str) -> None:
    """The schema of old records is fetched when one of them comes."""
    values = [avro(NEW, {"a": 1, "x": "new"}, 2), avro(OLD, {"a": 2}, 1), b"\0\0\0\0\x09?", b"plain"]
    kafka_server.produce(topic, values)
    stream = clash.sources.Kafka(spark, kafka_server.servers).avro(topic, registry=registry)
    assert stream.columns == {"a": "bigint", "x": "string"}
    rows, reasons = read(spark, checkpoint, stream, "SELECT R.a, R.x FROM R")
    assert rows == [(1, "new"), (2, None)]
    assert len(reasons) == 2


def test_plain_avro_and_csv(spark: Any, checkpoint: str, kafka_server: KafkaServer, topic: str) -> None:
    source = clash.sources.Kafka(spark, kafka_server.servers)
    kafka_server.produce(topic, [avro(NEW, {"a": 7, "x": None}), avro(NEW, {"a": 8, "x": "y"})])
    rows, reasons = read(spark, f"{checkpoint}-avro", source.avro(topic, json.dumps(NEW)), "SELECT R.a, R.x FROM R")
    assert (rows, reasons) == ([(7, None), (8, "y")], [])
    lines = f"{topic}-csv"
    kafka_server.create(lines)
    kafka_server.produce(lines, ["1;one", '2;"two; or more"', "three;3"])
    rows, reasons = read(spark, f"{checkpoint}-csv", source.csv(lines, "a long, x string", separator=";"), "SELECT R.a, R.x FROM R")
    assert rows == [(1, "one"), (2, "two; or more")]
    assert len(reasons) == 1


def test_what_avro_needs(spark: Any) -> None:
    source = clash.sources.Kafka(spark, "127.0.0.1:1")
    for arguments in ({}, {"schema": json.dumps(NEW), "registry": "http://127.0.0.1:1"}, {"schema": json.dumps(NEW), "subject": "s"}):
        with pytest.raises(OptionError):
            source.avro("t", **arguments)
