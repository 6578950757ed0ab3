"""A process that delivers batches to another system as a run does, and may be killed at any time: what it records is in files of a folder.

Arguments: a folder, a checkpoint's identity, `kafka` or `postgres`, servers or a DSN, topics or tables with commas between them, and the
number of batches. A batch is committed
(`committed`) before it is delivered, and over (`over`) afterwards, as Spark says; both files may be a kill apart. The results of a batch
are a function of its number; every fifth batch has none, every seventh is large.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from clash.delivery.deliveries import Deliveries
from clash.delivery.kafka_target import KafkaTarget
from clash.delivery.postgres_target import PostgresTarget
from clash.delivery.target import Destination, Output
from clash.sinks import Kafka, Postgres


def rows_of(batch: int, topic: int) -> int:
    if (batch + topic) % 5 == 4:
        return 0
    return 5000 if (batch + topic) % 7 == 6 else Random(batch * 10 + topic).randrange(1, 60)


def main(folder: Path, checkpoint: str, kind: str, address: str, names: list[str], batches: int) -> None:
    committed, over = (Number(folder / name) for name in ("committed", "over"))
    sinks: list[Any]
    if kind == "kafka":
        sinks = [Kafka(topic, servers=address, create=3, wait=120, headers=True) for topic in names]
        deliveries = Deliveries(lambda sink, stopping: KafkaTarget(sink, checkpoint, "UTC", stopping))
    else:
        sinks = [Postgres(table, dsn=address, create=True, wait=120) for table in names]
        deliveries = Deliveries(lambda sink, stopping: PostgresTarget(sink, checkpoint, stopping))
    last = committed.read()
    columns = pa.schema({"batch": pa.int64(), "row": pa.int64()})
    destinations = [Destination(f"q{at}", sink, columns) for at, sink in enumerate(sinks)]
    deliveries.begin(destinations, last, destinations if last > over.read() else ())
    (folder / "started").touch()
    for batch in range(over.read() + 1, batches):
        if batch > last:
            committed.write(batch)
        outputs = []
        for at, sink in enumerate(sinks):
            count = rows_of(batch, at)
            pieces = [pa.record_batch({"batch": pa.array([batch] * count, pa.int64()), "row": pa.array(range(count), pa.int64())})]
            outputs.append(Output(f"q{at}", sink, columns, count, lambda pieces=pieces: iter(pieces)))  # type: ignore[misc]
        deliveries.deliver(batch, outputs)
        over.write(batch)


class Number:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> int:
        return int(self._path.read_text()) if self._path.exists() else -1

    def write(self, number: int) -> None:
        temporary = self._path.with_suffix(f".{os.getpid()}")
        temporary.write_text(str(number))
        temporary.replace(self._path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5].split(","), int(sys.argv[6]))
