"""A broker of a cluster is killed: others lead its partitions, and the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.servers import KafkaCluster

from .kafka_join import KafkaJoin


def test_a_leader_is_killed(spark: Any, tmp_path: Path) -> None:
    cluster = KafkaCluster(tmp_path / "kafka")
    try:
        cluster.start()
        job = KafkaJoin(spark, cluster, tmp_path, cluster.servers, {"request.timeout.ms": "3000"})
        run = job.engine().start()
        job.feed()
        run.process_all_available()
        cluster.leader(job.topic("R")).kill()
        job.feed()
        run.process_all_available()
        run.stop()
        job.check()
    finally:
        cluster.kill()
