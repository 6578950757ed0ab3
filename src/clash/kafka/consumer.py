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
from clash.kafka.client_problems import ClientProblems
from clash.kafka.offset_ranges import OffsetRange

PATIENCE = 60.0  # seconds without a record, after which a batch fails
_AT_ONCE = 10_000  # records
_MAX_HELD = 32 << 20  # bytes of partitions that the batch does not read; fetching of more is paused
_MAX_UNUSED = 50  # batches after which a partition that none of them reads is not fetched any more
_MAX_CLIENTS = 4  # of a process; the one that was used least recently is closed
_STALLED = 5.0  # seconds without a record, after which it is checked whether there are any
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
    reader = _readers.pop(options, None) or _Reader(options)
    _readers[options] = reader  # the last one is the one that was used last
    while len(_readers) > _MAX_CLIENTS:
        _readers.pop(next(iter(_readers))).close()
    try:
        yield from reader.read(ranges, patience)
    except BaseException:
        _readers.pop(options, None)  # its state is unknown
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
        self.short_end: int | None = None
        """Where the partition ended when that was last asked for, because the batch did not get on."""
        self.unused = 0
        """Batches since one has read the partition."""

    @property
    def held_bytes(self) -> int:
        return sum(map(len, self.held))

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

        self._problems = ClientProblems()
        self._consumer = Consumer({**_SETTINGS, **for_librdkafka(options), "error_cb": self._problems.note})
        self._partitions: dict[Place, _Partition] = {}

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
        progressed = checked = time.monotonic()
        while True:
            for place, each in list(wanted.items()):
                partition = self._partitions[place]
                records = partition.take(each.end)
                if records:
                    yield records
                if partition.is_misplaced and partition.next < each.end:
                    yield from self._replace(place, each)
                    progressed = time.monotonic()
                if self._partitions[place].next >= each.end:
                    del wanted[place]
            if not wanted:
                return
            if self._fetch(wanted):
                progressed = checked = time.monotonic()
            if time.monotonic() - checked > min(_STALLED, patience):
                checked = time.monotonic()
                yield from self._beyond_end(wanted)
            if wanted and time.monotonic() - progressed > patience:
                topic, number = next(iter(wanted))
                where = f"topic {topic}, partition {number}, offset {self._partitions[topic, number].next}"
                problem = f"; {self._problems.text}" if self._problems.text else ""
                raise SourceError("Kafka does not answer", f"{where}: no record for {patience:g} s{problem}", _REPEATED)

    def _beyond_end(self, wanted: dict[Place, OffsetRange]) -> Iterator[Missing]:
        """What is missing because the partition ends before the range does: the topic was made again, or has lost its last records. Such
        ranges are not wanted any more. Raises if the topic is gone."""
        from confluent_kafka import KafkaException

        for place, each in list(wanted.items()):
            try:
                topic = self._consumer.list_topics(place[0], timeout=_STALLED).topics.get(place[0])
                if topic is None or topic.error is not None or place[1] not in topic.partitions:
                    detail = f"topic {place[0]}, partition {place[1]}: it does not exist any more"
                    raise SourceError("a Kafka topic cannot be read", detail, _REPEATED)
                _, high = self._consumer.get_watermark_offsets(_topic_partition(place), timeout=_STALLED)
            except KafkaException as error:
                self._problems.note(error.args[0])
                return
            partition = self._partitions[place]
            partition.short_end, before = high, partition.short_end
            if high < each.end and high == before:  # a leader that has just started may not know its end yet
                yield Missing(*place, max(high, partition.next), each.end, each.is_new)
                self._unassign(place)
                del wanted[place]

    def _assign(self, wanted: Mapping[Place, OffsetRange]) -> None:
        for place, partition in list(self._partitions.items()):
            partition.unused = 0 if place in wanted else partition.unused + 1
            if partition.unused > _MAX_UNUSED:
                self._unassign(place)
        for place, each in wanted.items():
            known = self._partitions.get(place)
            if known is None or known.next != each.start or known.is_misplaced:
                self._move(place, each.start)
            elif known.is_paused:
                self._consumer.resume([_topic_partition(place)])
                known.is_paused = False

    def _move(self, place: Place, offset: int) -> None:
        """Assigns a partition anew: unlike a seek, that does not need a partition that is being fetched."""
        if place in self._partitions:
            self._unassign(place)
        self._consumer.incremental_assign([_topic_partition(place, offset)])
        self._partitions[place] = _Partition(offset)

    def _unassign(self, place: Place) -> None:
        if self._partitions.pop(place).is_paused:
            self._consumer.resume([_topic_partition(place)])  # otherwise it stays paused when it is assigned again
        self._consumer.incremental_unassign([_topic_partition(place)])

    def _fetch(self, wanted: Mapping[Place, OffsetRange]) -> bool:
        """Holds what arrives; whether the batch gets on by it. A call with a timeout waits for as many records as it asks for."""
        messages = self._consumer.consume(1, _WAIT)
        if messages:
            messages += self._consumer.consume(_AT_ONCE, 0)
        found = False
        for message in messages:
            place: Place = (str(message.topic()), int(message.partition() or 0))
            partition = self._partitions.get(place)
            if partition is None:
                continue
            if message.error() is not None:
                self._note_event(partition, place, message)
                found = found or (place in wanted and partition.end >= wanted[place].end)
            else:
                partition.held.append(message)
                found = found or place in wanted
        self._limit_held(wanted)
        return found

    def _limit_held(self, wanted: Mapping[Place, OffsetRange]) -> None:
        held = {place: partition for place, partition in self._partitions.items() if place not in wanted and partition.held}
        if sum(partition.held_bytes for partition in held.values()) <= _MAX_HELD:
            return
        for place, partition in held.items():
            if not partition.is_paused:
                self._consumer.pause([_topic_partition(place)])
                partition.is_paused = True

    def _note_event(self, partition: _Partition, place: Place, message: Any) -> None:
        from confluent_kafka import KafkaError

        code = message.error().code()
        if code == KafkaError._PARTITION_EOF:
            partition.end = max(partition.end, message.offset())
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            partition.is_misplaced = True
        else:
            self._problems.note(message.error())
            gone = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
            if code in (*gone, KafkaError.TOPIC_AUTHORIZATION_FAILED):
                raise SourceError("a Kafka topic cannot be read", f"topic {place[0]}: {message.error().str()}", _REPEATED)

    def _replace(self, place: Place, each: OffsetRange) -> Iterator[Missing]:
        """Goes on at the first offset that Kafka has, if there is one before the end of the range."""
        from confluent_kafka import KafkaException

        try:
            low, high = self._consumer.get_watermark_offsets(_topic_partition(place), timeout=PATIENCE)
        except KafkaException as error:
            detail = f"topic {place[0]}, partition {place[1]}: {error.args[0].str()}"
            raise SourceError("Kafka does not answer", detail, _REPEATED) from None
        at = self._partitions[place].next
        first = min(low, each.end) if low > at else each.end if at > high else at
        if first > at:
            yield Missing(*place, at, first, each.is_new)
        self._move(place, first)


def _topic_partition(place: Place, *offset: int) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(place[0], place[1], *offset)  # type: ignore[arg-type]
