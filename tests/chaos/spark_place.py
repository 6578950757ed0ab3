"""Spark, on this machine alone or as a standalone cluster of a master and two workers: one driver after the other, each for many starts
until it is killed."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pyarrow.parquet as pq
import pyspark

from clash.coordinator.checkpoint.offset_entry import NO_OFFSET, OffsetEntry
from clash.coordinator.checkpoint.spark_half import OFFSETS

from ..oracle.case import Case, table
from ..recovery.process import Process
from ..recovery.shapes import set_age
from . import spark_program
from .folders import CHECKPOINT, OURS, SPARKS
from .offsets import Seen
from .starts import MAX_SECONDS, Outcome, Start, outcome_of

JOB = Path(spark_program.__file__)
_SOURCES = re.compile(r'"sources":\s*\[([^\]]*)\]')
_JOB_RECORD = "job.json"
_EXECUTOR, _WORKER = b"CoarseGrainedExecutorBackend", b"pyspark.daemon"


class SparkPlace:
    """`cluster`: where executors are processes of their own."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-spark-"))
        self.cluster = cluster
        self._processes: dict[bool, Process] = {}
        self._offsets, self._orders = Seen(_log_offsets), Seen(_source_order)

    def feed(self, root: Path, case: Case, files: range) -> None:
        for stream in case.streams:
            folder = root / "in" / stream.name
            folder.mkdir(parents=True, exist_ok=True)
            for number in files:
                file = folder / f"{number:03d}.parquet"
                pq.write_table(table(stream, case.batches[number].rows.get(stream.name, ())), file)
                set_age(file, number)

    def begin(self, start: Start, second: bool = False) -> RunningSpark:
        process = self._processes.get(second)
        if process is None or process.process.poll() is not None:
            process = self._processes[second] = self._new_process()
        file = self.folder / f"start-{int(second)}"
        file.write_bytes(pickle.dumps(start))
        process.ask(start=str(file))
        return RunningSpark(process, [process.process.pid, *([] if self.cluster is None else self.cluster.sessions)])

    def _new_process(self) -> Process:
        if self.cluster is None:
            return Process(self.folder, "local[2]", JOB)
        return Process(self.folder, self.cluster.master, JOB, **environment(self.folder))

    def batches(self, base: Path, case: Case) -> dict[str, dict[int, int]]:
        """By Spark's offset log."""
        names = self._orders.read(base / CHECKPOINT / OURS / _JOB_RECORD) or []
        found: dict[str, dict[int, int]] = {stream.name: {} for stream in case.streams}
        for batch, ends in self._offsets.read_log(base / CHECKPOINT / SPARKS / OFFSETS).items():
            for name, end in zip(names, ends, strict=False):
                for number in range(end + 1):
                    found[name].setdefault(number, batch)
        return found

    def damaged(self, file: Path, before: bytes, after: bytes) -> None:
        if file.parent.name == OFFSETS:
            self._offsets.damaged(file, before, after)
        elif file.name == _JOB_RECORD:
            self._orders.damaged(file, before, after)

    def forget(self, base: Path) -> None:
        self._offsets.forget(base)
        self._orders.forget(base)

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        if self.cluster is not None:
            self.cluster.close()


def _source_order(text: str) -> list[str]:
    """The streams, in the order in which Spark numbers them."""
    order = _SOURCES.search(text)
    if order is None:
        raise ValueError("this is no record of a job")
    return re.findall(r"\w+", order[1])


def _log_offsets(text: str) -> list[int]:
    return [-1 if line == NO_OFFSET else int(json.loads(line)["logOffset"]) for line in OffsetEntry.parse(text.encode()).lines]


class RunningSpark:
    def __init__(self, process: Process, sessions: list[int]) -> None:
        self.process, self.sessions = process, sessions
        self._driver_is_killed = False

    def kill(self, victim: str) -> None:
        if victim == "driver":
            self._driver_is_killed = True
            os.kill(self.process.process.pid, signal.SIGKILL)
            return
        found = sorted(_workers(self.sessions) if victim == "worker" else _processes(self.sessions, _EXECUTOR))
        for pid in found[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pause(self) -> None:
        os.killpg(self.process.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.process.process.pid, signal.SIGCONT)

    def wait(self) -> Outcome:
        ended = []
        watchdog = Timer(MAX_SECONDS, lambda: (ended.append(True), self.process.kill()))
        watchdog.start()
        try:
            answer = self.process.answer()
        finally:
            watchdog.cancel()
        if ended:
            return Outcome(raw=f"no end within {MAX_SECONDS} seconds")
        if answer is None or self._driver_is_killed:  # perhaps right after its answer
            self.process.close()  # also what outlives the driver
        return outcome_of(answer)


def _processes(sessions: list[int], word: bytes) -> Iterator[int]:
    yield from (pid for pid, _ in _with_parents(sessions, word))


def _workers(sessions: list[int]) -> Iterator[int]:
    """Python workers: children of a daemon."""
    found = dict(_with_parents(sessions, _WORKER))
    yield from (pid for pid, parent in found.items() if parent in found)


def _with_parents(sessions: list[int], word: bytes) -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) in sessions and word in (folder / "cmdline").read_bytes():
                    yield int(folder.name), int(fields[1])


def environment(folder: Path) -> dict[str, str]:
    return {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }


class Cluster:
    """A standalone master and two workers, in JVMs of their own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-cluster-"))
        port = _free_port()
        self.master = f"spark://127.0.0.1:{port}"
        address = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._jvms = [self._start("master.Master", *address, "--port", str(port))]
        _await(port)
        self._jvms += [self._start("worker.Worker", *address, "--cores", "2", "--memory", "2g", self.master) for _ in range(2)]

    @property
    def sessions(self) -> list[int]:
        return [jvm.pid for jvm in self._jvms]

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        with (self.folder / "log").open("ab") as log:
            variables = {**os.environ, **environment(self.folder), "SPARK_DAEMON_MEMORY": "256m"}
            return subprocess.Popen(command, stdout=log, stderr=log, env=variables, cwd=self.folder, start_new_session=True)

    def close(self) -> None:
        for jvm in self._jvms:
            with suppress(ProcessLookupError):
                os.killpg(jvm.pid, signal.SIGKILL)
            jvm.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(port: int) -> None:
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on port {port}")
