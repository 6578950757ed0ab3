"""A disk on which Spark cannot write: the error names the folder, what is wrong, and what to do."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import clash
from clash.spark.disk_failures import WrittenFolders, explain_disk_failure

from .files import JOIN, counted, declare, expected, write

FOLDERS = WrittenFolders("/data/checkpoint/spark", ("/scratch", "/scratch2"))
HALF, SCRATCH = "Spark's half of the checkpoint cannot be written", "Spark's scratch folder cannot be written"


@pytest.mark.parametrize(
    ("texts", "batch", "what", "detail"),
    [
        (["failed", "java.io.IOException: No space left on device"], None, HALF, "/data/checkpoint/spark: No space left on device"),
        (
            ["java.io.FileNotFoundException: /data/checkpoint/spark/offsets/.7.ab.tmp (Read-only file system)"],
            None,
            HALF,
            "/data/checkpoint/spark/offsets/.7.ab.tmp: Read-only file system",
        ),
        (["java.io.IOException: mkdir of file:/data/checkpoint/spark failed"], None, HALF, "/data/checkpoint/spark: a folder cannot be"),
        (["java.io.IOException: Mkdirs failed to create file:/data/checkpoint/spark/offsets (exists=false"], None, HALF, "spark/offsets: "),
        (["java.io.IOException: No space left on device"], 3, SCRATCH, "batch 3, /scratch, /scratch2: No space left on device"),
        (["java.io.FileNotFoundException: /scratch/blockmgr-1/0a/temp (Permission denied)"], 3, SCRATCH, "/scratch/blockmgr-1/0a/temp: "),
        (["java.io.FileNotFoundException: /out/a b (Disk quota exceeded)"], 3, "a file cannot be written", "batch 3, /out/a b: Disk quota"),
    ],
)
def test_what_cannot_be_written(texts: list[str], batch: int | None, what: str, detail: str) -> None:
    error = explain_disk_failure(texts, batch, FOLDERS)
    assert error is not None
    assert error.what == what
    assert detail in error.detail
    assert error.hint


ENDED = 'java.io.EOFException: End of File Exception between local host is: "a"; destination host is: "b":8020; : java.io.EOFException'


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (
            ["failed", "java.net.ConnectException: Call From a to b:8020 failed", "java.net.ConnectException: Connection refused"],
            "a to b:8020",
        ),
        (["failed", ENDED, "java.io.EOFException: null"], '"b":8020'),
        (["org.apache.hadoop.net.ConnectTimeoutException: Call From a to b:8020 failed on socket timeout exception"], "b:8020"),
        (["java.io.IOException: All datanodes [DatanodeInfoWithStorage[127.0.0.1:1,DS-1,DISK]] are bad. Aborting..."], "All datanodes"),
        (["org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot create file. Name node is in safe mode."], "safe mode"),
    ],
)
def test_a_remote_half_that_cannot_be_reached(texts: list[str], said: str) -> None:
    folders = WrittenFolders("hdfs://b:8020/checkpoint/spark", ("/scratch",))
    error = explain_disk_failure(texts, None, folders)
    assert error is not None
    assert error.what == "Spark's half of the checkpoint cannot be reached"
    assert error.detail.startswith("hdfs://b:8020/checkpoint/spark: ")
    assert said in error.detail
    assert explain_disk_failure(texts, 3, folders) is None  # what is read or written there is not known


@pytest.mark.parametrize(
    "text",
    [
        "java.io.FileNotFoundException: /in/R/000.parquet (Permission denied)",
        "java.io.IOException: Mkdirs failed to create file:/elsewhere",
        "java.lang.IllegalStateException: No such batch",
        "java.io.IOException: Input/output error",
    ],
)
def test_other_failures(text: str) -> None:
    assert explain_disk_failure([text], 3, FOLDERS) is None


@pytest.fixture
def small_disk(checkpoint: str) -> Iterator[Path]:
    """A file system of two megabytes under Spark's half of the checkpoint."""
    folder = Path(checkpoint) / "spark"
    folder.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this user cannot mount")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def remount(spark: Any, folder: Path, mode: str) -> None:
    """A disk cannot become read-only while Spark has a file open for writing: then once more, for a minute at most. Spark does not close
    a file that it could not write; the JVM does, when it collects garbage."""
    for _ in range(120):
        done = subprocess.run(["mount", "-o", f"remount,{mode}", folder], capture_output=True, check=False)
        if not done.returncode:
            return
        spark._jvm.System.gc()
        time.sleep(0.5)
    raise AssertionError(done.stderr)


def test_a_disk_that_is_full_then_read_only(spark: Any, checkpoint: str, small_disk: Path, tmp_path: Path) -> None:
    """In the middle of a run and at a start; when it can be written again, the run goes on."""

    def fill(batch: int) -> None:
        if batch == 0:
            descriptor = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
            with suppress(OSError):
                while True:
                    os.write(descriptor, bytes(4096))
            os.close(descriptor)

    def make_read_only(batch: int) -> None:
        if batch == 1:
            remount(spark, small_disk, "ro")

    def start(spoil: Callable[[int], None]) -> Any:
        engine = clash.Engine(spark, checkpoint, workers=1)
        declare(engine, spark, tmp_path)
        engine.query("q", JOIN)
        engine.query("each", JOIN, sink=clash.sinks.ForeachBatch(lambda _, batch: spoil(batch)))
        return engine.start(available_now=True)

    def fails(spoil: Callable[[int], None], reason: str) -> None:
        with pytest.raises(clash.StateError) as caught:
            start(spoil).await_termination(300)
        assert caught.value.what == HALF
        assert str(small_disk) in caught.value.detail
        assert reason in caught.value.detail
        assert caught.value.hint

    write(tmp_path, range(6))
    fails(fill, "No space left on device")
    (small_disk / "filler").unlink()
    fails(make_read_only, "Read-only file system")
    fails(lambda batch: None, "Read-only file system")
    remount(spark, small_disk, "rw")
    run = start(lambda batch: None)
    assert run.await_termination(300)
    found = run.results("q").toArrow()
    assert counted(found) == expected(tmp_path, found.schema)
