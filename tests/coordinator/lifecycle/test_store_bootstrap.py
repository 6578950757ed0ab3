"""With strategy="independent" every query has stores of its own; a new one still begins with what other stores have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.state import failpoints

STREAMS = [Stream.of(name, {"a": "bigint", "x": "bigint", "y": "bigint"}) for name in "RS"]
PAIRS = "SELECT R.x AS r, S.x AS s FROM R JOIN S ON R.a = S.a"
FILTERED = f"{PAIRS} WHERE R.x > 1"


def rows(batch: int) -> dict[str, pa.Table]:
    """Two of each stream; x tells the batch, and all match."""
    return {name: pa.table({"a": [1, 1], "x": [batch, batch], "y": [batch, batch]}) for name in "RS"}


def independent(path: Path | None = None, streams: list[Stream] = STREAMS, **queries: str) -> InProcessEngine:
    uri = None if path is None else str(path)
    return InProcessEngine(streams, queries or {"q": PAIRS}, strategy="independent", uri=uri, tuning={"relayout_rows": 2})


def pairs(run: InProcessEngine, query: str) -> list[tuple[int, int]]:
    return sorted((row["r"], row["s"]) for row in run.results(query).to_pylist())


def since(first: int, end: int, oldest: int = 0) -> list[tuple[int, int]]:
    every = [(r, s) for r in range(oldest, end) for s in range(oldest, end) for _ in range(4)]
    return [pair for pair in every if max(pair) >= first]


def containers(run: InProcessEngine) -> dict[str, set[str]]:
    """Files by store; every file on disk is listed."""
    listed: dict[str, set[str]] = {}
    for record in run.coordinator.manifest.containers:
        listed.setdefault(record.store, set()).add(record.path)
    on_disk = {f"state/{name}" for name in run.coordinator.storage.list("state", recursive=True)}
    assert on_disk == {path for paths in listed.values() for path in paths}
    return listed


@pytest.fixture
def run(tmp_path: Path) -> Iterator[InProcessEngine]:
    engine = independent(tmp_path)
    for batch in range(3):
        engine.batch(rows(batch))
    yield engine
    containers(engine)


def test_both_stores_continue_with_the_same_files(run: InProcessEngine) -> None:
    """Each store merges, or moves to another layout, its own rows in its own time."""
    before = containers(run)
    change = run.add_query("p", PAIRS)
    run.batch(rows(3))
    assert (change.batch, change.complete_from) == (3, 3)
    shared = {path for paths in before.values() for path in paths}
    assert any(record.writer and record.path in shared for record in run.coordinator.manifest.containers)
    for batch in range(4, 12):
        run.batch(rows(batch))
    assert all(record.writer is None for record in run.coordinator.manifest.containers)  # windows never end, so rows move to today's layout
    assert pairs(run, "q") == since(0, 12)
    assert pairs(run, "p") == since(3, 12)


def test_a_donor_may_be_removed_at_the_same_boundary(run: InProcessEngine) -> None:
    run.add_query("p", PAIRS)
    run.remove_query("q")
    run.batch(rows(3))
    assert len(containers(run)) == 2
    run.rescale(3)
    run.batch(rows(4))
    run.add_query("r", FILTERED)  # from a store that has some of its files from another one
    run.remove_query("p")
    for batch in range(5, 10):
        run.batch(rows(batch))
    assert pairs(run, "p") == since(3, 5)
    assert pairs(run, "r") == [pair for pair in since(5, 10) if pair[0] > 1]


@pytest.mark.parametrize("point", ["after-generation", "after-record", "before-manifest", "after-manifest", "after-cleanup"])
def test_a_crash_does_not_bootstrap_twice(run: InProcessEngine, point: str) -> None:
    run.add_query("p", PAIRS)
    failpoints._reached.clear()
    with patch.dict(os.environ, CLASH_FAILPOINT=f"{point}@1!raise"), pytest.raises(RuntimeError, match="fail point"):
        run.batch(rows(3))
    run.restart()
    if run.coordinator.last < 3:
        if run.coordinator.generation.number == 0:  # it was not recorded, so it is requested again
            run.add_query("p", PAIRS)
        run.batch(rows(3))
    else:
        run.coordinator.publish(3)
    run.batch(rows(4))
    assert pairs(run, "p") == since(3, 5)


def test_the_donor_of_each_stream_is_the_store_that_lacks_least() -> None:
    run = independent(narrow=FILTERED, other=PAIRS.replace("S.x", "S.y"))
    for batch in range(3):
        run.batch(rows(batch))
    change = run.add_query("p", PAIRS)  # of R, narrow has only some rows, and of S, other has no x
    run.batch(rows(3))
    donors = {(new.stream, new.donor) for new in run.coordinator.generation.bootstraps}
    assert donors == {("R", "other"), ("S", "narrow")}
    assert change.complete_from == 3
    assert pairs(run, "p") == since(3, 4)


def test_what_no_store_retained_is_missing_and_nothing_is_invented() -> None:
    run = independent(narrow=FILTERED)
    for batch in range(3):
        run.batch(rows(batch))
    change = run.add_query("p", PAIRS)
    unread = run.add_query("u", PAIRS.replace("S.x", "S.y"))
    run.batch(rows(3))
    assert change.complete_from is unread.complete_from is None
    assert pairs(run, "p") == [pair for pair in since(3, 4) if pair[0] > 1]
    assert pairs(run, "u") == [pair for pair in since(3, 4) if pair[0] > 1 and pair[1] == 3]


def test_a_query_that_replaces_another_begins_with_the_better_store() -> None:
    """The store of the replaced query had fewer rows than that of the other query."""
    run = independent(q=PAIRS, p=FILTERED)
    run.batch(rows(0))
    run.batch(rows(1))
    change = run.replace_query("p", PAIRS)
    run.batch(rows(2))
    assert change.complete_from == 2
    assert pairs(run, "p") == since(2, 3)


def test_without_history_a_store_begins_empty(run: InProcessEngine) -> None:
    run.add_query("p", PAIRS, history=False)
    run.batch(rows(3))
    assert all(record.writer is None for record in run.coordinator.manifest.containers)
    assert pairs(run, "p") == since(3, 4, oldest=3)


def test_what_is_retained_for_queries_to_come(tmp_path: Path) -> None:
    """Whichever query reads it, and while none does."""
    streams = [Stream.of(s.name, dict(s.columns), keep="all") for s in STREAMS]
    run = independent(tmp_path, streams)
    run.batch(rows(0))
    run.remove_query("q")
    run.batch(rows(1))
    assert set(containers(run)) == {"s_R", "s_S"}
    fresh = run.add_query("fresh", PAIRS, history=False)
    run.batch(rows(2))
    assert fresh.complete_from == 2
    run.remove_query("fresh")
    change = run.add_query("p", PAIRS.replace("S.x", "S.y"))
    run.batch(rows(3))
    assert change.complete_from == 3
    assert pairs(run, "fresh") == since(2, 3, oldest=2)
    assert pairs(run, "p") == since(3, 4)
    containers(run)
