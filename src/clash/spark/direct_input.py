"""What a task reads by itself, in place of Spark: files, and records of Kafka. Tasks load it, so it loads nothing of Spark SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clash.kafka.stream_records import TopicSlice, read_records
from clash.protocol.arrivals import Arrival
from clash.protocol.batch import BatchSpec
from clash.spark.parquet_reader import FileReads, FileSlices, read_slices

KafkaSlices = Sequence[tuple[TopicSlice, ...]]  # by task


@dataclass(frozen=True)
class DirectInput:
    """The input of a batch, divided among its tasks."""

    files: Sequence[FileSlices]
    reads: FileReads
    kafka: KafkaSlices

    def read(self, part: int, spec: BatchSpec) -> Iterator[Arrival]:
        """What the task with this number reads."""
        yield from read_slices(self.files[part], self.reads, spec.batch)
        yield from read_topics(self.kafka, part, spec)


def read_topics(slices: KafkaSlices, part: int, spec: BatchSpec) -> Iterator[Arrival]:
    for piece in slices[part]:
        yield from read_records(piece, spec.timezone)
