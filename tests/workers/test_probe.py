"""What a match needs, condition by condition and all at once. The expected pairs are found by brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clash
from clash.columnar.block import Block
from clash.columnar.key_words import key_words
from clash.model.block_columns import ARRIVAL, NUMBER_BITS
from clash.model.stream import Stream
from clash.workers import probe, stored_container
from clash.workers.probe import probe_step
from clash.workers.stores import WorkerStores

from ..topology.plans import by_hand
from .batches import Checkpoint, arrival, checkpoint, stored, stream
from .probing import JOIN, containers_of, one_worker, pairs, probing, rows_of


@pytest.fixture(scope="module")
def plain() -> Checkpoint:
    return one_worker()


# ---- keys --------------------------------------------------------------------------------------------------------


def test_keys_are_equal(plain: Checkpoint) -> None:
    containers = containers_of(plain, "s_S", stored(plain, "s_S", range(4), a=[1, 2, 2, 3], v=[0, 1, 2, 3]))
    assert pairs(plain, probing(plain, "R", [10, 11, 12], a=[2, 4, 3]), containers) == [(10, 1), (10, 2), (12, 3)]


def test_null_keys_match_nothing(plain: Checkpoint) -> None:
    containers = containers_of(plain, "s_S", stored(plain, "s_S", range(2), a=[None, 1], v=[0, 1]))
    assert pairs(plain, probing(plain, "R", [10, 11], a=[None, 1]), containers) == [(11, 1)]


KEYS: dict[str, list[Any]] = {
    "string": ["", "a", "aa", "ab", "a" * 40],
    "double": [float("nan"), 0.0, -0.0, 1.5, float("inf")],
    "decimal(38,2)": ["0.00", "1.00", "-1.00", "123456789012345678901234567890.12"],
    "bigint": [0, -1, 2**63 - 1],
}


def keyed(kind: str, two_columns: bool) -> Checkpoint:
    streams = [Stream.of(name, {"k": kind, "j": "int", "v": "int"}) for name in "RS"]
    text = "SELECT R.v, S.v AS w FROM R JOIN S ON R.k = S.k" + (" AND R.j = S.j" if two_columns else "")
    return checkpoint(clash.optimize({"q": text}, streams=streams, workers=1, time_limit=0.0))


def values(kind: str) -> list[Any]:
    return [Decimal(key) for key in KEYS[kind]] if kind.startswith("decimal") else KEYS[kind]


def equal(x: Any, y: Any) -> bool:
    """Spark's `=`: NaN equals itself, and the zeros are one."""
    return bool(x == y or (x != x and y != y))


