"""The broker that tests of Kafka use keeps what it has acknowledged, also when it is killed."""

from __future__ import annotations

from pathlib import Path

from tests.servers import KafkaServer


def test_a_broker_that_is_killed_has_its_topics_and_records_again(tmp_path: Path) -> None:
    kafka = KafkaServer(tmp_path, session=3)
    kafka.start()
    try:
        kafka.create("t", partitions=2)
        kafka.produce("t", ["a", {"value": b"b", "key": b"k", "partition": 1, "timestamp": 5, "headers": [("h", b"x")]}])
        kafka.kill()
        kafka.start()
        kafka.add_partitions("t", 3)
        kafka.produce("t", [None])
        messages = kafka.consume("t")
        assert sorted(str(message.value()) for message in messages) == ["None", "b'a'", "b'b'"]
        keyed = next(message for message in messages if message.value() == b"b")
        assert (keyed.key(), keyed.partition(), keyed.timestamp()[1], keyed.headers()) == (b"k", 1, 5, [("h", b"x")])
    finally:
        kafka.stop()
