"""Bad input, bad files and full disks: the run stops with a message that names the place, and goes on once the cause is gone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clash
from clash.workers.loaded_plan import load_plan

from .oracle import counted
from .shapes import set_age
from .small import KINDS, Small


@pytest.fixture
def small(spark: Any, tmp_path: Path) -> Small:
    made = Small(spark, tmp_path)
    made.deliver()
    return made


def goes_on(small: Small) -> None:
    """With one file more than there was."""
    small.deliver()
    small.run()
    assert small.last() == small.batches - 1
    assert small.visible() == small.expected()


def test_a_poisoned_row(small: Small) -> None:
    small.deliver(poisoned='{"a": "seven", "x": ')
    error = small.fails(clash.SourceError)
    assert error.what == "stream R cannot be read"
    assert "batch 1" in error.detail
    assert "R/001.json" in error.detail
    assert small.visible() == small.expected(1)
    small.repair(1)
    goes_on(small)


@pytest.mark.parametrize("repaired", [True, False])
def test_a_broken_file(small: Small, repaired: bool) -> None:
    """Repaired or, as the hint says, removed."""
    small.run()
    small.deliver()
    whole = small.s(1).read_bytes()
    small.s(1).write_bytes(whole[: len(whole) // 2])
    set_age(small.s(1), 1)
    error = small.fails(clash.SourceError)
    assert error.what == "stream S cannot be read"
    assert "batch 1" in error.detail
    assert "S/001.parquet" in error.detail
    assert small.visible() == small.expected(1)
    if repaired:
        small.s(1).write_bytes(whole)
        set_age(small.s(1), 1)
    else:
        small.s(1).unlink()
    goes_on(small)


def test_a_corrupt_container(small: Small) -> None:
    small.run()
    file = max((small.checkpoint / "clash" / "state").rglob("*.clash"), key=lambda file: file.stat().st_size)
    whole = file.read_bytes()
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + bytes(byte ^ 0xFF for byte in whole[middle : middle + 8]) + whole[middle + 8 :])
    small.deliver()
    error = small.fails(clash.StateError)
    assert error.what == "a container is corrupt"
    assert str(file) in error.detail
    file.unlink()
    error = small.fails(clash.StateError)
    assert error.what == "a file of the state is missing"
    assert str(file) in error.detail
    file.write_bytes(whole)
    goes_on(small)


def test_a_corrupt_record(small: Small) -> None:
    small.run()
    folder = small.checkpoint / "clash"
    for file in (folder / "job.json", *(folder / "manifests").iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        error = small.fails(clash.StateError)
        assert "corrupt" in error.what
        assert str(file) in error.detail
        file.write_bytes(whole)
    (plan,) = (folder / "plans").iterdir()
    plan.write_bytes(plan.read_bytes()[:100])
    load_plan.cache_clear()  # as in a new process
    goes_on(small)  # no batch in work names the plan: it is written again, from the record of its generation


def test_a_sink_that_throws(small: Small) -> None:
    handed: dict[int, Any] = {}
    locked = True

    def sink(df: Any, batch: int) -> None:
        if locked:
            raise OSError("the table is locked")
        handed[batch] = counted(df.toArrow())

    error = small.fails(clash.SinkError, sink=sink)
    assert error.what == "the sink of query each failed"
    assert error.detail == "batch 0: OSError: the table is locked"
    assert small.visible() == small.expected()  # it is committed: others have their results
    locked = False
    small.deliver()
    small.run(sink=sink)
    assert handed[0] + handed[1] == small.visible() == small.expected()


PAGE = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("cannot mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    """Up to a page, which the driver's record of a batch needs."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
        file.truncate(file.tell() - PAGE)
    return ballast


@pytest.mark.parametrize("part", ["ck/clash", "out", "ck/spark"])
def test_a_full_disk(small: Small, disk: Path, part: str) -> None:
    """Of the state, of a sink, of Spark's own checkpoint."""
    place = small.root / part
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(disk)
    small.run()
    small.deliver()
    ballast = fill(disk)
    error = small.fails(clash.StateError)
    assert "No space left on device" in error.detail
    assert str(place) in error.detail
    assert small.visible() == small.expected(1)
    ballast.unlink()
    goes_on(small)


def test_another_job_is_refused(small: Small) -> None:
    small.engine().start(available_now=True).stop()
    error = small.fails(clash.CheckpointError, kinds={**KINDS, "S": "a bigint, y string"})
    assert error.what == "the checkpoint belongs to another job"
    assert "column S.y was bigint, now string" in error.detail
    assert str(small.checkpoint) in error.detail


@pytest.mark.parametrize("part", ["spark", "clash"])
def test_half_a_checkpoint(small: Small, part: str) -> None:
    """After one batch already: Spark's next one would be called like our last one."""
    small.run()
    small.deliver()
    (small.checkpoint / part).rename(small.root / "aside")
    error = small.fails(clash.CheckpointError)
    assert error.what == "the two halves of the checkpoint do not fit together"
    assert str(small.checkpoint) in error.detail
    shutil.rmtree(small.checkpoint / part, ignore_errors=True)
    (small.root / "aside").rename(small.checkpoint / part)
    goes_on(small)
