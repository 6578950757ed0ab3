"""Spark's half of a checkpoint: what a start refuses, what it takes back to the seal, and what comes out then.

One run makes checkpoints that end in different places; the tests damage copies of them. Only what is not refused runs, and must be exact.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clash

from .files import JOIN, counted, declare, expected, write

LAST = 3  # the last batch of the run
INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"  # of 3: the logs of sources were compacted with batch 2


class Checkpoints:
    """Copies of the checkpoint of one job: `at N` when batch N was committed on our side and not on Spark's, `done` after batch LAST,
    `decided` in the middle of the batch after it."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.copies = spark, root, 0

    def start(self, checkpoint: Path, handed: Callable[[Any, int], None] | None = None) -> Any:
        engine = clash.Engine(self.spark, checkpoint, workers=1)
        declare(engine, self.spark, self.root)
        engine.query("q", JOIN)
        engine.query("each", JOIN, sink=clash.sinks.ForeachBatch(handed or (lambda df, batch: None)))
        return engine.start(available_now=True)

    def copy(self, of: str, spark: str | None = None) -> Path:
        """A copy, perhaps with Spark's half of another."""
        self.copies += 1
        target = self.root / f"copy-{self.copies}"
        shutil.copytree(self.root / of / "clash", target / "clash")
        shutil.copytree(self.root / (spark or of) / "spark", target / "spark")
        return target

    def goes_on(self, checkpoint: Path) -> None:
        run = self.start(checkpoint)
        assert run.await_termination(300)
        found = run.results("q").toArrow()
        assert counted(found) == expected(self.root, found.schema)

    def refused(self, checkpoint: Path) -> clash.ClashError:
        before = contents(checkpoint)
        with pytest.raises((clash.StateError, clash.CheckpointError)) as caught:
            self.start(checkpoint)
        assert contents(checkpoint) == before
        return caught.value


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the lock, which a copy of a running job has, and no job that has ended."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != "lock"}


@pytest.fixture(scope="module")
def checkpoints(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkpoints]:
    root = tmp_path_factory.mktemp("halves")
    made = Checkpoints(spark, root)
    job = root / "job"

    def snapshot(_df: Any, batch: int) -> None:
        shutil.copytree(job, root / f"at {batch}")

    spark.conf.set(INTERVAL, "3")
    write(root, range(2 * LAST + 2))
    assert made.start(job, snapshot).await_termination(300)
    shutil.copytree(job, root / "done")
    write(root, range(2 * LAST + 2, 2 * LAST + 6))  # two batches more
    broken = root / "S" / f"{2 * LAST + 2:03d}.parquet"
    whole = broken.read_bytes()
    replace(broken, b"this is not Parquet, but long enough for a footer")
    with pytest.raises(clash.SourceError):
        made.start(job).await_termination(300)
    shutil.copytree(job, root / "decided")
    replace(broken, whole)
    yield made
    spark.conf.unset(INTERVAL)
    shutil.rmtree(root)


def replace(file: Path, content: bytes) -> None:
    """Another content at the same age: Spark reads files in that order."""
    times = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


READ_BY_A_RESTART = ["metadata", "offsets/3", "offsets/2", "sources/0/2.compact", "sources/2/2.compact", "sources/1/3"]


