"""An immutable bucket index over 64-bit key words, and the loops that probe it.

`rows` and `words` are grouped by bucket, ascending by row inside one; bucket b is `starts[b]:starts[b + 1]`. The number of
buckets, a power of two near the number of rows, follows from `starts`. The arrays are written to files as they are, so the
bucket of a word is part of the file format: it must not change.

A probe yields each pair of equal words that passes the checks exactly once, also if it is cut anywhere by `limit`: the place to go
on from is that of the first pair not yet given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clash.columnar.numba_kernel import flags_or_none, kernel, part, plain, prefetch, words_or_none

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

_GROUP = 256  # probes whose first loads are under way together
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
LARGE = 19  # with so many bits of buckets one pass over all of them misses the cache too often, ...
_COARSE = 8  # ... and the rows are grouped by so many bits of them first


class Index(NamedTuple):
    starts: Int32s
    rows: Int32s
    words: Int64s


class Checks(NamedTuple):
    """What a pair must pass besides its key; a check is skipped if its stored side is None. `window`: below 2^64."""

    arrival_probe: Int64s | None = None
    arrival_stored: Int64s | None = None
    number: int = 0
    latest_probe: Int64s | None = None
    deadline_probe: Int64s | None = None
    latest_stored: Int64s | None = None
    deadline_stored: Int64s | None = None
    window: int = 0


class _Tests(NamedTuple):
    """Checks the way the kernels take them: no None, and which of the two to make."""

    by_arrival: bool
    arrival_probe: Int64s
    arrival_stored: Int64s
    number: int
    by_time: bool
    latest_probe: Int64s
    deadline_probe: Int64s
    latest_stored: Int64s
    deadline_stored: Int64s
    window: np.uint64


class Found(NamedTuple):
    left: Int32s
    right: Int32s
    resume: tuple[int, int] | None


@part
def _bucket(word: Any, shift: Any) -> Any:
    """The top bits of the word's product; the upper half is folded in first, for words that differ only there."""
    bits = np.uint64(word)
    return np.int64(((bits ^ (bits >> _HALF)) * _FACTOR) >> shift)


@kernel
def _group(words: Any, valid: Any, shift: Any, starts: Any, rows: Any, grouped: Any) -> None:
    """A counting sort; going backwards leaves `starts` at the beginnings and each bucket in ascending order."""
    buckets = starts.size - 1
    for i in range(words.size):
        if valid.size == 0 or valid[i]:
            starts[_bucket(words[i], shift)] += 1
    total = 0
    for b in range(buckets):
        total += starts[b]
        starts[b] = total
    starts[buckets] = total
    for i in range(words.size - 1, -1, -1):
        if valid.size == 0 or valid[i]:
            b = _bucket(words[i], shift)
            at = starts[b] - 1
            starts[b] = at
            rows[at] = i
            grouped[at] = words[i]


@kernel
def _refine(coarse: Any, shift: Any, starts: Any, rows: Any, grouped: Any) -> None:
    """The same from what is grouped by the first bits of the bucket already: part by part, each small enough for the cache."""
    begins, coarse_rows, coarse_words = coarse
    parts = begins.size - 1
    width = (starts.size - 1) // parts
    for p in range(parts):
        for k in range(begins[p], begins[p + 1]):
            starts[_bucket(coarse_words[k], shift)] += 1
        total = begins[p]
        for b in range(p * width, (p + 1) * width):
            total += starts[b]
            starts[b] = total
        for k in range(begins[p + 1] - 1, begins[p] - 1, -1):
            b = _bucket(coarse_words[k], shift)
            at = starts[b] - 1
            starts[b] = at
            rows[at] = coarse_rows[k]
            grouped[at] = coarse_words[k]
    starts[starts.size - 1] = begins[parts]


@part
def _together(latest: Any, deadline: Any, other_latest: Any, other_deadline: Any, window: Any) -> Any:
    """Is neither too late for the other? Of the two a difference is taken, for the sum of a time and a window may wrap around: the
    difference is not negative, and below 2^64 however far apart they are."""
    return other_latest <= deadline and (latest <= other_deadline or np.uint64(latest) - np.uint64(other_deadline) <= window)


