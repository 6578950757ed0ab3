"""Reads ranges of offsets from Kafka, with one client per process, which is kept from batch to batch.

Invariant: every record of a range that Kafka has is returned once, in the order of its partition, whatever was read before. The client
fetches ahead: records after the range of a batch are held for the next one, which begins there in most cases; where it does not, the client
seeks. A partition whose next offset is at the end of its range, by a record or by Kafka's word that there is none before it, is done.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clash.errors import SourceError
from clash.kafka.client_options import Options, for_librdkafka
from clash.kafka.offset_ranges import OffsetRange

PATIENCE = 60.0  # seconds without a record, after which a batch fails
_AT_ONCE = 10_000  # records
_MAX_HELD = 20_000  # records of a partition that the batch does not read
_WAIT = 0.2  # seconds
_REPEATED = "a new start repeats the batch, when Kafka can be read again"
_SETTINGS: Mapping[str, Any] = {
    "group.id": "clash",  # required; no group is joined, and no offset committed
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 5,
    "queued.max.messages.kbytes": 32_768,
    "reconnect.backoff.max.ms": 1000,
    "log_level": 2,
}
Place = tuple[str, int]  # topic and partition
_readers: dict[Options, _Reader] = {}


class Missing(NamedTuple):
    """Offsets of a range that Kafka does not have any more."""

    topic: str
    partition: int
    start: int
    end: int
    """The first offset after them."""
    is_new: bool
    """As in the range."""


def read_ranges(options: Options, ranges: Sequence[OffsetRange], patience: float = PATIENCE) -> Iterator[list[Any] | Missing]:
    """Lists of messages, each of one partition, and what is missing. SourceError if Kafka does not answer, or a topic is gone."""
    if options not in _readers:
        _readers[options] = _Reader(options)
    reader = _readers[options]
    try:
        yield from reader.read(ranges, patience)
    except BaseException:
        del _readers[options]  # its state is unknown
        reader.close()
        raise


class _Partition:
    """A partition that is assigned to the client, from an offset on."""

    def __init__(self, offset: int) -> None:
        self.next = offset
        """The offset that follows what was returned."""
        self.held: deque[Any] = deque()
        """Records from there on, in order."""
        self.end = offset
        """Kafka has said that there are no records before it, beside those that were returned or are held."""
        self.is_paused = self.is_misplaced = False

    def take(self, end: int) -> list[Any]:
        """The held records before `end`."""
        records: list[Any] = []
        if self.held and self.held[-1].offset() < end:
            records = list(self.held)
            self.held.clear()
        while self.held and self.held[0].offset() < end:
            records.append(self.held.popleft())
        if records:
            self.next = records[-1].offset() + 1
        if self.held:
            self.next = max(self.next, end)
        self.next = max(self.next, min(self.end, end))
        return records


class _Reader:
    """The client of this process."""

    def __init__(self, options: Options) -> None:
        from confluent_kafka import Consumer

        self._last_problem = ""
        self._consumer = Consumer({**_SETTINGS, **for_librdkafka(options), "error_cb": self._note_problem})
        self._partitions: dict[Place, _Partition] = {}

    def _note_problem(self, error: Any) -> None:
        self._last_problem = str(error.str())

    def close(self) -> None:
        self._consumer.close()

    def read(self, ranges: Sequence[OffsetRange], patience: float) -> Iterator[list[Any] | Missing]:
        wanted: dict[Place, OffsetRange] = {}
        for each in ranges:
            if each.end < each.start:  # the topic was deleted and made again: what it has is new
                yield Missing(each.topic, each.partition, each.end, each.start, is_new=False)
                each = OffsetRange(each.topic, each.partition, 0, each.end, is_new=True)
            wanted[each.topic, each.partition] = each
        self._assign(wanted)
        progressed = time.monotonic()
        while True:
            for place, each in list(wanted.items()):
                partition = self._partitions[place]
                records = partition.take(each.end)
                if records:
                    yield records
                if partition.next >= each.end:
                    del wanted[place]
            if not wanted:
                return
            if self._fetch(wanted):
                progressed = time.monotonic()
            for place in [place for place in wanted if self._partitions[place].is_misplaced]:
                yield from self._replace(place, wanted[place])
                progressed = time.monotonic()
            if time.monotonic() - progressed > patience:
                topic, number = next(iter(wanted))
                where = f"topic {topic}, partition {number}, offset {self._partitions[topic, number].next}"
                problem = f"; {self._last_problem}" if self._last_problem else ""
                raise SourceError("Kafka does not answer", f"{where}: no record for {patience:g} s{problem}", _REPEATED)

    def _assign(self, wanted: Mapping[Place, OffsetRange]) -> None:
        for place, each in wanted.items():
            partition = self._partitions.get(place)
            if partition is None or partition.next != each.start:
                self._move(place, each.start)
            elif partition.is_paused:
                self._consumer.resume([_topic_partition(place)])
                partition.is_paused = False

    def _move(self, place: Place, offset: int) -> None:
        """Assigns a partition anew: unlike a seek, that does not need a partition that is being fetched."""
        before = self._partitions.get(place)
        if before is not None:
            if before.is_paused:
                self._consumer.resume([_topic_partition(place)])  # otherwise it stays paused when it is assigned again
            self._consumer.incremental_unassign([_topic_partition(place)])
        self._consumer.incremental_assign([_topic_partition(place, offset)])
        self._partitions[place] = _Partition(offset)

    def _fetch(self, wanted: Mapping[Place, OffsetRange]) -> bool:
        """Holds what arrives; whether anything did. A call with a timeout waits for as many records as it asks for."""
        messages = self._consumer.consume(1, _WAIT)
        if messages:
            messages += self._consumer.consume(_AT_ONCE, 0)
        for message in messages:
            place: Place = (str(message.topic()), int(message.partition() or 0))
            partition = self._partitions.get(place)
            if partition is None:
                continue
            if message.error() is not None:
                self._note_event(partition, place, message)
                continue
            partition.held.append(message)
            if place not in wanted and len(partition.held) > _MAX_HELD and not partition.is_paused:
                self._consumer.pause([_topic_partition(place)])
                partition.is_paused = True
        return bool(messages)

    def _note_event(self, partition: _Partition, place: Place, message: Any) -> None:
        from confluent_kafka import KafkaError

        code = message.error().code()
        if code == KafkaError._PARTITION_EOF:
            partition.end = max(partition.end, message.offset())
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            partition.is_misplaced = True
        else:
            self._last_problem = str(message.error().str())
            gone = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
            if code in (*gone, KafkaError.TOPIC_AUTHORIZATION_FAILED):
                raise SourceError("a Kafka topic cannot be read", f"topic {place[0]}: {self._last_problem}", _REPEATED)

    def _replace(self, place: Place, each: OffsetRange) -> Iterator[Missing]:
        """Goes on at the first offset that Kafka has, if there is one before the end of the range."""
        low, high = self._consumer.get_watermark_offsets(_topic_partition(place), timeout=PATIENCE)
        at = self._partitions[place].next
        first = min(low, each.end) if low > at else each.end if at > high else at
        if first > at:
            yield Missing(*place, at, first, each.is_new)
        self._move(place, first)


def _topic_partition(place: Place, *offset: int) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(place[0], place[1], *offset)  # type: ignore[arg-type]
