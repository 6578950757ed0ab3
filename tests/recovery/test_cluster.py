"""Executors in JVMs of their own: one is killed in the middle of a batch, and the run goes on by itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from . import shapes
from .process import CLUSTER, EXECUTOR, Process, Reader, cluster_environment, processes, running

FILES = 6


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
    with running(tmp_path, CLUSTER, **cluster_environment(tmp_path)) as process:
        process.ask()
        with reader.watching():
            executor = kill_in_batch(process, reader, 3)  # it has several tasks (`Alternating`)
            answer = process.answer()
        assert executor not in processes(process.process.pid, EXECUTOR)
        assert "Spark lost a process, or its jobs were cancelled; the batch is run again" in process.log()
    reader.check_end(answer)
