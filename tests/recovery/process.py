"""The job in a process of its own, and what a reader sees of it from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from threading import Event, Thread
from typing import IO, Any

import pyarrow.parquet as pq
import pyspark

from . import shapes
from .oracle import Expected, Rows, counted, read_by

JOB = Path(__file__).with_name("job.py")
CLUSTER = "local-cluster[2,1,1024]"  # two executors of one core, in JVMs of their own
EXECUTOR = b"CoarseGrainedExecutorBackend"


class Process:
    """`play` is one start of the engine; None if the process was killed in it."""

    def __init__(self, root: Path, master: str = "local[2]", job: Path = JOB, **environment: str) -> None:
        self.root = root
        with (root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(job), master, str(root / "in")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=root,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        assert self._answer() == {"ready": True}, self.log()

    def play(self, checkpoint: str = "ck", out: str = "out", **asked: Any) -> dict[str, Any] | None:
        self.ask(checkpoint, out, **asked)
        return self._answer()

    def ask(self, checkpoint: str = "ck", out: str = "out", **asked: Any) -> None:
        line = {**asked, "checkpoint": str(self.root / checkpoint), "out": str(self.root / out)}
        self._pipe(self.process.stdin).write(f"{json.dumps(line)}\n")
        self._pipe(self.process.stdin).flush()

    def _answer(self) -> dict[str, Any] | None:
        """At the end of a killed process: its JVM ends with it, and with the JVM the pipe."""
        for line in self._pipe(self.process.stdout):
            if line.startswith("@"):
                answer: dict[str, Any] = json.loads(line[1:])
                return answer
        self.process.wait()
        return None

    answer = _answer

    def has_answered(self) -> bool:
        """Whether the start has ended, or the process."""
        return bool(select([self._pipe(self.process.stdout)], [], [], 0)[0])

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def log(self) -> str:
        return (self.root / "log").read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """The whole session: the JVM and its Python workers too."""
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):  # it was killed, and something was still to be written to it
                self._pipe(pipe).close()
        self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(root: Path, master: str = "local[2]", job: Path = JOB, **environment: str) -> Iterator[Process]:
    process = Process(root, master, job, **environment)
    try:
        yield process
    finally:
        process.close()


def cluster_environment(root: Path) -> dict[str, str]:
    """What Spark needs to start the executors of CLUSTER."""
    return {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(root / "work"),
    }


def processes(session: int, word: bytes) -> Iterator[int]:
    """Those of a session whose command line has a word."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            if int(status.rpartition(")")[2].split()[3]) == session and word in command:
                yield int(folder.name)


class Reader:
    """Reads what others may read. Files never change, so each is read once."""

    def __init__(self, root: Path, files: int, checkpoint: str = "ck", out: str = "out") -> None:
        self.checkpoint, self.out, self.files = root / checkpoint, root / out, files
        self.state = self.checkpoint / "clash"
        self.folders = {query: self.out / query for query in shapes.QUERIES if query != shapes.HANDED}
        self.folders[shapes.KEPT] = self.state / "results" / shapes.KEPT
        self._read: dict[Path, Rows] = {}
        self._expected: Expected | None = None

    @property
    def expected(self) -> Expected:
        """Of the batches that Spark has made of the files so far."""
        batches = read_by(self.checkpoint, self.files)
        if self._expected is None or self._expected.batches != batches:
            self._expected = Expected(batches)
        return self._expected

    def last(self) -> int:
        """The last committed batch: that of the newest manifest."""
        return max((int(file.stem) for file in (self.state / "manifests").glob("*.json")), default=-1)

    def _rows(self, files: Iterable[Path]) -> Rows:
        found: Rows = Counter()
        for file in files:
            if file not in self._read:
                self._read[file] = counted(pq.read_table(file))
            found.update(self._read[file])
        return found

    def check(self, at_least: int, at_most: int) -> None:
        """Results of the batches up to `at_least` are there, and none of a batch after `at_most`."""
        for query, folder in self.folders.items():
            self._check(query, list(folder.glob("*.parquet")), at_least, at_most)

    def _check(self, query: str, files: list[Path], at_least: int, at_most: int) -> None:
        found, expected = self._rows(files), self.expected
        missing, extra = expected.results(query, at_least) - found, found - expected.results(query, at_most)
        assert not missing, f"{query}: {missing.total()} missing of batches up to {at_least}"
        assert not extra, f"{query}: {extra.total()} that batches up to {at_most} do not give"

    def check_all(self, last: int, published: int | None = None) -> None:
        """Exactly the results and late rows of the batches up to `last`, the last one committed."""
        assert self.last() == last
        shown = last if published is None else published
        self.check(shown, shown)
        for stream in shapes.TIMED:
            found = self._rows((self.state / "late" / stream).glob("*.parquet"))
            assert found == self.expected.late(stream, shown), f"late rows of {stream}"

    def check_end(self, answer: dict[str, Any] | None) -> None:
        """All files are read, and all results are there."""
        assert answer is not None
        assert answer["error"] is None
        last = self.last()
        assert all(max(batches) <= last for batches in self.expected.batches.values())
        self.check_all(last)
        handed = set()
        for file in sorted((self.out / shapes.HANDED).glob("*.parquet")):  # at least once, and each time the same
            batch = int(file.name.partition("-")[0])
            handed.add(batch)
            assert counted(pq.read_table(file)) == self.expected.from_batch(shapes.HANDED, batch), file.name
        assert handed == set(range(last + 1))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Meanwhile another thread looks, again and again, which files there are, and when."""
        ended, seen = Event(), list[tuple[int, dict[str, list[Path]], int]]()

        def watch() -> None:
            while not ended.wait(0.05):
                before = self.last()
                shown = {query: sorted(folder.glob("*.parquet")) for query, folder in self.folders.items()}
                seen.append((before, shown, self.last()))

        thread = Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        checked: dict[str, tuple[int, list[Path], int]] = {}
        for before, shown, after in seen:
            for query, files in shown.items():
                if checked.get(query) != (before, files, after):
                    checked[query] = (before, files, after)
                    self._check(query, files, before - 1, after)