@pytest.mark.parametrize("two_columns", [False, True])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("collide", [False, True])
def test_equal_hashes_are_compared_again(kind: str, two_columns: bool, collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair of keys, where hashes tell them apart, and where all hashes are equal."""
    found, keys = keyed(kind, two_columns), values(kind)
    n = len(keys)
    if collide:
        _all_hashes_equal(monkeypatch)
    containers = containers_of(found, "s_S", stored(found, "s_S", range(n), k=keys, j=1, v=list(range(n))))
    block = probing(found, "R", range(n, 2 * n), k=keys, j=1)
    assert pairs(found, block, containers) == [(n + i, j) for i in range(n) for j in range(n) if equal(keys[i], keys[j])]


def _all_hashes_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    def same_word(*arguments: Any, real: Callable[..., Any] = key_words) -> Any:
        words = real(*arguments)
        return words._replace(words=words.words * 0, exact=False)

    monkeypatch.setattr(probe, "key_words", same_word)
    monkeypatch.setattr(stored_container, "key_words", same_word)


# ---- arrivals ----------------------------------------------------------------------------------------------------


def test_the_stored_row_came_first(plain: Checkpoint) -> None:
    containers = containers_of(plain, "s_S", stored(plain, "s_S", [1, 5, 9], a=1, v=[1, 5, 9]))
    assert pairs(plain, probing(plain, "R", [0, 5, 6, 20], a=1), containers) == [(5, 1), (6, 1), (6, 5), (20, 1), (20, 5), (20, 9)]


def test_of_one_arrival_the_relation_with_the_smaller_number_came_first() -> None:
    """A tuple meets itself in a self-join once: in its last role it finds itself in the first one."""
    found = one_worker("SELECT x.v, y.v AS w FROM R x JOIN R y ON x.a = y.a")
    containers = containers_of(found, "s_R", stored(found, "s_R", [3], a=1, v=3))
    first, second = found.step("R", "R#2"), found.step("R#2", "R")
    assert list(probe_step(found.plan, first, probing(found, "R", [3], a=1), containers, 10)) == []
    (result,) = probe_step(found.plan, second, probing(found, "R#2", [3], a=1), containers, 10)
    assert result.columns["R.v"].to_pylist() == [3]
    (result,) = probe_step(found.plan, first, probing(found, "R", [4], a=1), containers, 10)
    assert result.columns["R#2.v"].to_pylist() == [3]


def test_of_one_arrival_a_relation_with_a_larger_number_is_not_met() -> None:
    """Also where the probing tuple is not in the first role."""
    found = one_worker("SELECT x.v, y.v AS w, z.v AS u FROM R x, R y, R z WHERE x.a = z.a AND y.b = z.b")
    containers = containers_of(found, "s_R", stored(found, "s_R", [3], a=1, b=1, v=3))
    step = found.step("R#2", "R#3")
    assert list(probe_step(found.plan, step, probing(found, "R#2", [3], a=1, b=1), containers, 10)) == []
    assert len(list(probe_step(found.plan, step, probing(found, "R#2", [4], a=1, b=1), containers, 10))) == 1


@pytest.mark.parametrize(
    ("since", "before", "expected"), [(0, None, [1, 2, 3]), (2, None, [2, 3]), (0, 3, [1, 2]), (2, 3, [2]), (4, None, [])]
)
def test_a_branch_matches_rows_within_its_bounds(plain: Checkpoint, since: int, before: int | None, expected: list[int]) -> None:
    step = replace(plain.step("R", "S"), since=arrival(since), before=None if before is None else arrival(before))
    for blocks in ([[1, 2, 3]], [[1], [2], [3]]):
        containers = containers_of(plain, "s_S", *(stored(plain, "s_S", numbers, a=1, v=numbers) for numbers in blocks))
        assert pairs(plain, probing(plain, "R", [10], a=1), containers, step) == [(10, v) for v in expected]


def test_rows_that_were_moved_elsewhere_do_not_match(plain: Checkpoint) -> None:
    record = plain.write("s_S", stored(plain, "s_S", [1, 2, 3], a=1, v=[1, 2, 3])).counting_from(arrival(2))
    containers = WorkerStores(plain.spec(record), 0, 1).open(plain.copy("s_S"))
    assert pairs(plain, probing(plain, "R", [10], a=1), containers) == [(10, 2), (10, 3)]


# ---- windows and predicates --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "expected"),
    [(4, False), (5, True), (10, True), (13, True), (14, False)],  # S is matched for 5 seconds after it, R for 3
)
def test_each_side_is_in_the_window_of_the_other(time: int, expected: bool) -> None:
    found = one_worker(JOIN, "3 seconds", "5 seconds")
    containers = containers_of(found, "s_S", stored(found, "s_S", [1], a=1, v=7, time=[time]))
    block = probing(found, "R", [2], a=1, time=[10])
    assert pairs(found, block, containers) == [(2, 7)] * expected


def test_filters_hold_for_the_stored_row() -> None:
    found = one_worker(JOIN + " WHERE S.v > 1 AND S.b = S.v")
    block = stored(found, "s_S", range(5), a=1, v=[1, 2, 3, None, 4], b=[1, 2, 4, 3, None])
    assert pairs(found, probing(found, "R", [10], a=1), containers_of(found, "s_S", block)) == [(10, 2)]


def test_residuals_hold_for_the_pair() -> None:
    found = one_worker(JOIN + " AND R.v < S.v")
    containers = containers_of(found, "s_S", stored(found, "s_S", range(4), a=1, v=[1, 2, 3, None]))
    assert pairs(found, probing(found, "R", [10, 11, 12], a=1, v=[1, 2, None]), containers) == [(10, 2), (10, 3), (11, 3)]


def test_without_keys_every_row_is_met() -> None:
    found = one_worker("SELECT R.v, S.v AS w FROM R CROSS JOIN S")
    assert found.step("R", "S").path is None
    containers = containers_of(found, "s_S", stored(found, "s_S", [1, 5], v=[1, 5]), stored(found, "s_S", [7], v=7))
    assert pairs(found, probing(found, "R", [4, 6]), containers) == [(4, 1), (6, 1), (6, 5)]


def test_a_worker_answers_for_its_own_rows_where_all_workers_probe() -> None:
    """The probing block goes to every worker, as the partition column is not known; old containers have rows of several workers."""

    def laid_out(column: str, workers: int, uri: str | None, generation: int) -> Checkpoint:
        layouts = {"R": "a", "S": column}
        plan = by_hand({"q": JOIN}, ["q: R S", "q: S R"], layouts, workers, [stream("R"), stream("S")])
        return checkpoint(plan, uri=uri, generation=generation)

    old = laid_out("1", 1, None, 1)
    now = laid_out("v", 3, old.uri, 2)
    record = old.write("s_S", stored(old, "s_S", range(20), a=1, v=list(range(20))))
    spec, step = now.spec(record, older={"s_S": (old.version("s_S"),)}), now.step("R", "S")
    assert step.own_rows_only
    block = probing(now, "R", [30], a=1)
    by_worker = [pairs(now, block, WorkerStores(spec, worker, 1).open(now.copy("s_S"))) for worker in range(3)]
    assert sorted(match for matches in by_worker for match in matches) == [(30, v) for v in range(20)]
    assert all(by_worker)


# ---- all at once -------------------------------------------------------------------------------------------------

ALL = "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a AND R.b < S.b WHERE S.s = 'x'"
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.sampled_from([1, 2, None]),
            "b": st.sampled_from([0, 1, 2, None]),
            "s": st.sampled_from(["x", "x", "y"]),
            "time": st.integers(0, 8),
        }
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def everything() -> Checkpoint:
    return one_worker(ALL, "3 seconds", "4 seconds")


def is_match(r: dict[str, Any], s: dict[str, Any], since: int, before: int) -> bool:
    """The definition."""
    if None in (r["a"], s["a"], r["b"], s["b"]):
        return False
    latest = max(r["time"], s["time"])
    predicates = r["a"] == s["a"] and r["b"] < s["b"] and s["s"] == "x"
    in_windows = latest <= min(r["time"] + 3, s["time"] + 4)
    return bool(predicates and in_windows and since <= s["at"] < min(before, r["at"]))


@settings(max_examples=60)
@given(ROWS, st.integers(0, 12), st.integers(1, 5), st.integers(1, 9), st.integers(0, 8), st.integers(4, 30))
def test_matches_are_what_the_definition_says(
    everything: Checkpoint, rows: list[dict[str, Any]], split: int, size: int, piece: int, since: int, before: int
) -> None:
    """Tuples of R and S arrive in turns; those of S are in containers of `size` rows, and results come in pieces of `piece` rows."""
    numbered = [{**row, "at": at, "v": at} for at, row in enumerate(rows)]
    left, right = numbered[split:] + numbered[:split][::3], numbered[::2]
    blocks = [_block(stored, everything, "s_S", right[at : at + size], "absv") for at in range(0, len(right), size)]
    block = _block(probing, everything, "R", left, "abv")
    step = replace(everything.step("R", "S"), since=arrival(since), before=arrival(before))
    results = list(probe_step(everything.plan, step, block, containers_of(everything, "s_S", *blocks), piece))
    assert all(0 < result.rows <= piece for result in results)
    matches = sorted((row[ARRIVAL] >> NUMBER_BITS, row["S.v"]) for result in results for row in rows_of(result))
    assert matches == sorted((r["at"], s["at"]) for r in left for s in right if is_match(r, s, since, before))


def _block(make: Callable[..., Block], found: Checkpoint, name: str, rows: list[dict[str, Any]], columns: str) -> Block:
    return make(found, name, [row["at"] for row in rows], **{key: [row[key] for row in rows] for key in (*columns, "time")})
