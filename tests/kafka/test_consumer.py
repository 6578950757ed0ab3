"""Ranges of offsets, read from a real kafka_server: every record once, in order, whatever was read before; and what is missing."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
from tests.servers import KafkaServer

from clash.errors import SourceError
from clash.kafka import consumer
from clash.kafka.client_options import check_options
from clash.kafka.consumer import Missing, read_ranges
from clash.kafka.offset_ranges import OffsetRange, divide, ranges_between


def read(kafka_server: KafkaServer, *ranges: OffsetRange, patience: float = 30) -> list[Any]:
    """(topic, partition, offset, value) of each record, or what is missing."""
    found: list[Any] = []
    for each in read_ranges(check_options(kafka_server.servers, {}), ranges, patience):
        if isinstance(each, Missing):
            found.append(each)
        else:
            found += [(message.topic(), message.partition(), message.offset(), message.value().decode()) for message in each]
    return found


def filled(kafka_server: KafkaServer, topic: str, rows: int, partitions: int = 1) -> str:
    kafka_server.create(topic, partitions=partitions)
    kafka_server.produce(topic, [{"value": f"{at}", "partition": at % partitions} for at in range(rows)])
    return topic


def expected(topic: str, partitions: int, *ranges: OffsetRange) -> list[tuple[str, int, int, str]]:
    return [(topic, each.partition, at, f"{at * partitions + each.partition}") for each in ranges for at in range(each.start, each.end)]


def test_consecutive_repeated_and_jumping_ranges(kafka_server: KafkaServer) -> None:
    topic = filled(kafka_server, "ranges", 3000, 3)
    generator = random.Random(1)
    at = [0, 0, 0]
    for _ in range(25):
        batch: list[OffsetRange] = []
        for partition in range(3):
            if generator.random() < 0.2:  # a repeated batch, or one that another process has read before
                at[partition] = generator.randrange(0, 900)
            if generator.random() < 0.8:
                end = min(1000, at[partition] + generator.randrange(1, 60))
                if end > at[partition]:
                    batch.append(OffsetRange(topic, partition, at[partition], end))
                at[partition] = end
        assert sorted(read(kafka_server, *batch)) == sorted(expected(topic, 3, *batch))


def test_records_that_come_while_they_are_awaited(kafka_server: KafkaServer) -> None:
    topic = filled(kafka_server, "arriving", 10)
    assert len(read(kafka_server, OffsetRange(topic, 0, 0, 10))) == 10
    kafka_server.produce(topic, [f"{at}" for at in range(10, 20)])
    assert read(kafka_server, OffsetRange(topic, 0, 10, 15)) == expected(topic, 1, OffsetRange(topic, 0, 10, 15))
    assert read(kafka_server, OffsetRange(topic, 0, 15, 20)) == expected(topic, 1, OffsetRange(topic, 0, 15, 20))


def test_offsets_without_records(kafka_server: KafkaServer) -> None:
    """A transaction ends with a record of its own, which readers do not see; the end of a range may be there."""
    from confluent_kafka import Producer

    kafka_server.create("transactions")
    producer = Producer({"bootstrap.servers": kafka_server.servers, "transactional.id": "test-gaps"})
    producer.init_transactions(30)
    for at in range(3):
        producer.begin_transaction()
        producer.produce("transactions", f"{at}")
        producer.flush(30)
        if at == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    assert [row[2] for row in read(kafka_server, OffsetRange("transactions", 0, 0, 6))] == [0, 4]
    assert [row[2] for row in read(kafka_server, OffsetRange("transactions", 0, 0, 2))] == [0]
    assert read(kafka_server, OffsetRange("transactions", 0, 5, 6)) == []
    uncommitted: list[Any] = []
    options = check_options(kafka_server.servers, {"isolation.level": "read_uncommitted"})
    for each in read_ranges(options, [OffsetRange("transactions", 0, 0, 6)], 30):
        uncommitted += [message.offset() for message in each]
    assert uncommitted == [0, 2, 4]


def delete_before(kafka_server: KafkaServer, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition

    admin = kafka_server.admin()
    for deleted in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        deleted.result(30)


def test_what_kafka_has_deleted_is_missing(kafka_server: KafkaServer) -> None:
    topic = filled(kafka_server, "deleted", 100)
    delete_before(kafka_server, topic, 40)
    rest = expected(topic, 1, OffsetRange(topic, 0, 40, 60))
    assert read(kafka_server, OffsetRange(topic, 0, 20, 60)) == [Missing(topic, 0, 20, 40, False), *rest]
    assert read(kafka_server, OffsetRange(topic, 0, 10, 30)) == [Missing(topic, 0, 10, 30, False)]
    assert read(kafka_server, OffsetRange(topic, 0, 0, 60, is_new=True)) == [Missing(topic, 0, 0, 40, True), *rest]


def test_a_topic_that_was_made_again_has_new_records(kafka_server: KafkaServer) -> None:
    topic = filled(kafka_server, "made-again", 50)
    assert len(read(kafka_server, OffsetRange(topic, 0, 0, 50))) == 50
    kafka_server.delete(topic)
    for _ in range(100):
        if topic not in kafka_server.admin().list_topics(timeout=30).topics:
            break
        time.sleep(0.1)
    filled(kafka_server, topic, 5)
    consumer._readers.clear()
    found = read(kafka_server, OffsetRange(topic, 0, 50, 5))
    assert found == [Missing(topic, 0, 5, 50, False), *expected(topic, 1, OffsetRange(topic, 0, 0, 5))]


def test_a_broker_that_is_away_and_comes_back(kafka_server: KafkaServer) -> None:
    topic = filled(kafka_server, "away", 20)
    assert len(read(kafka_server, OffsetRange(topic, 0, 0, 10))) == 10
    kafka_server.kill()
    consumer._readers.clear()
    with pytest.raises(SourceError, match="Kafka does not answer") as caught:
        read(kafka_server, OffsetRange(topic, 0, 10, 20), patience=1)
    assert f"topic {topic}, partition 0, offset 10" in caught.value.detail
    kafka_server.start()
    assert len(read(kafka_server, OffsetRange(topic, 0, 10, 20))) == 10


def test_many_records(kafka_server: KafkaServer) -> None:
    topic = filled(kafka_server, "many", 120_000, 2)
    found = read(kafka_server, OffsetRange(topic, 0, 0, 60_000), OffsetRange(topic, 1, 0, 100))
    assert sorted(row[2] for row in found if row[1] == 0) == list(range(60_000))
    assert read(kafka_server, OffsetRange(topic, 1, 100, 60_000))[-1][2] == 59_999


def test_a_partition_that_was_fetched_far_ahead_and_is_read_elsewhere(kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetching of a partition is paused when too much of it is held; it goes on wherever the partition is read next."""
    monkeypatch.setattr(consumer, "_MAX_HELD", 10)
    topic = filled(kafka_server, "ahead", 40_000, 2)
    read(kafka_server, OffsetRange(topic, 0, 0, 10))
    read(kafka_server, OffsetRange(topic, 1, 0, 20_000), OffsetRange(topic, 0, 10, 20))  # meanwhile partition 0 is fetched ahead
    reader = consumer._readers[check_options(kafka_server.servers, {})]
    assert reader._partitions[topic, 0].is_paused
    assert reader._partitions[topic, 0].held_bytes < 2_000_000
    assert len(read(kafka_server, OffsetRange(topic, 0, 15_000, 20_000))) == 5_000
    read(kafka_server, OffsetRange(topic, 1, 0, 20_000), OffsetRange(topic, 0, 10, 20))
    assert len(read(kafka_server, OffsetRange(topic, 0, 20, 20_000))) == 19_980


