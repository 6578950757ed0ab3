"""Results in Kafka: each once for readers of committed messages, whatever happens to the broker or to the program."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.servers import KafkaServer

import clash
from clash.delivery.avro_rows import avro_schema
from clash.delivery.deliveries import Deliveries
from clash.delivery.kafka_target import KafkaTarget
from clash.delivery.target import Destination, Output
from clash.sinks import Kafka

from .avro_reader import AvroReader
from .kills import POINTS, Kills


class Program:
    """What a run does with its sinks."""

    def __init__(self, checkpoint: str, *sinks: Kafka, last: int = -1, uncertain: bool = False) -> None:
        self.deliveries = Deliveries(lambda sink, stopping: KafkaTarget(sink, checkpoint, "UTC", stopping))
        destinations = [Destination(f"q{at}", sink, rows(0).schema) for at, sink in enumerate(sinks)]
        self.deliveries.begin(destinations, last, destinations if uncertain else ())

    def deliver(self, batch: int, *results: tuple[Kafka, pa.RecordBatch]) -> None:
        self.deliveries.deliver(batch, [output(f"q{at}", sink, [rows]) for at, (sink, rows) in enumerate(results)])


def output(query: str, sink: Kafka, pieces: list[pa.RecordBatch]) -> Output[Kafka]:
    return Output(query, sink, pieces[0].schema, sum(map(len, pieces)), lambda: iter(pieces))


def rows(batch: int, number: int = 3) -> pa.RecordBatch:
    return pa.record_batch({"batch": pa.array([batch] * number), "row": pa.array(range(number))})


def values(messages: Iterable[Any]) -> Counter[tuple[int, int]]:
    found = [json.loads(message.value()) for message in messages]
    return Counter((value["batch"], value["row"]) for value in found)


@pytest.fixture
def name() -> str:
    return uuid4().hex[:12]


@pytest.fixture
def sink(kafka_server: KafkaServer, name: str) -> Callable[..., Kafka]:
    def make(topic: str = name, **options: Any) -> Kafka:
        return Kafka(topic, servers=kafka_server.servers, **{"create": 2, "wait": 30, **options})

    return make


def test_a_batch_that_is_delivered_again_is_there_once(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    out = sink()
    program = Program(name, out)
    for batch in (0, 1, 1, 0, 2):
        program.deliver(batch, (out, rows(batch)))
    again = Program(name, out, last=2, uncertain=True)
    for batch in (2, 3):
        again.deliver(batch, (out, rows(batch)))
    assert values(kafka_server.consume(name)) == Counter((batch, row) for batch in range(4) for row in range(3))


def test_queries_of_one_cluster_share_a_transaction(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    a, b = sink(f"{name}-a", key="row", headers=True), sink(f"{name}-b", format="avro")
    program = Program(name, a, b)
    too_large = pa.record_batch({"text": ["x" * 3_000_000]})
    with pytest.raises(clash.SinkError, match="does not take the results") as caught:
        program.deliver(0, (a, rows(0)), (b, too_large))
    assert "message.max.bytes" in caught.value.hint
    assert kafka_server.consume(a.topic) == []
    program.deliver(0, (a, rows(0)), (b, rows(0)))
    first = sorted(kafka_server.consume(a.topic), key=lambda message: message.key())
    assert [message.key() for message in first] == [b"0", b"1", b"2"]
    assert first[0].headers() == [("clash-query", b"q0"), ("clash-batch", b"0")]
    reader = AvroReader(avro_schema(rows(0).schema))
    found = [reader.read(message.value()) for message in kafka_server.consume(b.topic)]
    assert sorted(each["row"] for each in found) == [0, 1, 2]
    assert all(message.headers() is None for message in kafka_server.consume(b.topic))


def test_a_program_that_was_taken_over_writes_nothing(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    out = sink()
    first = Program(name, out)
    first.deliver(0, (out, rows(0)))
    second = Program(name, out, last=0)
    with pytest.raises(clash.SinkError, match="another run has taken over a sink"):
        first.deliver(1, (out, rows(1)))
    second.deliver(1, (out, rows(1)))
    with pytest.raises(clash.SinkError, match="another run has taken over a sink"):
        first.deliver(1, (out, rows(1)))
    second.deliver(2, (out, rows(2)))
    assert values(kafka_server.consume(name)) == Counter((batch, row) for batch in range(3) for row in range(3))


def test_a_transaction_that_took_too_long_is_repeated(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    """The broker ends it and the producer's session: that is not another program."""
    out = sink(options={"transaction.timeout.ms": 1000})
    program = Program(name, out)
    attempts = []

    def read() -> Iterable[pa.RecordBatch]:
        attempts.append(1)
        yield rows(0)
        if len(attempts) == 1:
            program.deliveries._all[out.system].target._producer.flush()  # type: ignore[attr-defined]
            time.sleep(3)
        yield rows(1)

    program.deliveries.deliver(0, [Output("q", out, rows(0).schema, 6, read)])
    assert len(attempts) == 2
    assert values(kafka_server.consume(name)) == Counter((batch, row) for batch in range(2) for row in range(3))


