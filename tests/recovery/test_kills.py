"""kill -9 wherever it hurts: results stay exactly once, and readers see those of committed batches only.

One job with all shapes of queries. Each start goes on from what the one before left, so one checkpoint sees many crashes; a killed worker
fails its batch, a killed driver takes its JVM along.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clash.state import failpoints

from . import shapes
from .process import Process, Reader, running

CHANGING = ("after-generation", "before-sources", "between-sources")  # played in test_changes.py
TRANSACTION = ("before-transaction", "in-transaction", "after-transaction")  # played in test_kafka.py
OUTER = ("before-outer-sink", "after-outer-sink")  # played in test_outer_queries.py
PROJECTION = ("before-projection", "projection-results", "after-projection")  # played in test_projections.py
TABLES = ("after-table-files",)  # played in test_tables.py
WORKER = ("ingest-start", "ingest-end", "round-start", "round-stored", "round-results", "round-end")
DRIVER = tuple(sorted(failpoints.NAMES - {*WORKER, *CHANGING, *TRANSACTION, *OUTER, *PROJECTION, *TABLES}))
QUICK = ("before-manifest", "after-manifest", "after-publish")


def prepare(root: Path, files: int) -> Reader:
    shapes.write(root / "in", range(files))
    return Reader(root, files)


def killed_at(process: Process, reader: Reader, point: str) -> None:
    """The driver dies in its second batch; what it leaves is looked at before the next start."""
    before = reader.last()
    flag = process.root / f"flag-{point}-{before}"
    with reader.watching():
        assert process.play(fail=f"{point}@2", flag=str(flag)) is None, process.log()
    assert flag.exists(), process.log()
    last = reader.last()
    assert last > before
    reader.check_all(last, last - 1 if point == "after-manifest" else last)


def goes_on(process: Process, reader: Reader, **asked: Any) -> None:
    """The engine is stopped, or gets by itself over what happens."""
    with reader.watching():
        answer = process.play(**asked)
    assert answer is not None, process.log()
    assert answer["error"] is None
    reader.check_all(reader.last())


def test_all_points_are_played() -> None:
    assert set(WORKER) < failpoints.NAMES
    assert set(QUICK) < set(DRIVER)


def test_plain_and_stopped_and_killed(tmp_path: Path) -> None:
    """Plain; stopped in the middle; a worker killed once; the driver killed around the commit."""
    files = 10
    reader = prepare(tmp_path, files)
    with running(tmp_path) as process:
        goes_on(process, reader, until=1)
        goes_on(process, reader, until=3, fail="round-stored@3", flag=str(tmp_path / "flag"))
        assert (tmp_path / "flag").exists()
        killed_at(process, reader, QUICK[0])
    for point in QUICK[1:]:
        with running(tmp_path) as process:
            killed_at(process, reader, point)
    with running(tmp_path) as process:
        with reader.watching():
            answer = process.play()
        reader.check_end(answer)
        plain = Reader(tmp_path, files, "ck2", "out2")
        plain.check_end(process.play("ck2", "out2"))


@pytest.mark.slow
def test_a_worker_is_killed_everywhere(tmp_path: Path) -> None:
    """Once each: the engine gets over it by itself; then again and again, until it gives up."""
    reader = prepare(tmp_path, 3 * len(WORKER))
    with running(tmp_path) as process:
        for point in WORKER:
            goes_on(process, reader, until=reader.last() + 2, fail=f"{point}@2", flag=str(tmp_path / point))
            assert (tmp_path / point).exists()
        answer = process.play(fail="round-results")
        assert answer is not None, process.log()
        assert answer["error"]["what"] == "Spark lost a process that worked on the batch, again and again"
        reader.check_all(reader.last())
        answer = process.play()
    reader.check_end(answer)


@pytest.mark.slow
def test_the_driver_is_killed_everywhere(tmp_path: Path) -> None:
    reader = prepare(tmp_path, 2 * len(DRIVER) + 2)
    for point in DRIVER:
        with running(tmp_path) as process:
            killed_at(process, reader, point)
    with running(tmp_path) as process:
        answer = process.play()
    reader.check_end(answer)


@pytest.mark.slow
def test_everything_is_killed_at_any_moment(tmp_path: Path) -> None:
    """The driver, its JVM and the workers at once, as when a machine fails."""
    random = Random(7)
    reader = prepare(tmp_path, 20)
    for target in (1, 4, 8, 12):
        with running(tmp_path) as process:
            process.ask()
            with reader.watching():
                while reader.last() < target and process.process.poll() is None:
                    time.sleep(0.005)
                time.sleep(random.random())
                process.kill()
        last = reader.last()
        reader.check(last - 1, last)  # the last one may be committed and not published
    with running(tmp_path) as process:
        answer = process.play()
    reader.check_end(answer)


@pytest.mark.slow
def test_it_is_stopped_at_any_moment(tmp_path: Path) -> None:
    random = Random(5)
    reader = prepare(tmp_path, 30)
    with running(tmp_path) as process:
        for _ in range(12):
            goes_on(process, reader, until=reader.last() + 1, pause=random.random() / 2)
        answer = process.play()
    reader.check_end(answer)
