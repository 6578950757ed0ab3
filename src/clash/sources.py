"""Sources: where streams come from, beside streaming DataFrames of Spark's."""

from __future__ import annotations

from clash.spark.kafka_source import Kafka, KafkaStream

__all__ = ["Kafka", "KafkaStream"]
