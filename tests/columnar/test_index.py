"""The index and its probes against a nested loop, cut anywhere by small limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clash.columnar import index as module
from clash.columnar.index import Checks, Index, Matches, build_index, probe, scan

EVER = 2**63 - 1
WORDS = st.sampled_from([0, 1, -1, 2, EVER, -EVER - 1, 2**32, -(2**32), 2**62]) | st.integers(-EVER - 1, EVER) | st.integers(-3, 3)
SMALL = st.integers(-3, 3)
TIMES = SMALL | st.sampled_from([EVER, EVER - 2, 2 - EVER, -EVER - 1])
WINDOWS = st.integers(0, 4) | st.sampled_from([EVER, 2**64 - 1])


def ints(values: Any) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def all_of(step: Callable[[tuple[int, int], int], Matches], limit: int) -> list[tuple[int, int]]:
    """The pairs of all calls until there is nothing to resume; each call but the last must return `limit` pairs."""
    pairs: list[tuple[int, int]] = []
    resume: tuple[int, int] | None = (0, 0)
    while resume is not None:
        matches = step(resume, limit)
        resume = matches.resume
        assert matches.left.dtype == matches.right.dtype == np.int32
        assert len(matches.left) == len(matches.right) <= limit
        assert resume is None or len(matches.left) == limit
        pairs += zip(matches.left.tolist(), matches.right.tolist(), strict=True)
    return pairs


@st.composite
def keys(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    words = draw(st.lists(WORDS, max_size=40) | st.integers(0, 40).map(lambda n: [7] * n))
    valid = draw(st.none() | st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    return ints(words), None if valid is None else np.array(valid, np.bool_)


@st.composite
def checks(draw: st.DrawFn, probes: int, stored: int) -> Checks:
    def column(size: int, values: st.SearchStrategy[int] = TIMES) -> NDArray[np.int64]:
        return ints(draw(st.lists(values, min_size=size, max_size=size)))

    arrival = (column(probes, SMALL), column(stored, SMALL), draw(SMALL)) if draw(st.booleans()) else (None, None, 0)
    if not draw(st.booleans()):
        return Checks(*arrival)
    return Checks(*arrival, column(probes), column(probes), column(stored), column(stored), draw(WINDOWS))


def passes(c: Checks, i: int, j: int) -> bool:
    if c.arrival_stored is not None and c.arrival_probe is not None and not int(c.arrival_stored[j]) + c.number < int(c.arrival_probe[i]):
        return False
    if c.latest_stored is None or c.deadline_stored is None or c.latest_probe is None or c.deadline_probe is None:
        return True
    return int(c.latest_probe[i]) <= int(c.deadline_stored[j]) + c.window and int(c.latest_stored[j]) <= int(c.deadline_probe[i])


def is_valid(valid: NDArray[np.bool_] | None, i: int) -> bool:
    return valid is None or bool(valid[i])


@given(keys())
def test_an_index_holds_each_valid_row_once_grouped_by_bucket(key: tuple[NDArray[np.int64], NDArray[np.bool_] | None]) -> None:
    words, valid = key
    index = build_index(words, valid)
    rows = [i for i in range(words.size) if is_valid(valid, i)]
    buckets = index.starts.size - 1
    assert buckets == max(2, 1 << (len(rows) - 1).bit_length() if rows else 0)
    assert index.starts.dtype == index.rows.dtype == np.int32
    assert index.words.dtype == np.int64
    assert index.starts[0] == 0
    assert index.starts[-1] == len(rows)
    assert sorted(index.rows.tolist()) == rows
    assert (index.words == words[index.rows]).all()
    homes: dict[int, int] = {}
    for b in range(buckets):
        inside = slice(index.starts[b], index.starts[b + 1])
        assert (np.diff(index.rows[inside]) > 0).all()
        assert all(homes.setdefault(word, b) == b for word in index.words[inside].tolist())


@given(keys(), keys(), st.integers(1, 7) | st.just(10**6), st.data())
def test_probe_is_a_nested_loop(
    key: tuple[NDArray[np.int64], NDArray[np.bool_] | None],
    other: tuple[NDArray[np.int64], NDArray[np.bool_] | None],
    limit: int,
    data: st.DataObject,
) -> None:
    (stored, stored_valid), (words, valid) = key, other
    tests = data.draw(checks(words.size, stored.size))
    index = build_index(stored, stored_valid)
    expected = [
        (i, j)
        for i in range(words.size)
        for j in range(stored.size)
        if words[i] == stored[j] and is_valid(valid, i) and is_valid(stored_valid, j) and passes(tests, i, j)
    ]
    assert all_of(lambda resume, max_pairs: probe(index, words, valid, tests, resume, max_pairs), limit) == expected


@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 7) | st.just(10**6), st.data())
def test_scan_is_a_nested_loop(probes: int, stored: int, limit: int, data: st.DataObject) -> None:
    tests = data.draw(checks(probes, stored))
    expected = [(i, j) for i in range(probes) for j in range(stored) if passes(tests, i, j)]
    assert all_of(lambda resume, max_pairs: scan(probes, stored, tests, resume, max_pairs), limit) == expected


@pytest.mark.parametrize("limit", [1000, 4096, 10**9])
def test_one_hot_key(limit: int) -> None:
    """All rows in one bucket, and more than one group of probes: calls end inside both."""
    words = np.full(600, -5, np.int64)
    pairs = all_of(lambda resume, max_pairs: probe(build_index(words, None), words, None, Checks(), resume, max_pairs), limit)
    assert pairs == [(i, j) for i in range(600) for j in range(600)]


def test_nothing_is_left_to_resume_after_exactly_limit_pairs() -> None:
    words = np.arange(10, dtype=np.int64)
    assert probe(build_index(words, None), words, None, Checks(), (0, 0), 10).resume is None
    assert scan(2, 5, Checks(), (0, 0), 10).resume is None


@pytest.mark.parametrize("kind", ["random", "serial", "doubles", "moments", "high"])
def test_large_indexes_spread_words_of_all_kinds(kind: str) -> None:
    """Grouped in two passes, and no bucket is much fuller than for random words."""
    size = (1 << (module.TWO_PASS_BITS - 1)) + 1
    serial = np.arange(size, dtype=np.int64)
    words = {
        "random": np.random.default_rng(0).integers(-(2**63), 2**63 - 1, size),
        "serial": serial,
        "doubles": serial.astype(np.float64).view(np.int64),
        "moments": serial * 86_400_000_000,
        "high": serial << 44,
    }[kind]
    valid = serial % 5 != 0
    valid[: size // 2] = True
    index = build_index(words, None)
    assert index.starts.size - 1 == 1 << module.TWO_PASS_BITS
    assert np.diff(index.starts).max() <= 16
    order = np.sort(index.rows)
    assert (order == np.arange(size)).all()
    assert (index.words == words[index.rows]).all()
    found = probe(index, words, valid, Checks(), (0, 0), 10**9)
    assert (found.left == np.flatnonzero(valid)).all()
    assert (found.left == found.right).all()


def test_two_passes_give_the_same_index_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.random.default_rng(1).integers(-500, 500, 3000)
    valid = words % 7 != 0
    once = build_index(words, valid)
    monkeypatch.setattr(module, "TWO_PASS_BITS", 9)
    for first, second in zip(once, build_index(words, valid), strict=True):
        assert (first == second).all()


def test_arrays_may_be_read_only_views_of_a_file() -> None:
    words = np.arange(100, dtype=np.int64) % 10
    frozen = Index(*(np.frombuffer(bytes(part), part.dtype) for part in build_index(words, None)))
    assert not frozen.rows.flags.writeable
    found = probe(frozen, words, None, Checks(words, np.frombuffer(bytes(words), np.int64), -1), (0, 0), 10**6)
    assert found.left.size == 1000


def test_the_format_of_indexes_does_not_change() -> None:
    """Indexes are stored in checkpoints: these numbers must never change."""
    index = build_index(ints([0, 1, -1, 2**40, -(2**63), 12345678901234]), None)
    assert index.starts.tolist() == [0, 1, 2, 2, 2, 5, 6, 6, 6]
    assert index.rows.tolist() == [0, 4, 1, 2, 3, 5]
