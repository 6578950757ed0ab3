"""What tests do with the topics of a Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class KafkaClients:
    """Clients without security. Topics are made by `create` alone, with a copy on each broker."""

    servers: str
    brokers = 1

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers})

    def create(self, *topics: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        from confluent_kafka.admin import NewTopic

        new = [NewTopic(topic, num_partitions=partitions, replication_factor=self.brokers, config=dict(config or {})) for topic in topics]
        admin = self.admin()  # kept: what it is asked for ends with it
        for created in admin.create_topics(new).values():
            created.result(60)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """So many in all."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
        admin = self.admin()
        for done in admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=entries)]).values():
            done.result(60)

    def delete(self, topic: str) -> None:
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(60)

    def produce(self, topic: str, values: Iterable[bytes | str | dict[str, Any] | None]) -> None:
        """Values, or the arguments of `Producer.produce` (value, key, partition, timestamp, headers). All are acknowledged at the end."""
        from confluent_kafka import Producer

        problems: list[Any] = []
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, "enable.idempotence": True})  # in order, also after a retry
        for value in values:
            record = value if isinstance(value, dict) else {"value": value}
            while True:
                try:
                    producer.produce(topic, **record, on_delivery=lambda error, _: problems.append(error) if error else None)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0
        assert not problems, problems[0]

    def begins(self, topic: str) -> dict[int, int]:
        """By partition, the offset of the first record."""
        return {partition: low for partition, (low, _) in self._watermarks(topic).items()}

    def ends(self, topic: str) -> dict[int, int]:
        """By partition, the offset after the last committed record."""
        return {partition: high for partition, (_, high) in self._watermarks(topic).items()}

    def _watermarks(self, topic: str) -> dict[int, tuple[int, int]]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "tests", "isolation.level": "read_committed"})
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        found = {partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), 60) for partition in partitions}
        consumer.close()
        return found

    def consume(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """All messages of the topic, up to its present end."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        options = {"group.id": "tests", "enable.auto.commit": False, "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.servers, **options})
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        messages: list[Any] = []
        open_partitions = set(partitions)
        while open_partitions:
            for message in consumer.consume(10_000, 1):
                if message.error() is None:
                    messages.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise AssertionError(message.error())
        consumer.close()
        return messages
