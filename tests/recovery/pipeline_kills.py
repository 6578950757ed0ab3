"""kill -9 of a job from Kafka to Kafka: of its driver, its Python workers, its executors, and of the broker; then the topic is compared.

By hand: python -m tests.recovery.pipeline_kills NUMBER [SEED [BROKERS]]
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from uuid import uuid4

from tests.recovery.process import CLUSTER, EXECUTOR, Process, cluster_environment, processes
from tests.servers import KafkaCluster, KafkaServer

JOB = Path(__file__).with_name("kafka_pipeline.py")
LOCAL = "local[2]"
WORKER = b"pyspark.daemon"
POINTS = ("before-transaction", "in-transaction", "after-transaction", "before-manifest", "after-manifest", "after-record")
ROWS = 300  # of each topic per feed
LIMIT = 600  # seconds in which a batch is committed after a kill: the machine may be busy


class PipelineKills:
    """One checkpoint that sees many crashes, while records are produced."""

    def __init__(self, root: Path, server: KafkaServer | KafkaCluster, seed: int) -> None:
        self.root, self.server, self.random = root, server, Random(seed)
        self.prefix = f"p{uuid4().hex[:8]}"
        self.rows: dict[str, list[tuple[int, int]]] = {"R": [], "S": []}
        self.count: Counter[str] = Counter()
        server.create(*(f"{self.prefix}-{stream}" for stream in self.rows), partitions=3)

    def feed(self) -> None:
        """Records match some of this feed, of the last one and of the next one."""
        for stream, column in (("R", "x"), ("S", "y")):
            first = len(self.rows[stream])
            new = [((at + self.random.randrange(-ROWS, ROWS)) // 4, at) for at in range(first, first + ROWS)]
            self.rows[stream] += new
            self.server.produce(f"{self.prefix}-{stream}", [json.dumps({"k": key, column: value}) for key, value in new])

    def process(self, master: str = LOCAL) -> Process:
        return Process(self.root, master, JOB, **cluster_environment(self.root) if master == CLUSTER else {})

    @property
    def asked(self) -> dict[str, str]:
        return {"servers": self.server.servers, "prefix": self.prefix}

    def live(self, process: Process, kinds: Sequence[str]) -> None:
        """One start of the job and what is killed in it, one after the other, while batches are run; the run goes on by itself after each
        but the last. That is `driver`; or `early`, while it starts; or a fail point. The broker is always started again."""
        try:
            *others, end = kinds
            if end in POINTS:
                self.feed()
                flag = self.root / f"flag-{self.count.total()}"
                answer = process.play(fail=f"{end}@{self.random.choice([1, 2, 3])}", flag=str(flag), **self.asked)
                assert answer is None, (answer, process.log())
                assert flag.exists(), process.log()
            else:
                process.ask(**self.asked)
                if end == "early":
                    time.sleep(6 * self.random.random())
                for kind in others:
                    self._await_batch(process)
                    time.sleep(self.random.random() / 2)
                    self._kill(process, kind)
                    self.count[kind] += 1
                if end == "driver":
                    self._await_batch(process)
                    time.sleep(self.random.random() / 2)
            self.count[end] += 1
        finally:
            process.close()

    def _await_batch(self, process: Process) -> None:
        """New records, and a batch that is committed after they are there."""
        before = self._last_batch()
        self.feed()
        deadline = time.monotonic() + LIMIT
        while self._last_batch() <= before:
            assert not process.has_answered(), (process.answer(), process.log())
            assert time.monotonic() < deadline, process.log()
            time.sleep(0.02)

    def _last_batch(self) -> int:
        return max((int(file.stem) for file in (self.root / "ck" / "clash" / "manifests").glob("*.json")), default=-1)

    def _kill(self, process: Process, kind: str) -> None:
        if kind == "broker":
            topic = f"{self.prefix}-{self.random.choice(['R', 'S', 'out'])}"
            broker = self.server if isinstance(self.server, KafkaServer) else self.server.leader(topic)
            broker.kill()
            time.sleep(self.random.random())
            broker.start()
            return
        found = sorted(processes(process.process.pid, EXECUTOR if kind == "executor" else WORKER))
        assert found, f"no {kind}"
        os.kill(self.random.choice(found), signal.SIGKILL)

    def finish(self, process: Process) -> None:
        """What the topic has after a start that is not killed is the join of all that was produced."""
        try:
            assert process.play(once=True, **self.asked) == {"error": None}, process.log()
        finally:
            process.close()
        found = Counter(tuple(json.loads(message.value()).values()) for message in self.server.consume(f"{self.prefix}-out"))
        by_key: dict[int, list[int]] = {}
        for key, value in self.rows["S"]:
            by_key.setdefault(key, []).append(value)
        expected = Counter((key, x, y) for key, x in self.rows["R"] for y in by_key.get(key, ()))
        assert found == expected, f"{(expected - found).total()} lost, {(found - expected).total()} too many of {expected.total()}"


def plan(number: int, random: Random) -> list[tuple[str, list[str]]]:
    """Starts with so many kills in all, at least: the master and what is killed; an empty list is a start that is not killed."""
    starts: list[tuple[str, list[str]]] = []
    count = 0
    while count < number:
        turn = len(starts) % 9
        if turn == 8:
            kinds: list[str] = []
        elif turn == 4:
            kinds = ["executor", "executor", "broker", "executor", "executor", "executor", "driver"]
        elif turn % 2:
            kinds = [random.choice((*POINTS, "early"))]
        else:
            kinds = [*random.choices(("worker", "worker", "broker"), k=5), "driver"]
        starts.append((CLUSTER if turn == 4 else LOCAL, kinds))
        count += len(kinds)
    return [*starts, (LOCAL, [])]


def main(number: int, seed: int = 1, brokers: int = 1) -> None:
    """The next process starts while the last one is played. Of several brokers, one that leads a partition is killed."""
    with tempfile.TemporaryDirectory(prefix="clash-pipeline-") as name, ThreadPoolExecutor(1) as ahead:
        root = Path(name)
        (root / "broker").mkdir()
        server = KafkaServer(root / "broker", session=3) if brokers == 1 else KafkaCluster(root / "broker", brokers)
        server.start()
        try:
            kills = PipelineKills(root, server, seed)
            starts = plan(number, Random(seed))
            waiting = ahead.submit(kills.process, starts[0][0])
            for at, (_, kinds) in enumerate(starts):
                process = waiting.result()
                if at + 1 < len(starts):
                    waiting = ahead.submit(kills.process, starts[at + 1][0])
                try:
                    kills.live(process, kinds) if kinds else kills.finish(process)
                except BaseException:
                    waiting.result().close()
                    raise
                if not kinds:
                    records = len(kills.rows["R"])
                    report = (
                        f"{kills.count.total()} kills {dict(kills.count)}, {records:,} records of each topic: none lost, none doubled\n"
                    )
                    sys.stdout.write(report)
                    sys.stdout.flush()
        finally:
            server.kill()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
