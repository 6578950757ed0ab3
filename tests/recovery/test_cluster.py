"""Executors in JVMs of their own: one is killed in the middle, and the run goes on by itself."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from . import shapes
from .oracle import Expected
from .process import Reader, running

BATCHES = 8


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


def test_an_executor_is_killed(tmp_path: Path) -> None:
    shapes.write(tmp_path / "in", range(BATCHES))
    reader = Reader(tmp_path, Expected(BATCHES))
    environment = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    with running(tmp_path, "local-cluster[2,1,1024]", **environment) as process:
        process.ask()
        with reader.watching():
            while reader.last() < 2 and process.process.poll() is None:
                time.sleep(0.02)
            executors = list(processes(process.process.pid, b"CoarseGrainedExecutorBackend"))
            assert len(executors) == 2, process.log()
            os.kill(executors[0], signal.SIGKILL)
            answer = process.answer()
        assert answer is not None, process.log()
        assert answer["error"] is None
        assert executors[0] not in processes(process.process.pid, b"CoarseGrainedExecutorBackend")
    reader.check_all(BATCHES - 1)
    reader.check_handed(BATCHES - 1)
