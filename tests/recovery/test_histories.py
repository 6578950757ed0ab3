"""A fixed list of random histories on Spark, with kill -9 at every fail point: queries come and go, workers more and fewer, another random
plan at every boundary, late rows; and still exactly what the oracle says, for each query from its first batch to its last.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from clash.state import failpoints

from ..oracle.case import Case, Row, plain_rows
from ..oracle.oracle import Expected, expect
from . import fitted, histories, test_changes
from .process import Process, running

JOB = Path(histories.__file__)
SEEDS = (35, 82, 38, 60, 157, 168, 410, 435, 446, 477)  # for what they have: see test_what_the_histories_have
WORKER = ("ingest-start", "ingest-end", "round-start", "round-stored", "round-results", "round-end")
SOURCES = ("before-sources", "between-sources")  # these need a stream that is added at run time
TRANSACTION = ("before-transaction", "in-transaction", "after-transaction")  # these need a sink in another system: test_kafka.py
OUTER = ("before-outer-sink", "after-outer-sink")  # these need an outer query: test_outer_queries.py
PROJECTION = ("before-projection", "projection-results", "after-projection")  # these need a projection: test_projections.py
TABLES = ("after-table-files",)  # this needs a reference table: test_tables.py
DRIVER = tuple(sorted(failpoints.NAMES - {*WORKER, *SOURCES, *TRANSACTION, *OUTER, *PROJECTION, *TABLES}))


@cache
def known(seed: int) -> tuple[Case, Expected]:
    case = fitted.history(seed)
    return case, expect(case, fitted.lives(case))


def prepare(root: Path, seed: int) -> None:
    fitted.deliver(root / "in" / str(seed), known(seed)[0])


def play(process: Process, seed: int, **asked: Any) -> dict[str, Any] | None:
    return process.play(f"ck-{seed}", f"out-{seed}", seed=seed, **asked)


def to_the_end(process: Process, seed: int, **asked: Any) -> None:
    """Plays what is left of a history, and compares all of it, also how it was run: every batch under a plan of its own."""
    answer = play(process, seed, **asked)
    assert answer is not None, process.log()
    assert answer["error"] is None, process.log()
    case, expected = known(seed)
    assert answer["batch"] == len(case.batches) - 1
    out = process.root / f"out-{seed}"
    for life in fitted.lives(case):
        wanted = expected.results[life.key]
        if life.ask.name == fitted.handed(case):
            check_handed(out, life.end or len(case.batches), wanted)
        else:
            found = read(out / histories.RESULTS / f"{life.ask.name}.parquet")
            assert found == Counter(row for _, row in wanted.elements()), life
    for stream in case.streams:
        assert read(out / histories.LATE / f"{stream.name}.parquet") == expected.late[stream.name], stream
    batches, workers = zip(*answer["generations"], strict=True)
    assert batches == tuple(range(len(case.batches)))
    rescaled = [[change.workers for change in batch.changes if change.kind == "rescale"] for batch in case.batches]
    sizes = {case.setting.workers, *(at_boundary[-1] for at_boundary in rescaled if at_boundary)}
    assert (len(set(workers)) > 1) == (len(sizes) > 1)  # of several requests at one boundary the last one counts
    assert answer["mirs"]


def check_handed(out: Path, end: int, wanted: Counter[tuple[int, Row]]) -> None:
    """Every batch at least once, and each time the same."""
    batches = set()
    for file in sorted((out / histories.HANDED).glob("*.parquet")):
        batch = int(file.name.partition("-")[0])
        batches.add(batch)
        assert read(file) == Counter(row for at, row in wanted.elements() if at == batch), file.name
    assert batches == set(range(end))


def read(file: Path) -> Counter[Row]:
    return Counter(plain_rows(pq.ParquetFile(file).read().columns))


def worker_killed(process: Process, point: str, seed: int, time: int) -> None:
    """It fails its batch, and the engine gets over that by itself."""
    flag = process.root / f"flag-{point}"
    to_the_end(process, seed, fail=f"{point}@{time}", flag=str(flag))
    assert flag.exists(), process.log()


def driver_killed(process: Process, point: str, seed: int, time: int) -> None:
    """It takes its JVM along: another process has to go on."""
    flag = process.root / f"flag-{point}"
    assert play(process, seed, fail=f"{point}@{time}", flag=str(flag)) is None, process.log()
    assert flag.exists(), process.log()


def test_all_points_are_played() -> None:
    """Here, or on a job that streams are added to."""
    assert {*WORKER, *DRIVER, *SOURCES, *TRANSACTION, *OUTER, *PROJECTION, *TABLES} == failpoints.NAMES
    assert set(SOURCES) <= {point.partition("@")[0] for point in test_changes.POINTS}
    assert len(SEEDS) >= len(DRIVER)  # each has a checkpoint of its own


def test_what_the_histories_have() -> None:
    """In each, queries come, go and have results, and workers are more or fewer; some have late rows."""
    for seed in SEEDS:
        case, expected = known(seed)
        kinds = {change.kind for batch in case.batches for change in batch.changes}
        assert 4 <= len(case.batches) <= fitted.MAX_BATCHES
        assert {"add", "remove", "rescale"} <= kinds
        assert sum(map(bool, expected.results.values())) >= 3
        assert len({batch for results in expected.results.values() for batch, _ in results}) >= 3
        assert all(batch.plan_seed is not None for batch in case.batches[1:])
        assert any(life.ask.name == fitted.handed(case) and (life.end or fitted.MAX_BATCHES) > 4 for life in fitted.lives(case))
    assert sum(any(known(seed)[1].late.values()) for seed in SEEDS) >= 3


def test_a_history(tmp_path: Path) -> None:
    seed = SEEDS[1]
    prepare(tmp_path, seed)
    with running(tmp_path, job=JOB) as process:
        to_the_end(process, seed)


def test_it_is_killed(tmp_path: Path) -> None:
    """The driver, and then a worker of the next one."""
    seed = SEEDS[0]
    prepare(tmp_path, seed)
    with running(tmp_path, job=JOB) as process:
        driver_killed(process, "after-generation", seed, 2)
    with running(tmp_path, job=JOB) as process:
        worker_killed(process, "round-stored", seed, 2)


@pytest.mark.slow
def test_every_history(tmp_path: Path) -> None:
    with running(tmp_path, job=JOB) as process:
        for seed in SEEDS:
            prepare(tmp_path, seed)
            to_the_end(process, seed)


@pytest.mark.slow
def test_a_worker_is_killed_everywhere(tmp_path: Path) -> None:
    with running(tmp_path, job=JOB) as process:
        for at, (point, seed) in enumerate(zip(WORKER, SEEDS, strict=False)):
            prepare(tmp_path, seed)
            worker_killed(process, point, seed, 2 + at % 2)


@pytest.mark.slow
def test_the_driver_is_killed_everywhere(tmp_path: Path) -> None:
    """Each process ends the history that the one before was killed in, and is killed in the next one."""
    left = None
    for at, (point, seed) in enumerate(zip(DRIVER, SEEDS, strict=False)):
        with running(tmp_path, job=JOB) as process:
            if left is not None:
                to_the_end(process, left)
            prepare(tmp_path, seed)
            driver_killed(process, point, seed, 2 + at % 2)
        left = seed
    with running(tmp_path, job=JOB) as process:
        assert left is not None
        to_the_end(process, left)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[1:4])
def test_it_is_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    """One process after the other gets a batch or two further, each to another point; the last one finds nothing left to do, or little."""
    prepare(tmp_path, seed)
    for point in Random(seed).sample(DRIVER, len(DRIVER)):
        flag = tmp_path / f"flag-{point}"
        with running(tmp_path, job=JOB) as process:
            if play(process, seed, fail=f"{point}@2", flag=str(flag)) is not None:
                break
        assert flag.exists()
    assert len([*tmp_path.glob("flag-*")]) > 2
    with running(tmp_path, job=JOB) as process:
        to_the_end(process, seed)
