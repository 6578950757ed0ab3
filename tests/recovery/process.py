"""The job in a process of its own, and what a reader sees of it from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

import pyarrow.parquet as pq

from . import shapes
from .oracle import Expected, Rows, counted

JOB = Path(__file__).with_name("job.py")


class Process:
    """`play` is one start of the engine; None if the process was killed in it."""

    def __init__(self, root: Path, master: str = "local[2]", **environment: str) -> None:
        self.root = root
        with (root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(JOB), master, str(root / "in")],
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

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def log(self) -> str:
        return (self.root / "log").read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """The whole session: the JVM and its Python workers too."""
        for pipe in (self.process.stdin, self.process.stdout):
            self._pipe(pipe).close()
        self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(root: Path, master: str = "local[2]", **environment: str) -> Iterator[Process]:
    process = Process(root, master, **environment)
    try:
        yield process
    finally:
        process.close()


class Reader:
    """Reads what others may read. Files never change, so each is read once."""

    def __init__(self, root: Path, expected: Expected, checkpoint: str = "ck", out: str = "out") -> None:
        self.expected, self.checkpoint, self.out = expected, root / checkpoint / "clash", root / out
        self.folders = {query: self.out / query for query in shapes.QUERIES if query != shapes.HANDED}
        self.folders[shapes.KEPT] = self.checkpoint / "results" / shapes.KEPT
        self._files: dict[Path, Rows] = {}

    def last(self) -> int:
        """The last committed batch: that of the newest manifest."""
        return max((int(file.stem) for file in (self.checkpoint / "manifests").glob("*.json")), default=-1)

    def visible(self, folder: Path) -> Rows:
        return self._rows(sorted(folder.glob("*.parquet")))

    def _rows(self, files: list[Path]) -> Rows:
        found: Rows = Counter()
        for file in files:
            if file not in self._files:
                self._files[file] = counted(pq.read_table(file))
            found.update(self._files[file])
        return found

    def check(self, at_least: int, at_most: int) -> None:
        """Results of the batches up to `at_least` are there, and none of a batch after `at_most`."""
        for query, folder in self.folders.items():
            found = self.visible(folder)
            missing, extra = self.expected.results(query, at_least) - found, found - self.expected.results(query, at_most)
            assert not missing, f"{query}: {missing.total()} missing of batches up to {at_least}"
            assert not extra, f"{query}: {extra.total()} that batches up to {at_most} do not give"

    def check_all(self, last: int, published: int | None = None) -> None:
        """Exactly the results and late rows of the batches up to `last`, the last one committed."""
        assert self.last() == last
        shown = last if published is None else published
        self.check(shown, shown)
        for stream in shapes.TIMED:
            found = self.visible(self.checkpoint / "late" / stream)
            # only columns that are read of a stream are kept: here all of them
            assert found == self.expected.late(stream, shown), f"late rows of {stream}"

    def check_handed(self, last: int) -> None:
        """At least once, and each time the same."""
        batches = set()
        for file in sorted((self.out / shapes.HANDED).glob("*.parquet")):
            batch = int(file.name.partition("-")[0])
            batches.add(batch)
            assert counted(pq.read_table(file)) == self.expected.of_batch(shapes.HANDED, batch), file.name
        assert batches == set(range(last + 1))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Meanwhile another thread reads, again and again."""
        ended, wrong = Event(), list[BaseException]()

        def watch() -> None:
            seen: dict[str, tuple[object, ...]] = {}
            try:
                while not ended.wait(0.1):
                    before = self.last()
                    shown = {query: sorted(folder.glob("*.parquet")) for query, folder in self.folders.items()}
                    after = self.last()
                    for query, files in shown.items():
                        if seen.get(query) != (before, files, after):
                            seen[query] = (before, files, after)
                            found = self._rows(files)
                            assert found >= self.expected.results(query, before - 1), f"{query}: a committed result is gone"
                            assert found <= self.expected.results(query, after), f"{query}: a result of a batch that is not committed"
            except BaseException as error:
                wrong.append(error)

        thread = Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        if wrong:
            raise wrong[0]