def test_a_lost_marker_is_refused_unless_the_last_batch_is_over(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    out = sink()
    Program(name, out).deliver(0, (out, rows(0)))

    def lose() -> None:
        kafka_server.delete(f"clash-{name}")

    lose()
    with pytest.raises(clash.CheckpointError, match="lost the number of its last batch") as caught:
        Program(name, out, last=0, uncertain=True)
    assert "batch 0" in caught.value.detail
    Program(name, sink(lost_marker="skip"), last=0, uncertain=True).deliver(0, (out, rows(0)))
    lose()
    Program(name, out, last=0).deliver(1, (out, rows(1)))
    assert values(kafka_server.consume(name)) == Counter((batch, row) for batch in range(2) for row in range(3))
    lose()
    Program(name, sink(lost_marker="repeat"), last=1, uncertain=True).deliver(1, (out, rows(1)))
    assert values(kafka_server.consume(name))[1, 0] == 2


def test_an_older_checkpoint_is_refused(sink: Callable[..., Kafka], name: str) -> None:
    out = sink()
    Program(name, out).deliver(5, (out, rows(5)))
    with pytest.raises(clash.CheckpointError, match="batches that the checkpoint does not have") as caught:
        Program(name, out, last=4)
    assert "batch 5" in caught.value.detail


def test_a_topic_that_is_missing_is_named(sink: Callable[..., Kafka], name: str) -> None:
    with pytest.raises(clash.SinkError, match="a topic does not exist") as caught:
        Program(name, sink(create=None))
    assert name in caught.value.detail
    assert "create=3" in caught.value.hint


def test_results_that_are_gone_are_not_taken_for_none(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    out = sink()
    program = Program(name, out)
    with pytest.raises(clash.SinkError, match="no longer there"):
        program.deliveries.deliver(0, [Output("q", out, rows(0).schema, 5, lambda: iter([rows(0)]))])
    program.deliver(0, (out, rows(0)))
    assert values(kafka_server.consume(name)).total() == 3


def test_one_cluster_has_one_name_and_one_set_of_options(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    secret = sink(options={"client.id": "a", "sasl.password": "secret-word"})
    with pytest.raises(clash.OptionError, match="different options") as caught:
        Program(name, sink(), secret)
    assert "client.id, sasl.password" in caught.value.detail
    assert "secret-word" not in str(caught.value) + repr(secret)
    port = kafka_server.servers.rpartition(":")[2]
    with pytest.raises(clash.OptionError, match="name one system differently"):
        Program(name, sink(), Kafka(name, servers=f"localhost:{port}"))


def test_a_broker_that_is_away_is_waited_for_and_then_named(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    out, patient = sink(wait=3), sink()
    program = Program(name, out)
    program.deliver(0, (out, rows(0)))
    kafka_server.kill()
    try:
        with pytest.raises(clash.SinkError, match="a sink does not answer") as caught:
            program.deliver(1, (out, rows(1)))
        assert caught.value.hint == "the results are committed; a new start hands them over"
        assert out.servers in caught.value.detail
    finally:
        kafka_server.start()
    again = Program(name, patient, last=1, uncertain=True)
    again.deliver(1, (patient, rows(1)))
    assert values(kafka_server.consume(name)) == Counter((batch, row) for batch in range(2) for row in range(3))


def test_a_program_that_is_killed_around_the_transaction(kafka_server: KafkaServer, tmp_path: Path, name: str) -> None:
    kills = Kills(tmp_path, kafka_server, name, seed=1)
    for kind in (*POINTS, "any", "early", "in-transaction"):
        kills.kill(kind)
    kills.check(kills.finish())


def test_memory_does_not_grow_with_a_batch(kafka_server: KafkaServer, sink: Callable[..., Kafka], name: str) -> None:
    """Half a gigabyte of messages in one transaction, with a queue of 64 MB."""
    out, pieces = sink(options={"compression.type": "lz4"}), 120
    program = Program(name, out)
    piece = pa.record_batch({"batch": pa.array([0] * 4096), "row": pa.array(range(4096)), "text": ["x" * 1000] * 4096})
    program.deliver(0, (out, piece))
    before = resident()
    most = 0

    def read() -> Iterable[pa.RecordBatch]:
        nonlocal most
        for _ in range(pieces):
            most = max(most, resident())
            yield piece

    program.deliveries.deliver(1, [Output("q", out, piece.schema, pieces * len(piece), read)])
    assert most - before < 250_000_000
    ends = kafka_server.ends(name)
    assert sum(ends.values()) > pieces * len(piece)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
