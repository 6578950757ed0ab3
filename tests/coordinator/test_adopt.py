"""With strategy="independent" every query has stores of its own; a new one begins with what others have stored, all the same."""

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
SOME = f"{PAIRS} WHERE R.x > 1"


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
    """Files by store; all that are there are named."""
    found: dict[str, set[str]] = {}
    for record in run.coordinator.manifest.containers:
        found.setdefault(record.store, set()).add(record.path)
    there = {f"state/{name}" for name in run.coordinator.storage.list("state", recursive=True)}
    assert there == {path for paths in found.values() for path in paths}
    return found


@pytest.fixture
def run(tmp_path: Path) -> Iterator[InProcessEngine]:
    made = independent(tmp_path)
    for batch in range(3):
        made.batch(rows(batch))
    yield made
    containers(made)


def test_both_go_on_with_the_same_files(run: InProcessEngine) -> None:
    """And each merges, or rewrites, its own in its own time."""
    before = containers(run)
    change = run.add_query("p", PAIRS)
    run.batch(rows(3))
    assert (change.batch, change.complete_from) == (3, 3)
    shared = {path for paths in before.values() for path in paths}
    assert any(record.donor and record.path in shared for record in run.coordinator.manifest.containers)
    for batch in range(4, 12):
        run.batch(rows(batch))
    assert all(record.donor is None for record in run.coordinator.manifest.containers)  # windows never end, so they are rewritten
    assert pairs(run, "q") == since(0, 12)
    assert pairs(run, "p") == since(3, 12)


def test_a_donor_may_go_at_the_same_border(run: InProcessEngine) -> None:
    run.add_query("p", PAIRS)
    run.remove_query("q")
    run.batch(rows(3))
    assert len(containers(run)) == 2
    run.rescale(3)
    run.batch(rows(4))
    run.add_query("r", SOME)  # from a store that has some of its files from another one
    run.remove_query("p")
    for batch in range(5, 10):
        run.batch(rows(batch))
    assert pairs(run, "p") == since(3, 5)
    assert pairs(run, "r") == [pair for pair in since(5, 10) if pair[0] > 1]


@pytest.mark.parametrize("point", ["after-generation", "after-record", "before-manifest", "after-manifest", "after-cleanup"])
def test_a_crash_takes_over_once(run: InProcessEngine, point: str) -> None:
    run.add_query("p", PAIRS)
    failpoints._reached.clear()
    with patch.dict(os.environ, CLASH_FAILPOINT=f"{point}@1!raise"), pytest.raises(RuntimeError, match="fail point"):
        run.batch(rows(3))
    run.restart()
    if run.coordinator.last < 3:
        if run.coordinator.generation.number == 0:  # it was not recorded, so it is asked for again
            run.add_query("p", PAIRS)
        run.batch(rows(3))
    else:
        run.coordinator.publish(3)
    run.batch(rows(4))
    assert pairs(run, "p") == since(3, 5)


def test_of_every_stream_the_one_that_lacks_least_is_taken() -> None:
    run = independent(narrow=SOME, other=PAIRS.replace("S.x", "S.y"))
    for batch in range(3):
        run.batch(rows(batch))
    change = run.add_query("p", PAIRS)  # of R, narrow has only some rows, and of S, other has no x
    run.batch(rows(3))
    taken = {(adoption.stream, adoption.donor) for adoption in run.coordinator.generation.adopted}
    assert taken == {("R", "other"), ("S", "narrow")}
    assert change.complete_from == 3
    assert pairs(run, "p") == since(3, 4)


def test_what_nobody_kept_is_missing_and_nothing_is_made_up() -> None:
    run = independent(narrow=SOME)
    for batch in range(3):
        run.batch(rows(batch))
    change = run.add_query("p", PAIRS)
    unread = run.add_query("u", PAIRS.replace("S.x", "S.y"))
    run.batch(rows(3))
    assert change.complete_from is unread.complete_from is None
    assert pairs(run, "p") == [pair for pair in since(3, 4) if pair[0] > 1]
    assert pairs(run, "u") == [pair for pair in since(3, 4) if pair[0] > 1 and pair[1] == 3]


def test_a_query_in_the_place_of_another() -> None:
    """Its own former store had less than the neighbour's."""
    run = independent(q=PAIRS, p=SOME)
    run.batch(rows(0))
    run.batch(rows(1))
    change = run.replace_query("p", PAIRS)
    run.batch(rows(2))
    assert change.complete_from == 2
    assert pairs(run, "p") == since(2, 3)


def test_without_history_nothing_is_taken(run: InProcessEngine) -> None:
    run.add_query("p", PAIRS, history=False)
    run.batch(rows(3))
    assert all(record.donor is None for record in run.coordinator.manifest.containers)
    assert pairs(run, "p") == since(3, 4, oldest=3)


def test_what_is_kept_for_queries_to_come(tmp_path: Path) -> None:
    """Whoever reads it, and while nobody does."""
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
