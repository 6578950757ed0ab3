"""The input of a batch that tasks read by themselves, before it is known how many do."""

from __future__ import annotations

from dataclasses import dataclass

from clash.spark.direct_input import DirectInput, KafkaSlices
from clash.spark.kafka_streams import KafkaBatch
from clash.spark.parquet_reader import FileReads, ReadableFiles


@dataclass(frozen=True)
class DirectSource:
    files: ReadableFiles
    reads: FileReads
    kafka: KafkaBatch | None

    @property
    def rows(self) -> int:
        """About so many: Kafka's offsets need not all have records."""
        return self.files.rows + (0 if self.kafka is None else self.kafka.rows)

    def divided(self, parts: int) -> DirectInput:
        return DirectInput(self.files.slices(parts), self.reads, divided(self.kafka, parts))


def divided(kafka: KafkaBatch | None, parts: int) -> KafkaSlices:
    return [()] * parts if kafka is None else kafka.slices(parts)
