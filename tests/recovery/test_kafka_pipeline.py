"""From Kafka to Kafka through kill -9 of the driver, of a Python worker, of an executor and of the broker: every result once."""

from __future__ import annotations

from pathlib import Path

from tests.servers import KafkaServer

from .pipeline_kills import CLUSTER, PipelineKills


def test_every_result_once_through_kills(java: None, kafka_server: KafkaServer, tmp_path: Path) -> None:
    kills = PipelineKills(tmp_path, kafka_server, 1)
    kills.live(kills.process(CLUSTER), ["executor", "worker", "broker", "driver"])
    kills.finish(kills.process())
