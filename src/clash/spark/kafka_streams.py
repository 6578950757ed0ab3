"""The streams of a Spark query that tasks read from Kafka: the offsets that Spark has assigned to a batch.

Invariant: only Spark decides about offsets. Here its decision is read from the plan of the batch, where a source is known by the ids of its
columns.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import Any

from clash.kafka.offset_ranges import OffsetRange, divide, ranges_between
from clash.kafka.stream_records import TopicRead, TopicSlice
from clash.spark.kafka_source import Kafka, KafkaStream
from clash.workers.loaded_plan import LoadedPlan


class KafkaBatch:
    """The records of a batch: by Kafka cluster its ranges, and what streams take of them."""

    def __init__(self, parts: list[tuple[Kafka, list[OffsetRange], Mapping[str, TopicRead]]]) -> None:
        self._parts = parts

    @property
    def rows(self) -> int:
        return sum(each.offsets for _, ranges, _ in self._parts for each in ranges)

    def slices(self, parts: int) -> list[tuple[TopicSlice, ...]]:
        """Divides the records evenly among `parts` tasks."""
        shares = [(source, divide(ranges, parts), reads) for source, ranges, reads in self._parts]
        return [
            tuple(TopicSlice(source.options, shared[part], reads, source.on_loss) for source, shared, reads in shares if shared[part])
            for part in range(parts)
        ]


class KafkaStreams:
    """`columns`: by stream, Spark's columns of its source, as text with their ids: what a leaf of a plan is known by."""

    def __init__(self, spark: Any, streams: Mapping[str, KafkaStream], columns: Mapping[str, str]) -> None:
        self.spark, self.streams, self.columns = spark, streams, columns

    def batch(self, plan: LoadedPlan) -> KafkaBatch:
        """The records of the streams of the plan in the batch that the calling thread, one of the Spark query's, works on."""
        identity = self.spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        leaves = self.spark._jsparkSession.streams().get(identity).streamingQuery().lastExecution().logical().collectLeaves()
        by_columns = {str(leaf.output()): leaf for leaf in (leaves.apply(at) for at in range(leaves.size()))}
        reads: dict[Kafka, dict[str, TopicRead]] = {}
        offsets: dict[Kafka, tuple[Any, Any]] = {}  # before and after the batch
        for name, stream in self.streams.items():
            if name not in plan.ingest:
                continue
            if stream.source not in offsets:
                offsets[stream.source] = _offsets(by_columns[self.columns[name]])
            reads.setdefault(stream.source, {})[name] = _topic_read(stream, plan, name)
        found: list[tuple[Kafka, list[OffsetRange], Mapping[str, TopicRead]]] = []
        for source, taken in reads.items():
            topics = dict.fromkeys(read.topic for read in taken.values())
            found.append((source, list(ranges_between(*offsets[source], topics)), taken))
        return KafkaBatch(found)


def _topic_read(stream: KafkaStream, plan: LoadedPlan, name: str) -> TopicRead:
    columns = tuple(column.name for column in plan.ingest[name].columns)
    return TopicRead(stream.topic, stream.format, stream.metadata, columns, plan.streams[name].time, stream.bad, stream.registry)


def _offsets(leaf: Any) -> tuple[Any, Any]:
    """What Spark has recorded for the source before and after the batch; nothing where the batch has none of it."""
    kind = str(leaf.getClass().getSimpleName())
    if kind == "LocalRelation":
        return {}, {}
    if not kind.startswith("StreamingDataSourceV2"):
        raise AssertionError(f"a source of Kafka is planned as {kind}")
    start, end = leaf.startOffset(), leaf.endOffset()
    return (json.loads(start.get().json()) if start.isDefined() else {}), json.loads(end.get().json())


def kafka_streams(frames: Mapping[str, Any], names: Container[str]) -> dict[str, KafkaStream]:
    return {name: frame for name, frame in frames.items() if name in names and isinstance(frame, KafkaStream)}
