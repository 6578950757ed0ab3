"""kill -9 wherever it hurts: results stay exactly once, and readers see those of committed batches only.

One job with all shapes of queries. Each start goes on from what the one before left, so one checkpoint sees many crashes; a killed worker
fails its batch, a killed driver takes its JVM along.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from clash.state import failpoints

from . import shapes
from .oracle import Expected
from .process import Process, Reader, running

WORKER = ("ingest-start", "ingest-end", "round-start", "round-stored", "round-results", "round-end")
DRIVER = tuple(sorted(failpoints.NAMES - set(WORKER)))
QUICK = ("before-manifest", "after-manifest", "after-publish")


def prepare(root: Path, batches: int) -> Reader:
    shapes.write(root / "in", range(batches))
    return Reader(root, Expected(batches))


def killed_at(process: Process, reader: Reader, point: str) -> None:
    """The driver dies in its second batch; what it leaves is looked at before the next start."""
    before = reader.last()
    flag = process.root / f"flag-{point}-{before}"
    with reader.watching():
        assert process.play(fail=f"{point}@2", flag=str(flag)) is None, process.log()
    assert flag.exists()
    last = reader.last()
    assert last > before
    reader.check_all(last, last - 1 if point == "after-manifest" else last)


def test_all_points_are_played() -> None:
    assert set(WORKER) < failpoints.NAMES
    assert set(QUICK) < set(DRIVER)


def test_plain_and_stopped_and_killed(tmp_path: Path) -> None:
    """Plain; stopped in the middle; a worker killed once; one killed again and again; the driver killed around the commit."""
    batches = 12
    reader = prepare(tmp_path, batches)
    end = batches - 1
    with running(tmp_path) as process:
        answer = process.play(until=1)
        assert answer is not None, process.log()
        assert answer["error"] is None
        reader.check_all(answer["batch"])
        with reader.watching():
            answer = process.play(until=3, fail="round-stored@3", flag=str(tmp_path / "flag"))
        assert answer is not None, process.log()
        assert answer["error"] is None  # the engine ran the batch again by itself
        assert (tmp_path / "flag").exists()
        reader.check_all(answer["batch"])
        answer = process.play(fail="round-results")
        assert answer is not None, process.log()
        assert answer["error"]["what"] == "Spark lost a process that worked on the batch, again and again"
        reader.check_all(reader.last())
        killed_at(process, reader, QUICK[0])
    for point in QUICK[1:]:
        with running(tmp_path) as process:
            killed_at(process, reader, point)
    with running(tmp_path) as process:
        with reader.watching():
            answer = process.play()
        assert answer is not None, process.log()
        assert answer["error"] is None
        reader.check_all(end)
        reader.check_handed(end)
        answer = process.play("ck2", "out2")
        assert answer is not None, process.log()
        assert answer["error"] is None
    plain = Reader(tmp_path, reader.expected, "ck2", "out2")
    plain.check_all(end)
    plain.check_handed(end)


@pytest.mark.slow
def test_a_worker_is_killed_everywhere(tmp_path: Path) -> None:
    """Two batches for each point."""
    batches = 2 * len(WORKER) + 2
    reader = prepare(tmp_path, batches)
    with running(tmp_path) as process:
        for at, point in enumerate(WORKER):
            with reader.watching():
                answer = process.play(until=2 * at + 1, fail=f"{point}@2", flag=str(tmp_path / point))
            assert answer is not None, process.log()
            assert answer["error"] is None
            assert (tmp_path / point).exists()
            reader.check_all(answer["batch"])
        answer = process.play()
    assert answer is not None
    assert answer["error"] is None
    reader.check_all(batches - 1)
    reader.check_handed(batches - 1)


@pytest.mark.slow
def test_the_driver_is_killed_everywhere(tmp_path: Path) -> None:
    batches = 2 * len(DRIVER) + 2
    reader = prepare(tmp_path, batches)
    for point in DRIVER:
        with running(tmp_path) as process:
            killed_at(process, reader, point)
    with running(tmp_path) as process:
        answer = process.play()
    assert answer is not None
    assert answer["error"] is None
    reader.check_all(batches - 1)
    reader.check_handed(batches - 1)
