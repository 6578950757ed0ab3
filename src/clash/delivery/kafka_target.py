"""A Kafka cluster as a target: one transactional producer, whose transactions hold the results of a batch and its number.

The number is a message in a topic of the checkpoint's own, with one partition, which is created if it does not exist. The offset of a
consumer group could be part of the transaction as well, without a topic, but offsets expire (`offsets.retention.minutes`, a week), and
the client's call for them has no time limit that holds when a broker goes away (librdkafka issues 5456 and 5511).

Invariant: `init_transactions` comes before the number is read: it ends what earlier producers of this transactional.id have left open,
and keeps them from committing anything afterwards. After any error there is a new producer.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

import pyarrow as pa

from clash.delivery.avro_rows import avro_rows
from clash.delivery.json_rows import json_rows
from clash.delivery.kafka_errors import explained
from clash.delivery.target import Destination, Output, RefusedError, UnavailableError, refuse_missing
from clash.errors import SinkError
from clash.expressions.value_to_text import format_values
from clash.kafka.client_problems import ClientProblems, request_topics
from clash.sinks import Kafka
from clash.state.failpoints import reach

_LOG = logging.getLogger("clash.kafka")  # what the client says: a user may lower its level; what matters is in our errors
if _LOG.level == logging.NOTSET:
    _LOG.setLevel(logging.CRITICAL)
_TIMEOUT = 10.0  # seconds of one call; `Deliveries` repeats it
_PAUSE = 0.1  # seconds before a call goes on
_DEFAULTS: Mapping[str, Any] = {
    "linger.ms": 5,
    "partitioner": "murmur2_random",  # as Java's producers: equal keys are in the same partition, from any client
    "queue.buffering.max.kbytes": 65_536,  # of memory for messages on their way; the batch waits when they are full
    "transaction.timeout.ms": 300_000,  # a driver that dies and is not started again holds up readers so long
}
_MARKER_TOPIC = {"cleanup.policy": "compact", "segment.ms": "86400000", "min.cleanable.dirty.ratio": "0.1"}  # it stays small
_TAIL = 64  # offsets from the end in which the marker most likely is
# What concerns the connection: the other clients that are needed beside the producer get nothing else.
_CONNECTION = (
    "security.",
    "sasl.",
    "ssl.",
    "socket.",
    "broker.",
    "client.",
    "enable.ssl",
    "oauth_cb",
    "api.version",
    "https.",
    "reconnect.",
)


class KafkaTarget:
    def __init__(self, sink: Kafka, checkpoint: str, timezone: str, stopping: Event) -> None:
        self.stopping = stopping
        self.name = sink.system
        self.identity: str | None = None
        self._id, self._timezone = f"clash-{checkpoint}", timezone
        self.marker_place = f"topic {self._id}"
        self._options = {"bootstrap.servers": sink.servers, **sink.options}
        self._timeout = min(_TIMEOUT, max(1.0, sink.wait_seconds))
        self._commit_timeout = min(6 * _TIMEOUT, max(1.0, sink.wait_seconds))
        self._problems = ClientProblems()
        self._producer: Any = None
        self._admin_client: Any = None

    # ---- topics ------------------------------------------------------------------------------------------------

    def prepare(self, destinations: Sequence[Destination[Kafka]]) -> None:
        sinks = [destination.sink for destination in destinations]
        with self._explained():
            found = request_topics(self._admin(), self._problems, self._timeout)
        self.identity = found.cluster_id
        existing = {name for name, topic in found.topics.items() if topic.error is None}
        for sink in sinks:
            if sink.topic not in existing and sink.create is None:
                raise SinkError(
                    "a topic does not exist",
                    f"{sink.topic} at {self.name}",
                    "create it, or write create=3 in clash.sinks.Kafka to have it created with three partitions",
                )
        partitions = {sink.topic: sink.create for sink in sinks if sink.create is not None}
        self._create({topic: number for topic, number in partitions.items() if topic not in existing}, {})
        if self._id not in existing:
            self._create({self._id: 1}, _MARKER_TOPIC)

    def _create(self, topics: Mapping[str, int], config: Mapping[str, str]) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.cimpl import NewTopic

        if not topics:
            return
        new = [NewTopic(topic, num_partitions=partitions, config=dict(config)) for topic, partitions in topics.items()]
        for topic, created in self._admin().create_topics(new).items():
            try:
                with self._explained():
                    created.result(self._timeout)
            except RefusedError as error:
                raise RefusedError(f"topic {topic} cannot be created: {error.detail}", f"create it by hand, or {error.hint}") from error
            except UnavailableError as error:
                known = error.__cause__
                if not isinstance(known, KafkaException) or known.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    # ---- the marker --------------------------------------------------------------------------------------------

    def owner(self) -> str | None:
        found = self._marker()
        return None if found is None else found[1]

    def open(self) -> int | None:
        from confluent_kafka import Producer

        self.close()
        self._problems = ClientProblems()
        settings = {**_DEFAULTS, **self._options, "transactional.id": self._id, "error_cb": self._note}
        with self._explained():
            self._producer = Producer(settings, logger=_LOG)
            self._resume(self._producer.init_transactions, self._timeout)
        found = self._marker()
        return None if found is None else found[0]

    def _marker(self) -> tuple[int, str] | None:
        """The last batch, and the session that wrote it: the last committed message. It is looked for from the end of the topic, which may
        have ends of transactions and messages of aborted ones behind it."""
        from confluent_kafka import Consumer, TopicPartition

        with self._explained():
            settings = {
                "group.id": self._id,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
            consumer = Consumer({**self._connection(), **settings, "error_cb": self._note}, logger=_LOG)
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(self._id, 0), self._timeout)
                back = _TAIL
                while True:
                    first = max(low, high - back)
                    last = self._read_last(consumer, TopicPartition(self._id, 0, first), high)
                    if last is not None:
                        marker = json.loads(last)
                        return int(marker["batch"]), str(marker["session"])
                    if first == low:
                        return None
                    back *= 16
            finally:
                consumer.close()

    def _read_last(self, consumer: Any, begin: Any, end: int) -> bytes | None:
        """The last committed message from an offset on."""
        from confluent_kafka import KafkaError, KafkaException

        if begin.offset >= end:
            return None
        consumer.assign([begin])
        last: bytes | None = None
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                problem = message.error()
                if problem is None:
                    last = message.value()
                elif problem.code() == KafkaError._PARTITION_EOF:
                    return last
                else:
                    raise KafkaException(problem)
        raise UnavailableError(f"its marker cannot be read{self._problem}")

    # ---- a transaction -----------------------------------------------------------------------------------------

    def write(self, batch: int, outputs: Sequence[Output[Kafka]], session: str) -> None:
        with self._explained():
            self._producer.begin_transaction()
            for output in outputs:
                self._produce(batch, output)
            if outputs:
                reach("in-transaction")
            self._send(self._id, json.dumps({"batch": batch, "session": session}).encode(), b"batch", None)
            self._resume(self._producer.commit_transaction, self._commit_timeout)

    def _resume(self, call: Callable[[float], None], timeout: float) -> None:
        """A call that goes on where it was after an error that the client calls retriable: its time is over, or the coordinator of the
        transaction has moved or is still loading. In short pieces: the run may be stopped meanwhile."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + timeout
        while True:
            try:
                call(1.0)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or self.stopping.is_set() or time.monotonic() > deadline:
                    raise
                self.stopping.wait(_PAUSE)

    def _produce(self, batch: int, output: Output[Kafka]) -> None:
        sink, written = output.sink, 0
        headers = [("clash-query", output.query.encode()), ("clash-batch", str(batch).encode())] if sink.headers else None
        for rows in output.read():
            for value, key in zip(self._values(sink, rows), self._keys(sink, rows), strict=True):
                self._send(sink.topic, value, key, headers)
            written += len(rows)
        refuse_missing(output.query, batch, written, output.rows)

    def _send(self, topic: str, value: bytes, key: bytes | None, headers: Any) -> None:
        full_since: float | None = None
        while True:
            try:
                if headers is None:
                    self._producer.produce(topic, value, key)
                else:
                    self._producer.produce(topic, value, key, headers=headers)
                return
            except BufferError:  # the queue is full: results are read no faster than the broker takes them
                full_since = full_since or time.monotonic()
                if self.stopping.is_set() or time.monotonic() - full_since > self._timeout:
                    raise UnavailableError(f"it takes no messages{self._problem}") from None
                self._producer.poll(0.1)

    def _values(self, sink: Kafka, rows: pa.RecordBatch) -> list[bytes]:
        encoded = avro_rows(rows) if sink.format == "avro" else json_rows(rows, self._timezone).cast(pa.large_binary())
        values: list[bytes] = encoded.to_pylist()
        return values

    def _keys(self, sink: Kafka, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        if sink.key is None:
            return [None] * len(rows)
        keys: list[bytes | None] = key_texts(rows.column(sink.key), self._timezone).to_pylist()
        return keys

    def close(self) -> None:
        """Without waiting for the broker: an open transaction is ended by the next producer, or by the broker after a while."""
        if self._producer is not None:
            with suppress(Exception):
                self._producer.purge()
            self._producer = None

    # ---- connections -------------------------------------------------------------------------------------------

    def _connection(self) -> dict[str, Any]:
        return {name: value for name, value in self._options.items() if name == "bootstrap.servers" or name.startswith(_CONNECTION)}

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        if self._admin_client is None:
            settings: dict[str, Any] = {**self._connection(), "error_cb": self._note}
            with self._explained():
                self._admin_client = AdminClient(settings, logger=_LOG)
        return self._admin_client

    def _note(self, error: Any) -> None:
        self._problems.note(error)

    @property
    def _problem(self) -> str:
        return f" ({self._problems.text})" if self._problems.text else ""

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the client as those that `Deliveries` knows."""
        from confluent_kafka import KafkaException

        try:
            yield
        except TimeoutError as error:
            raise UnavailableError(f"no answer in time{self._problem}") from error
        except KafkaException as error:
            problem = "" if error.args[0] is self._problems.last else self._problem
            raise explained(error.args[0], problem) from error


def key_texts(values: pa.Array, timezone: str) -> pa.Array:
    """A column as keys: its text as a cast to STRING gives it, or its bytes."""
    kind = values.type
    if pa.types.is_binary(kind):
        return values
    if pa.types.is_decimal(kind):
        source = f"decimal({kind.precision},{kind.scale})"
    elif pa.types.is_floating(kind):
        source = "float" if pa.types.is_float32(kind) else "double"
    elif pa.types.is_timestamp(kind):
        source = "timestamp_ntz" if kind.tz is None else "timestamp"
    else:
        source = "date" if pa.types.is_date(kind) else "string"
    return format_values(values, source, timezone).cast(pa.binary())
