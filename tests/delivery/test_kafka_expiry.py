"""A run that is stopped, or has nothing to deliver, for so long that the cluster forgets its transactions. Days are seconds here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.servers import KafkaServer

from clash.delivery.target import Output
from clash.sinks import Kafka

from .test_kafka import Program, rows, values

EXPIRY = {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "producer.id.expiration.ms": "1000",
    "producer.id.expiration.check.interval.ms": "200",
}
LONG = 3  # seconds, until a transaction has timed out, and its producer is forgotten
IDLE = 2  # seconds, until a producer without a transaction is forgotten


@pytest.fixture
def server(java: None, tmp_path: Path) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path, settings=EXPIRY)
    server.start()
    yield server
    server.kill()


def test_what_the_cluster_forgets_is_neither_lost_nor_doubled(server: KafkaServer) -> None:
    out = Kafka("out", servers=server.servers, create=2, wait=60, options={"transaction.timeout.ms": 1000})
    killed = Program("ck", out)
    killed.deliver(0, (out, rows(0)))

    def read() -> Iterable[pa.RecordBatch]:
        yield rows(1)
        killed.deliveries._all[out.system].target._producer.flush()  # type: ignore[attr-defined]
        raise SystemExit  # as if it were killed: the transaction stays open

    with pytest.raises(SystemExit):
        killed.deliveries.deliver(1, [Output("q0", out, rows(1).schema, 6, read)])
    assert len(server.consume("out", "read_uncommitted")) == 6
    time.sleep(LONG)

    program = Program("ck", out, last=1, uncertain=True)
    for batch in (1, 2):
        program.deliver(batch, (out, rows(batch)))
    target = program.deliveries._all[out.system].target
    producer = target._producer  # type: ignore[attr-defined]
    time.sleep(IDLE)
    program.deliver(3, (out, rows(3)))
    assert target._producer is not producer, "the cluster has not forgotten the producer"  # type: ignore[attr-defined]
    assert values(server.consume("out")) == Counter((batch, row) for batch in range(4) for row in range(3))
