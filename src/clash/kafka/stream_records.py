"""Records of Kafka as rows of streams: decoded, or rejected with a reason.

Invariant: every record of a range is a row of each stream of its topic, or one of its rejected records; which of them depends on the
record and the stream's declaration alone, and not on what queries read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from clash.errors import SourceError
from clash.expressions.arrow_types import arrow_type
from clash.kafka.client_options import Options
from clash.kafka.consumer import Missing, read_ranges
from clash.kafka.offset_ranges import OffsetRange
from clash.protocol.arrivals import Arrival, Lost, Rejected
from clash.records import Decoded, RecordFormat, UnknownSchema, decode
from clash.records.schema_registry import schemas_from_registry

Bad = Literal["keep", "fail"]
OnLoss = Literal["fail", "continue"]
Metadata = Literal["key", "timestamp", "headers"]
METADATA_TYPES: Mapping[Metadata, str] = {
    "key": "binary", "timestamp": "timestamp", "headers": "array<struct<key:string,value:binary>>",
}  # fmt: skip
REJECTED_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("reason", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_formats: dict[RecordFormat, RecordFormat] = {}  # by declared format, the one with the schemas that were found since
_NO_TIME, _BAD_TIMESTAMP = "no event time", "its timestamp is out of range"
_MAX_MILLIS = ((1 << 63) - 1) // 1000  # whose microseconds are a 64-bit number


@dataclass(frozen=True)
class TopicRead:
    """What a stream takes of the records of its topic."""

    topic: str
    format: RecordFormat
    metadata: Mapping[str, Metadata]
    """By column of the stream that is not a field of the value, what it has of the record."""
    columns: tuple[str, ...]
    """The columns of the stream that are read, in order."""
    time: str | None
    """The column of the event time: a record without one is rejected."""
    bad: Bad
    registry: str | None = None
    """Where schemas are found that records name and the format does not have: the address of a schema registry."""


@dataclass(frozen=True)
class TopicSlice:
    """What a task reads of one cluster."""

    options: Options
    ranges: tuple[OffsetRange, ...]
    reads: Mapping[str, TopicRead]
    """By stream."""
    on_loss: OnLoss


def read_records(piece: TopicSlice, timezone: str) -> Iterator[Arrival]:
    """The rows of the streams, and what they have instead of rows."""
    streams: dict[str, list[str]] = {}
    for stream, read in piece.reads.items():
        streams.setdefault(read.topic, []).append(stream)
    for found in read_ranges(piece.options, piece.ranges):
        if isinstance(found, Missing):
            yield from _missing(found, streams[found.topic], piece.on_loss)
            continue
        for stream in streams[found[0].topic()]:
            yield from _rows(stream, piece.reads[stream], found, timezone)


def _missing(missing: Missing, streams: Sequence[str], on_loss: OnLoss) -> Iterator[Lost]:
    if missing.is_new:  # it was gone before this job knew the partition
        return
    if on_loss == "fail":
        raise SourceError(
            f"records of stream {streams[0]} are lost",
            f"topic {missing.topic}, partition {missing.partition}, offsets {missing.start} to {missing.end - 1}: Kafka has deleted them",
            'to go on without them, and have them counted, write clash.sources.Kafka(…, on_loss="continue")',
        )
    for stream in streams:
        yield Lost(stream, missing.end - missing.start)


def _rows(stream: str, read: TopicRead, messages: Sequence[Any], timezone: str) -> Iterator[Arrival]:
    decoded = _decoded(read, [message.value() for message in messages], timezone)
    reasons, accepted, columns = dict(decoded.rejected), decoded.accepted, dict(decoded.columns)
    if "timestamp" in read.metadata.values():
        outside = {at for at, message in enumerate(messages) if abs(message.timestamp()[1]) > _MAX_MILLIS} - reasons.keys()
        if outside:
            reasons |= dict.fromkeys(outside, _BAD_TIMESTAMP)
            numbers = np.arange(len(messages)) if accepted is None else accepted
            inside = np.flatnonzero(~np.isin(numbers, list(outside)))
            columns = {name: column.take(pa.array(inside)) for name, column in columns.items()}
            accepted = numbers[inside]
    kept = messages if accepted is None else [messages[at] for at in accepted.tolist()]
    for name, source in read.metadata.items():
        if name in read.columns or name == read.time:
            columns[name] = _metadata(source, kept)
    if read.time is not None and columns[read.time].null_count:
        without = np.flatnonzero(np.asarray(columns[read.time].is_null()))
        reasons |= dict.fromkeys((without if accepted is None else accepted[without]).tolist(), _NO_TIME)
        timed = np.flatnonzero(np.asarray(columns[read.time].is_valid()))
        columns = {name: column.take(pa.array(timed)) for name, column in columns.items()}
    if reasons:
        if read.bad == "fail":
            raise _bad_record(stream, messages[min(reasons)], reasons[min(reasons)])
        yield Rejected(stream, _rejected([(messages[at], reason) for at, reason in sorted(reasons.items())]))
    yield stream, pa.RecordBatch.from_arrays([columns[name] for name in read.columns], list(read.columns))


def _decoded(read: TopicRead, values: Sequence[bytes | None], timezone: str) -> Decoded:
    """Asks the registry for each schema that this process does not know yet."""
    while True:
        known = _formats.get(read.format, read.format)
        try:
            return decode(known, values, timezone)
        except UnknownSchema as unknown:
            if read.registry is None:
                raise
            found = schemas_from_registry(read.registry, ids=[unknown.id])
            _formats[read.format] = replace(known, registry=(*known.registry, *found))


def _metadata(source: Metadata, messages: Sequence[Any]) -> pa.Array:
    kind = arrow_type(METADATA_TYPES[source])
    if source == "key":
        return pa.array([message.key() for message in messages], kind)
    if source == "timestamp":
        return _timestamps(messages)
    headers = [[{"key": key, "value": value} for key, value in message.headers() or ()] for message in messages]
    return pa.array(headers, kind)


def _timestamps(messages: Sequence[Any]) -> pa.Array:
    """NULL for a record without one, or with one that is out of range."""
    found = [message.timestamp() for message in messages]  # kind, and milliseconds
    micros = [millis * 1000 if kind and abs(millis) <= _MAX_MILLIS else None for kind, millis in found]
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))


def _rejected(records: Sequence[tuple[Any, str]]) -> pa.RecordBatch:
    messages = [message for message, _ in records]
    arrays = [
        pa.array([message.topic() for message in messages], pa.string()),
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        _timestamps(messages),
        pa.array([reason for _, reason in records], pa.string()),
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=REJECTED_SCHEMA)


def _bad_record(stream: str, message: Any, reason: str) -> SourceError:
    return SourceError(
        f"a record of stream {stream} cannot be read",
        f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}: {reason}",
        'a record of Kafka cannot be changed: declare the stream with bad="keep" and start again, and run.rejected("'
        + stream
        + '") has it; or correct the schema',
    )
