"""Spark with checkpoint and results on real remote storages: killed, cut off, started twice; every result once, as DuckDB has them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.recovery.shapes import set_age
from tests.servers import HdfsServer, S3Server, get

from clash.errors import CheckpointError
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.storage import open_storage

JOB = Path(__file__).with_name("remote_job.py")
TEXT = "SELECT R.x, S.y FROM R JOIN S ON R.a = S.a"
FILES = 4
ROWS = 60


class Job:
    def __init__(self, root: Path, server: S3Server | HdfsServer) -> None:
        self._root, self.server = root, server
        self.location = server.location(root.name)
        self.lock = f"{root.name}/checkpoint/clash/lock"
        for stream, column, values in (("R", "x", [f"x{row}" for row in range(ROWS)]), ("S", "y", list(range(ROWS)))):
            (root / stream).mkdir()
            for file in range(FILES):
                path = root / stream / f"{file:03d}.parquet"
                pq.write_table(pa.table({"a": [(row * 7 + file) % 40 for row in range(ROWS)], column: values}), path)
                set_age(path, file)

    @contextmanager
    def process(self) -> Iterator[Process]:
        jars = [str(jar) for jar in get("jars").glob("*.jar") if "minicluster" not in jar.name]  # which has a Hadoop of its own
        settings = json.dumps({**self.server.spark_settings, "spark.driver.extraClassPath": ":".join(jars)})
        with (self._root / "log").open("ab") as log:
            process = Process([str(self._root), self.location, settings], log)
        try:
            assert process.answer() == {"ready": True}, (self._root / "log").read_text()[-3000:]
            yield process
        finally:
            process.end()

    def check(self) -> None:
        """What readers of the two folders see is what DuckDB says of all files."""
        with duckdb.connect() as connection:
            for stream in "RS":
                connection.register(stream, pq.read_table(self._root / stream))
            expected = Counter(connection.sql(TEXT).fetchall())
        for folder in ("results", "checkpoint/clash/results/kept"):
            storage = open_storage(f"{self.location}/{folder}")
            found: Counter[Any] = Counter()
            for name in storage.list():
                if name.endswith(".parquet"):
                    found.update(tuple(row.values()) for row in pq.read_table(pa.BufferReader(storage.read(name))).to_pylist())
            assert found == expected


class Process:
    def __init__(self, arguments: list[str], log: IO[bytes]) -> None:
        command = [sys.executable, str(JOB), *arguments]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "CLASH_HDFS_TIMEOUT": "5"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )

    def ask(self, **asked: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """None at the end of a killed process."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                answer: dict[str, Any] = json.loads(line[1:])
                return answer
        return None

    def play(self, **asked: Any) -> dict[str, Any] | None:
        self.ask(**asked)
        return self.answer()

    def end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture(params=["s3", "hdfs"])
def job(request: pytest.FixtureRequest, tmp_path: Path, java: None) -> Job:
    return Job(tmp_path, request.getfixturevalue(f"{request.param}_server"))


@pytest.mark.slow
def test_killed_started_twice_and_cut_off(job: Job) -> None:
    with job.process() as process:
        assert process.play(fail="after-manifest@2") is None
    job.server.free_lock(job.lock)
    with job.process() as process:
        assert process.play(wait=True) == {"batch": 1}  # it is committed, but not published
        with pytest.raises(CheckpointError) as refused:
            lock_checkpoint(open_storage(f"{job.location}/checkpoint/clash"))
        assert refused.value.what == "another run has this checkpoint"
        job.server.stop()
        process.ask()
        failed = process.answer()
        assert failed is not None
        assert failed["kind"] in ("StateError", "CheckpointError"), failed
        assert job.location.split("://")[1] in failed["detail"], failed
        assert failed["hint"]
        job.server.start()
        job.server.free_lock(job.lock)
        done = process.play()
        assert done is not None
        assert done.get("end") == FILES - 1, done
    job.check()