@pytest.mark.parametrize("name", READ_BY_A_RESTART)
def test_a_file_that_a_restart_reads_is_missing_torn_or_changed(checkpoints: Checkpoints, name: str) -> None:
    copy = checkpoints.copy("done")
    file = copy / "spark" / name
    whole = file.read_bytes()
    for damaged in (None, b"", whole[: len(whole) // 2], *map(bytes, flips(whole, 7))):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        error = checkpoints.refused(copy)
        assert ("missing" if damaged is None else "changed") in error.what or "do not fit" in error.what
        assert str(copy / "spark") in error.detail
        if name != "metadata" and "do not fit" not in error.what:
            assert str(file).removesuffix(".compact") in error.detail
        assert "from one copy" in error.hint
    file.write_bytes(whole)


def flips(content: bytes, steps: int) -> Iterator[bytearray]:
    """The content with one bit flipped, at several places."""
    for at in range(0, len(content), max(1, len(content) // steps)):
        flipped = bytearray(content)
        flipped[at] ^= 1
        yield flipped


def test_what_no_restart_reads_may_be_gone(checkpoints: Checkpoints) -> None:
    """And a torn commit repeats a batch whose result is recorded."""
    copy = checkpoints.copy("done")
    for name in ("offsets/0", "offsets/1", "commits/0", "commits/2", "sources/0/1"):
        (copy / "spark" / name).unlink()
    (copy / "spark" / "commits" / "3").write_bytes(b'v1\n{"nextBa')
    checkpoints.goes_on(copy)


def test_a_batch_that_was_begun_runs_again_as_it_was_planned(checkpoints: Checkpoints) -> None:
    copy = checkpoints.copy("decided")
    planned = (copy / "spark" / "offsets" / "4").read_bytes()
    checkpoints.goes_on(copy)
    assert (copy / "spark" / "offsets" / "4").read_bytes() == planned


@pytest.mark.parametrize("name", ["offsets/4", "sources/0/4"])
def test_a_damaged_plan_of_a_batch_that_was_begun_can_be_removed(checkpoints: Checkpoints, name: str) -> None:
    """Nothing of the batch is visible: Spark may plan it again."""
    copy = checkpoints.copy("decided")
    file, plan = copy / "spark" / name, copy / "spark" / "offsets" / "4"
    file.write_bytes(next(flips(file.read_bytes(), 1)))
    error = checkpoints.refused(copy)
    assert str(file) in error.detail
    assert f"remove {plan}" in error.hint
    plan.unlink()
    checkpoints.goes_on(copy)


def test_what_spark_wrote_for_a_batch_that_was_not_begun_is_planned_again(checkpoints: Checkpoints) -> None:
    """As after a kill between Spark's entry in its log and our decision, with damage in what nobody has sealed."""
    copy = checkpoints.copy("decided")
    for file in (copy / "clash" / "batches").iterdir():
        file.unlink()
    for name in ("offsets/4", "sources/0/4", "sources/1/4"):
        file = copy / "spark" / name
        file.write_bytes(b"" if name.startswith("sources/1") else file.read_bytes().replace(b"1", b"0"))
    checkpoints.goes_on(copy)


def test_halves_of_different_ages(checkpoints: Checkpoints) -> None:
    """As in a copy of a running job: Spark's half may have planned the next batch, and nothing else."""
    for ours in range(LAST + 1):
        for theirs in range(LAST + 1):
            if theirs not in (ours, ours + 1):
                copy = checkpoints.copy(f"at {ours}", f"at {theirs}")
                assert "do not fit" in checkpoints.refused(copy).what
    checkpoints.goes_on(checkpoints.copy("at 1", "at 2"))  # the next batch is the one that compacts the logs


def test_an_empty_half_and_one_of_another_job(checkpoints: Checkpoints) -> None:
    copy = checkpoints.copy("done")
    shutil.rmtree(copy / "spark")
    assert "do not fit" in checkpoints.refused(copy).what
    copy = checkpoints.copy("done")
    shutil.rmtree(copy / "clash")
    assert "do not fit" in checkpoints.refused(copy).what


def test_a_file_that_changes_before_a_run_starts_spark_again(spark: Any, tmp_path: Path) -> None:
    """For another stream, Spark's query is started again while the run goes on."""
    write(tmp_path, range(2))
    engine = clash.Engine(spark, tmp_path / "ck", workers=1)
    declare(engine, spark, tmp_path)
    engine.query("q", JOIN)
    run = engine.start()
    run.process_all_available()
    entry = max((tmp_path / "ck" / "spark" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    entry.write_text(re.sub(r'(logOffset\\?":)', r"\g<1>1", entry.read_text()))
    run.stream("V", spark.readStream.schema("a bigint").parquet(str(tmp_path / "R")))
    run.add_query("v", "SELECT R.x FROM R JOIN V ON R.a = V.a")
    write(tmp_path, range(2, 3))
    with pytest.raises(clash.StateError, match="has changed") as caught:
        run.await_termination(300)
    assert str(entry) in caught.value.detail
