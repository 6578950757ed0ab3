"""From Kafka to Kafka through kill -9 of the driver, of a Python worker and of the broker: every result once, if it is committed.

By hand, for as many kills as wanted: python -m tests.recovery.test_kafka_pipeline NUMBER [SEED]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from uuid import uuid4

from tests.servers import KafkaServer, get

PROGRAM = Path(__file__).with_name("kafka_pipeline.py")
KEYS = 300


class Pipeline:
    """One checkpoint that sees many crashes, while records are produced."""

    def __init__(self, server: KafkaServer, root: Path, seed: int) -> None:
        self.server, self.root, self.random = server, root, Random(seed)
        self.prefix = f"p{uuid4().hex[:8]}"
        self.rows: dict[str, list[tuple[int, int]]] = {"R": [], "S": []}
        self.count: Counter[str] = Counter()
        server.create(*(f"{self.prefix}-{stream}" for stream in self.rows), partitions=3)

    def feed(self, rows: int = 300) -> None:
        for stream, column in (("R", "x"), ("S", "y")):
            first = len(self.rows[stream])
            new = [(self.random.randrange(KEYS), at) for at in range(first, first + rows)]
            self.rows[stream] += new
            self.server.produce(f"{self.prefix}-{stream}", [json.dumps({"k": key, column: value}) for key, value in new])

    def start(self, *once: str) -> subprocess.Popen[str]:
        arguments = [str(get("kafka-connector")), self.server.servers, self.prefix, str(self.root / "checkpoint"), *once]
        paths = [*sys.path, os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )

    def crash(self, kind: str) -> None:
        """`driver`: some time after it runs; `worker`: a Python worker first, and the driver later; `broker`: stopped and started again."""
        process = self.start()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", self.log
            self.feed()
            time.sleep(self.random.random() * 3)
            if kind == "worker":
                for worker in _workers(process.pid):
                    os.kill(worker, signal.SIGKILL)
                time.sleep(2 * self.random.random())
            elif kind == "broker":
                self.server.kill()
                time.sleep(self.random.random())
                self.server.start()
                time.sleep(2 * self.random.random())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        self.count[kind] += 1

    def finish(self) -> None:
        """What the topic has after a start that is not killed is the join of all that was produced."""
        process = self.start("once")
        process.communicate(timeout=300)
        assert process.returncode == 0, self.log
        found = Counter(tuple(json.loads(message.value()).values()) for message in self.server.consume(f"{self.prefix}-out"))
        by_key: dict[int, list[int]] = {}
        for key, value in self.rows["S"]:
            by_key.setdefault(key, []).append(value)
        expected = Counter((key, x, y) for key, x in self.rows["R"] for y in by_key.get(key, ()))
        assert found == expected, f"{(expected - found).total()} lost, {(found - expected).total()} too many of {expected.total()}"

    @property
    def log(self) -> str:
        return (self.root / "log").read_text()[-3000:]


def _workers(driver: int) -> list[int]:
    """The Python workers of Spark below a process."""
    found = subprocess.run(["pgrep", "-s", str(driver), "-f", "pyspark.daemon"], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()][1:]


def test_every_result_once_through_kills(java: None, kafka_server: KafkaServer, tmp_path: Path) -> None:
    pipeline = Pipeline(kafka_server, tmp_path, 1)
    for kind in ("driver", "worker", "broker"):
        pipeline.crash(kind)
    pipeline.finish()


def main(number: int, seed: int = 1) -> None:
    with tempfile.TemporaryDirectory(prefix="clash-pipeline-") as name:
        root = Path(name)
        (root / "broker").mkdir()
        server = KafkaServer(root / "broker")
        server.start()
        pipeline = Pipeline(server, root, seed)
        try:
            for at in range(number):
                pipeline.crash(pipeline.random.choice(("driver", "driver", "worker", "broker")))
                if at % 10 == 9:
                    pipeline.finish()
                    sys.stdout.write(f"{dict(pipeline.count)}: {len(pipeline.rows['R']):,} records each, equal\n")
                    sys.stdout.flush()
            pipeline.finish()
        finally:
            server.kill()
    sys.stdout.write(f"{dict(pipeline.count)}: nothing lost, nothing doubled\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
