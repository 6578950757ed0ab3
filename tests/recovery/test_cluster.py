"""Executors in JVMs of their own: one is killed in the middle of a batch, and the run goes on by itself."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from . import shapes
from .process import Process, Reader, running

FILES = 6
EXECUTOR = b"CoarseGrainedExecutorBackend"


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


def kill_in_batch(process: Process, reader: Reader, batch: int) -> int:
    """As soon as round 1 of the batch has written something: later rounds need what the executor has for them."""
    while not any((reader.state / "state").glob(f"*/b{batch:09d}-*")) and process.process.poll() is None:
        time.sleep(0.01)
    executor = min(processes(process.process.pid, EXECUTOR))
    os.kill(executor, signal.SIGKILL)
    return executor


def test_an_executor_is_killed(tmp_path: Path) -> None:
    shapes.write(tmp_path / "in", range(FILES))
    reader = Reader(tmp_path, FILES)
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
            executor = kill_in_batch(process, reader, 4)  # it has several tasks (`Alternating`)
            answer = process.answer()
        assert executor not in processes(process.process.pid, EXECUTOR)
        assert "Spark lost a process, or its jobs were cancelled; the batch is run again" in process.log()
    reader.check_end(answer)
