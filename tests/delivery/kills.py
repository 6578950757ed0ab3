"""kill -9 of a process that delivers to another system, and of that system, again and again; then what readers see.

By hand: python -m tests.delivery.kills kafka|postgres NUMBER [SEED]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.servers import KafkaServer, PostgresServer

from .delivering import Number, rows_of

PROGRAM = Path(__file__).with_name("delivering.py")
POINTS = ("before-transaction", "in-transaction", "after-transaction")
TOPICS = 2


class Kills:
    """One checkpoint that sees many crashes."""

    def __init__(self, root: Path, server: KafkaServer | PostgresServer, name: str, seed: int) -> None:
        self.root, self.server, self.name = root, server, name
        self.topics = [f"{name}_{at}" for at in range(TOPICS)]
        self.random = Random(seed)
        self.count: Counter[str] = Counter()

    def process(self, batches: int, **environment: str) -> subprocess.Popen[bytes]:
        (self.root / "started").unlink(missing_ok=True)
        system = ["kafka", self.server.servers] if isinstance(self.server, KafkaServer) else ["postgres", self.server.dsn]
        arguments = [str(self.root), self.name, *system, ",".join(self.topics), str(batches)]
        paths = [*sys.path, os.environ.get("PYTHONPATH", "")]
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
            )

    def kill(self, kind: str) -> None:
        """At a fail point, or some time after the start (`any`), or some time after the process began (`early`); or the system."""
        point = {"CLASH_FAILPOINT": f"{kind}@{self.random.choice([1, 1, 2, 4])}"} if kind in POINTS else {}
        process = self.process(10**9, **point)
        try:
            if kind in ("any", "system"):
                while not (self.root / "started").exists() and process.poll() is None:
                    time.sleep(0.01)
                time.sleep(self.random.random() * 0.5)
            elif kind == "early":
                time.sleep(0.3 + self.random.random())
            if kind == "system":
                self.server.kill()
                time.sleep(self.random.random())
                self.server.start()
                time.sleep(0.5 + self.random.random())
            if kind in POINTS:
                process.wait(120)
            else:
                process.kill()
        finally:
            process.kill()
            process.wait()
        assert process.returncode == -9, (self.root / "log").read_text()[-3000:]
        self.count[kind] += 1

    def finish(self) -> int:
        """A start that is not killed: how many batches there are."""
        batches = max(Number(self.root / "committed").read(), 0) + 3
        process = self.process(batches)
        process.wait(180)
        assert process.returncode == 0, (self.root / "log").read_text()[-3000:]
        return batches

    def read(self, topic: str) -> Counter[tuple[int, int]]:
        if isinstance(self.server, PostgresServer):
            return Counter(self.server.query(f"SELECT batch, row FROM {topic}"))  # type: ignore[arg-type]
        rows = (json.loads(message.value()) for message in self.server.consume(topic))
        return Counter((row["batch"], row["row"]) for row in rows)

    def check(self, batches: int) -> None:
        for at, topic in enumerate(self.topics):
            found = self.read(topic)
            expected = Counter((batch, row) for batch in range(batches) for row in range(rows_of(batch, at)))
            lost, extra = expected - found, found - expected
            assert not lost, f"{topic}: {lost.total()} of {expected.total()} lost, as {min(lost)}"
            assert not extra, f"{topic}: {extra.total()} beside {expected.total()}, as {min(extra)}"


def main(kind: str, number: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "server").mkdir()
        server = KafkaServer(root / "server") if kind == "kafka" else PostgresServer()
        server.start()
        try:
            kills = Kills(root, server, "kills", seed)
            for at in range(number):
                kills.kill("system" if at % 12 == 11 else [*POINTS, "any", "early"][at % 5])
                if at % 25 == 24 or at == number - 1:
                    batches = kills.finish()
                    kills.check(batches)
                    sys.stdout.write(f"{at + 1} kills {dict(kills.count)}, {batches} batches: none lost, none doubled\n")
                    sys.stdout.flush()
        finally:
            server.kill() if isinstance(server, KafkaServer) else server.remove()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
