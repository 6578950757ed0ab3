"""kill -9 of a job with Kafka sinks (the driver, its JVM and its workers) and of the broker; then topics, files and DuckDB are compared.

By hand: python -m tests.recovery.kafka_kills NUMBER [SEED]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.recovery.kafka_job import QUERIES
from tests.recovery.process import Process, running
from tests.recovery.shapes import set_age
from tests.servers import KafkaServer

JOB = Path(__file__).with_name("kafka_job.py")
TRANSACTION = ("before-transaction", "in-transaction", "after-transaction")
POINTS = (*TRANSACTION, "before-manifest", "after-manifest", "after-publish", "after-record")
ROWS = 60


class KafkaKills:
    """One checkpoint that sees many crashes."""

    def __init__(self, root: Path, server: KafkaServer, topic: str, seed: int = 0) -> None:
        self.root, self.server, self.topic = root, server, topic
        self.random = Random(seed)
        self.count: Counter[str] = Counter()
        self.files = 0
        for stream in "RS":
            (root / "in" / stream).mkdir(parents=True)

    def write(self, files: int) -> None:
        for _ in range(files):
            at = self.files
            tables = {
                "R": {"a": [(row * 7 + at) % 45 for row in range(ROWS)], "x": [f"x{row}-{at}" for row in range(ROWS)]},
                "S": {"a": [row % 40 for row in range(ROWS)], "y": [row + at * ROWS for row in range(ROWS)]},
            }
            for stream, columns in tables.items():
                path = self.root / "in" / stream / f"{at:04d}.parquet"
                pq.write_table(pa.table(columns), path)
                set_age(path, at)
            self.files += 1

    @property
    def asked(self) -> dict[str, Any]:
        return {"servers": self.server.servers, "topic": self.topic}

    def kill(self, kind: str) -> None:
        """At a fail point; `any`: some time after the start; `broker`: the broker, and the job goes on."""
        self.write(3)
        with running(self.root, job=JOB) as process:
            if kind == "broker":
                self._kill_broker(process)
            elif kind == "any":
                process.ask(until=10**9, **self.asked)
                time.sleep(self.random.random() * 4)
                process.kill()
            else:
                flag = self.root / f"flag-{self.count.total()}"
                time_of_kill = self.random.choice([1, 2]) if kind in TRANSACTION else 1
                assert process.play(fail=f"{kind}@{time_of_kill}", flag=str(flag), **self.asked) is None, process.log()
                assert flag.exists(), process.log()
        self.count[kind] += 1

    def _kill_broker(self, process: Process) -> None:
        def kill() -> None:
            time.sleep(self.random.random() * 3)
            self.server.kill()
            time.sleep(self.random.random())
            self.server.start()

        thread = Thread(target=kill)
        thread.start()
        answer = process.play(**self.asked)
        thread.join()
        assert answer == {"error": None}, process.log()

    def finish(self) -> None:
        """A start that is not killed."""
        self.write(1)
        with running(self.root, job=JOB) as process:
            assert process.play(**self.asked) == {"error": None}, process.log()

    def check(self) -> None:
        with duckdb.connect() as connection:
            for stream in "RS":
                connection.execute(f"CREATE VIEW {stream} AS SELECT * FROM '{self.root}/in/{stream}/*.parquet'")
            for query, text in QUERIES.items():
                expected = Counter(connection.sql(text).fetchall())
                messages = self.server.consume(f"{self.topic}-{query}")
                found = Counter(tuple(json.loads(message.value()).values()) for message in messages)
                lost, extra = expected - found, found - expected
                assert not lost, f"{query}: {lost.total()} of {expected.total()} lost"
                assert not extra, f"{query}: {extra.total()} beside {expected.total()}"
            files = Counter(connection.sql(f"SELECT * FROM '{self.root}/out/*.parquet'").fetchall())
            assert files == Counter(connection.sql(QUERIES["pairs"]).fetchall())


def main(number: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "kafka").mkdir()
        server = KafkaServer(root / "kafka")
        server.start()
        try:
            kills = KafkaKills(root, server, "kills", seed)
            for at in range(number):
                kills.kill("broker" if at % 9 == 8 else "any" if at % 3 == 2 else kills.random.choice(TRANSACTION if at % 2 else POINTS))
                if at % 10 == 9 or at == number - 1:
                    kills.finish()
                    kills.check()
                    sys.stdout.write(f"{at + 1} kills {dict(kills.count)}, {kills.files} batches: none lost, none doubled\n")
                    sys.stdout.flush()
        finally:
            server.kill()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
