"""A job whose results go to Kafka, killed around the transaction: the topics have each result once, as DuckDB has them."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from tests.servers import KafkaServer

from clash.state import failpoints

from .kafka_kills import POINTS, TRANSACTION, KafkaKills


def test_all_points_are_played() -> None:
    assert set(TRANSACTION) == {name for name in failpoints.NAMES if name.endswith("-transaction")}
    assert set(POINTS) < failpoints.NAMES


@pytest.mark.slow  # test_kafka_pipeline.py kills it, too
def test_the_driver_is_killed_around_the_transaction(kafka_server: KafkaServer, tmp_path: Path) -> None:
    kills = KafkaKills(tmp_path, kafka_server, uuid4().hex[:12])
    for point in TRANSACTION[1:]:  # the first is played without Spark, as all are: tests/delivery
        kills.kill(point)
    kills.finish()
    kills.check()


@pytest.mark.slow
def test_everything_is_killed(java: None, tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    server = KafkaServer(tmp_path / "kafka")
    server.start()
    try:
        kills = KafkaKills(tmp_path, server, "kills", seed=3)
        for kind in (*POINTS, "any", "broker", "any", "any"):
            kills.kill(kind)
        kills.finish()
        kills.check()
    finally:
        server.kill()