def test_a_range_beyond_the_end_is_missing(kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "_STALLED", 1.0)
    topic = filled(kafka_server, "short", 60)
    rest = expected(topic, 1, OffsetRange(topic, 0, 50, 60))
    assert read(kafka_server, OffsetRange(topic, 0, 50, 100)) == [*rest, Missing(topic, 0, 60, 100, False)]
    kafka_server.produce(topic, [f"{at}" for at in range(60, 70)])
    assert len(read(kafka_server, OffsetRange(topic, 0, 60, 70))) == 10


def test_a_deleted_topic_is_named(kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "_STALLED", 1.0)
    topic = filled(kafka_server, "vanishing", 10)
    assert len(read(kafka_server, OffsetRange(topic, 0, 0, 10))) == 10
    kafka_server.delete(topic)
    with pytest.raises(SourceError, match="a Kafka topic cannot be read") as caught:
        read(kafka_server, OffsetRange(topic, 0, 10, 20))
    assert topic in caught.value.detail


def test_partitions_that_are_not_read_any_more_are_not_fetched(kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "_MAX_UNUSED", 3)
    topic = filled(kafka_server, "unused", 200, 2)
    read(kafka_server, OffsetRange(topic, 0, 0, 10))
    for at in range(0, 50, 10):
        read(kafka_server, OffsetRange(topic, 1, at, at + 10))
    assert (topic, 0) not in consumer._readers[check_options(kafka_server.servers, {})]._partitions
    assert len(read(kafka_server, OffsetRange(topic, 0, 10, 100))) == 90


@pytest.mark.parametrize("parts", [1, 2, 5, 40])
def test_ranges_are_divided_evenly_and_completely(parts: int) -> None:
    ranges = [OffsetRange("a", 0, 5, 18), OffsetRange("a", 1, 0, 1), OffsetRange("b", 0, 100, 120, is_new=True)]
    shares = divide(ranges, parts)
    sizes = [sum(each.offsets for each in share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert offsets(ranges) == offsets([each for share in shares for each in share])


def offsets(ranges: Sequence[OffsetRange]) -> list[tuple[str, int, int]]:
    return sorted((each.topic, each.partition, at) for each in ranges for at in range(each.start, each.end))


def test_ranges_between_offsets() -> None:
    start = {"a": {"0": 3, "1": 4, "2": 9}, "gone": {"0": 1}}
    end = {"a": {"0": 3, "1": 6, "10": 2, "2": 5, "11": 0}, "other": {"0": 7}}
    assert list(ranges_between(start, end, ["a"])) == [
        OffsetRange("a", 1, 4, 6),
        OffsetRange("a", 2, 9, 5),
        OffsetRange("a", 10, 0, 2, is_new=True),
    ]