@kernel
def _probe(index: Any, shift: Any, words: Any, valid: Any, tests: Any, left: Any, right: Any, count: Any, first: Any, skip: Any) -> Any:
    starts, rows, stored = index
    by_arrival, probe_a, stored_a, number, by_time, probe_l, probe_d, stored_l, stored_d, window = tests
    buckets = np.empty(_GROUP, np.int64)
    begins = np.empty(_GROUP, np.int64)
    ends = np.empty(_GROUP, np.int64)
    for base in range(first, words.size, _GROUP):
        size = min(_GROUP, words.size - base)
        for x in range(size):
            buckets[x] = _bucket(words[base + x], shift) if valid.size == 0 or valid[base + x] else -1
            prefetch(starts, buckets[x])
        for x in range(size):
            begins[x] = starts[buckets[x]] if buckets[x] >= 0 else 0
            ends[x] = starts[buckets[x] + 1] if buckets[x] >= 0 else 0
            prefetch(stored, begins[x])
            prefetch(rows, begins[x])
        if by_arrival or by_time:
            for x in range(size):
                if begins[x] < ends[x] and stored[begins[x]] == words[base + x]:
                    j = np.int64(rows[begins[x]])
                    if by_arrival:
                        prefetch(stored_a, j)
                    if by_time:
                        prefetch(stored_d, j)
                        prefetch(stored_l, j)
        for x in range(size):
            i = base + x
            word = words[i]
            for at in range(begins[x] + (skip if i == first else 0), ends[x]):
                if stored[at] != word:
                    continue
                j = rows[at]
                if by_arrival and stored_a[j] + number >= probe_a[i]:
                    continue
                if by_time and not _together(probe_l[i], probe_d[i], stored_l[j], stored_d[j], window):
                    continue
                if count == left.size:
                    return count, i, at - begins[x]
                left[count] = i
                right[count] = j
                count += 1
    return count, np.int64(-1), np.int64(0)


@kernel
def _scan(probes: Any, stored: Any, tests: Any, left: Any, right: Any, count: Any, first: Any, skip: Any) -> Any:
    by_arrival, probe_a, stored_a, number, by_time, probe_l, probe_d, stored_l, stored_d, window = tests
    for i in range(first, probes):
        for j in range(skip if i == first else 0, stored):
            if by_arrival and stored_a[j] + number >= probe_a[i]:
                continue
            if by_time and not _together(probe_l[i], probe_d[i], stored_l[j], stored_d[j], window):
                continue
            if count == left.size:
                return count, i, j
            left[count] = i
            right[count] = j
            count += 1
    return count, np.int64(-1), np.int64(0)


def build_index(words: Int64s, valid: NDArray[np.bool_] | None) -> Index:
    """Index the rows whose key is valid."""
    count = words.size if valid is None else int(np.count_nonzero(valid))
    bits = max(1, (count - 1).bit_length())
    index = _empty(bits, count)
    if bits < LARGE:
        _group(plain(words, np.int64), flags_or_none(valid), np.uint64(64 - bits), *index)
    else:
        coarse = _empty(_COARSE, count)
        _group(plain(words, np.int64), flags_or_none(valid), np.uint64(64 - _COARSE), *coarse)
        _refine(tuple(coarse), np.uint64(64 - bits), *index)
    return index


def probe(index: Index, words: Int64s, valid: NDArray[np.bool_] | None, checks: Checks, resume: tuple[int, int], limit: int) -> Found:
    """Pairs (probing row, stored row) of equal words, in order of the probing row; at most `limit` of them."""
    bits = (index.starts.size - 1).bit_length() - 1
    arrays = (plain(index.starts, np.int32), plain(index.rows, np.int32), plain(index.words, np.int64))
    run = partial(_probe, arrays, np.uint64(64 - bits), plain(words, np.int64), flags_or_none(valid), _tests(checks))
    rest = words.size - resume[0]
    return _collect(run, rest + (rest >> 2) + 64, resume, limit)


def scan(count_probe: int, count_stored: int, checks: Checks, resume: tuple[int, int], limit: int) -> Found:
    """The same without a key: every row with every row, as far as the checks let them."""
    run = partial(_scan, int(count_probe), int(count_stored), _tests(checks))
    return _collect(run, (count_probe - resume[0]) * count_stored - resume[1], resume, limit)


def _empty(bits: int, count: int) -> Index:
    return Index(np.zeros((1 << bits) + 1, np.int32), np.empty(count, np.int32), np.empty(count, np.int64))


def _collect(run: Callable[..., Any], guess: int, resume: tuple[int, int], limit: int) -> Found:
    """Run a kernel into arrays of the guessed size, larger ones if it was too small: numpy's, for these get large pages from Linux."""
    size = max(1, min(guess, limit))
    left, right = np.empty(size, np.int32), np.empty(size, np.int32)
    count, i, skip = run(left, right, 0, int(resume[0]), int(resume[1]))
    while i >= 0 and size < limit:
        size = min(2 * size, limit)
        left, right = _larger(left, size), _larger(right, size)
        count, i, skip = run(left, right, count, i, skip)
    return Found(left[:count], right[:count], None if i < 0 else (i, skip))


def _larger(array: Int32s, size: int) -> Int32s:
    larger = np.empty(size, np.int32)
    larger[: array.size] = array
    return larger


def _tests(checks: Checks) -> _Tests:
    return _Tests(
        checks.arrival_stored is not None,
        words_or_none(checks.arrival_probe),
        words_or_none(checks.arrival_stored),
        int(checks.number),
        checks.latest_stored is not None,
        words_or_none(checks.latest_probe),
        words_or_none(checks.deadline_probe),
        words_or_none(checks.latest_stored),
        words_or_none(checks.deadline_stored),
        np.uint64(checks.window),
    )
