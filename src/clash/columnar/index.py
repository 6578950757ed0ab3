"""An immutable bucket index over 64-bit key words, and the loops that probe it.

Invariant: the bucket of a word never changes, because the arrays of an index are written to files as they are.

Invariant: a probe returns each pair of equal words that passes the checks exactly once, also if `limit` cuts it into several calls:
`resume` is the position of the first pair that was not returned.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clash.columnar.numba_kernel import flags_or_empty, inlined, kernel, kernel_view, prefetch, words_or_empty

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

_GROUP_SIZE = 256  # probes whose memory loads are all started before the first of them is used
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
# From 2^TWO_PASS_BITS buckets on a single pass over all of them misses the cache too often. Then the rows are grouped by the upper
# _COARSE_BITS of their bucket first.
TWO_PASS_BITS = 19
_COARSE_BITS = 8


class Index(NamedTuple):
    """The valid rows grouped by the bucket of their word; inside a bucket the rows ascend."""

    starts: Int32s
    """Bucket b is the range `starts[b]:starts[b + 1]` of the other two. There are 2^n buckets, near the number of rows."""
    rows: Int32s
    words: Int64s


def check_index(index: Index, rows: int) -> None:
    """ValueError if a probe of the index, over a container of so many rows, would read outside of an array: the kernels do not look."""
    buckets = index.starts.size - 1
    kinds = [array.dtype.name for array in (index.starts, index.rows, index.words)]
    if kinds != ["int32", "int32", "int64"] or buckets < 1 or buckets & (buckets - 1):
        raise ValueError("an index has no buckets")
    is_grouped = index.starts[0] == 0 and index.starts[-1] == index.rows.size and bool((np.diff(index.starts.astype(np.int64)) >= 0).all())
    if not is_grouped or index.rows.size != index.words.size:
        raise ValueError("the buckets of an index are not its rows")
    if index.rows.size and not (index.rows.min() >= 0 and index.rows.max() < rows):
        raise ValueError("an index refers to rows that do not exist")


class Checks(NamedTuple):
    """What a pair (probing row, stored row) must satisfy besides equal keys. A check is skipped if its stored side is None.

    Arrival: `arrival_stored + number < arrival_probe`: the stored row came first.
    Event time: `latest_stored <= deadline_probe` and `latest_probe <= deadline_stored + window`: each side is in the other's window.
    """

    arrival_probe: Int64s | None = None
    arrival_stored: Int64s | None = None
    number: int = 0
    """Added to the stored arrivals: the number of the relation in whose role the stored rows take part."""
    latest_probe: Int64s | None = None
    deadline_probe: Int64s | None = None
    latest_stored: Int64s | None = None
    deadline_stored: Int64s | None = None
    window: int = 0
    """Added to the stored deadlines; below 2^64."""


class _KernelChecks(NamedTuple):
    """Checks in the form that the kernels take: empty arrays instead of None, and which of the two checks to make."""

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


class Matches(NamedTuple):
    """Matching pairs: row `left[i]` of the probing rows and row `right[i]` of the stored rows."""

    left: Int32s
    right: Int32s
    resume: tuple[int, int] | None
    """Where the next call must continue; None if all pairs were returned."""


@inlined
def _bucket(word: Any, shift: Any) -> Any:
    """The top bits of a product; the upper half of the word is folded into the lower one first, for words that differ only there."""
    bits = np.uint64(word)
    return np.int64(((bits ^ (bits >> _HALF)) * _FACTOR) >> shift)


@kernel
def _group(words: Any, valid: Any, shift: Any, starts: Any, rows: Any, grouped: Any) -> None:
    """A counting sort. The second pass goes backwards: then `starts` ends as the start of each bucket, and rows ascend inside one."""
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
            position = starts[b] - 1
            starts[b] = position
            rows[position] = i
            grouped[position] = words[i]


@kernel
def _refine(coarse: Any, shift: Any, starts: Any, rows: Any, grouped: Any) -> None:
    """The same for rows that are already grouped by the upper bits of their bucket: group by group, each small enough for the cache."""
    begins, coarse_rows, coarse_words = coarse
    groups = begins.size - 1
    width = (starts.size - 1) // groups
    for g in range(groups):
        for k in range(begins[g], begins[g + 1]):
            starts[_bucket(coarse_words[k], shift)] += 1
        total = begins[g]
        for b in range(g * width, (g + 1) * width):
            total += starts[b]
            starts[b] = total
        for k in range(begins[g + 1] - 1, begins[g] - 1, -1):
            b = _bucket(coarse_words[k], shift)
            position = starts[b] - 1
            starts[b] = position
            rows[position] = coarse_rows[k]
            grouped[position] = coarse_words[k]
    starts[starts.size - 1] = begins[groups]


@inlined
def _in_window(latest: Any, deadline: Any, stored_latest: Any, stored_deadline: Any, window: Any) -> Any:
    """Whether neither row is too late for the other.

    The window is compared with a difference, because the sum of a time and a window may wrap around. The difference is positive there
    and below 2^64 whatever the times are, so unsigned arithmetic is exact.
    """
    return stored_latest <= deadline and (latest <= stored_deadline or np.uint64(latest) - np.uint64(stored_deadline) <= window)


@kernel
def _probe(index: Any, shift: Any, words: Any, valid: Any, checks: Any, left: Any, right: Any, count: Any, first: Any, skip: Any) -> Any:
    """Append matches to `left` and `right` from `count` on, from probe `first` and the `skip`-th entry of its bucket on.

    Returns the new count and where to continue: (-1, 0) after the last match.
    """
    starts, rows, stored_words = index
    by_arrival, arrival, stored_arrival, number, by_time, latest, deadline, stored_latest, stored_deadline, window = checks
    buckets = np.empty(_GROUP_SIZE, np.int64)
    begins = np.empty(_GROUP_SIZE, np.int64)
    ends = np.empty(_GROUP_SIZE, np.int64)
    for base in range(first, words.size, _GROUP_SIZE):
        size = min(_GROUP_SIZE, words.size - base)
        for x in range(size):
            buckets[x] = _bucket(words[base + x], shift) if valid.size == 0 or valid[base + x] else -1
            prefetch(starts, buckets[x])
        for x in range(size):
            begins[x] = starts[buckets[x]] if buckets[x] >= 0 else 0
            ends[x] = starts[buckets[x] + 1] if buckets[x] >= 0 else 0
            prefetch(stored_words, begins[x])
            prefetch(rows, begins[x])
        if by_arrival or by_time:
            for x in range(size):
                if begins[x] < ends[x] and stored_words[begins[x]] == words[base + x]:
                    j = np.int64(rows[begins[x]])
                    if by_arrival:
                        prefetch(stored_arrival, j)
                    if by_time:
                        prefetch(stored_deadline, j)
                        prefetch(stored_latest, j)
        for x in range(size):
            i = base + x
            word = words[i]
            for position in range(begins[x] + (skip if i == first else 0), ends[x]):
                if stored_words[position] != word:
                    continue
                j = rows[position]
                if by_arrival and stored_arrival[j] + number >= arrival[i]:
                    continue
                if by_time and not _in_window(latest[i], deadline[i], stored_latest[j], stored_deadline[j], window):
                    continue
                if count == left.size:
                    return count, i, position - begins[x]
                left[count] = i
                right[count] = j
                count += 1
    return count, np.int64(-1), np.int64(0)


@kernel
def _scan(count_probe: Any, count_stored: Any, checks: Any, left: Any, right: Any, count: Any, first: Any, skip: Any) -> Any:
    """As `_probe`, without keys: every probing row with every stored row."""
    by_arrival, arrival, stored_arrival, number, by_time, latest, deadline, stored_latest, stored_deadline, window = checks
    for i in range(first, count_probe):
        for j in range(skip if i == first else 0, count_stored):
            if by_arrival and stored_arrival[j] + number >= arrival[i]:
                continue
            if by_time and not _in_window(latest[i], deadline[i], stored_latest[j], stored_deadline[j], window):
                continue
            if count == left.size:
                return count, i, j
            left[count] = i
            right[count] = j
            count += 1
    return count, np.int64(-1), np.int64(0)


def build_index(words: Int64s, valid: NDArray[np.bool_] | None) -> Index:
    """The index of the rows whose key is valid; None means all."""
    count = words.size if valid is None else int(np.count_nonzero(valid))
    bits = max(1, (count - 1).bit_length())
    index = _empty(bits, count)
    if bits < TWO_PASS_BITS:
        _group(kernel_view(words, np.int64), flags_or_empty(valid), np.uint64(64 - bits), *index)
    else:
        coarse = _empty(_COARSE_BITS, count)
        _group(kernel_view(words, np.int64), flags_or_empty(valid), np.uint64(64 - _COARSE_BITS), *coarse)
        _refine(tuple(coarse), np.uint64(64 - bits), *index)
    return index


def probe(index: Index, words: Int64s, valid: NDArray[np.bool_] | None, checks: Checks, resume: tuple[int, int], limit: int) -> Matches:
    """At most `limit` pairs of rows with equal words, in the order of the probing rows. The first call has `resume` (0, 0)."""
    bits = (index.starts.size - 1).bit_length() - 1
    arrays = (kernel_view(index.starts, np.int32), kernel_view(index.rows, np.int32), kernel_view(index.words, np.int64))
    run = partial(_probe, arrays, np.uint64(64 - bits), kernel_view(words, np.int64), flags_or_empty(valid), _kernel_checks(checks))
    remaining = words.size - resume[0]
    return _collect(run, remaining + (remaining >> 2) + 64, resume, limit)


def scan(count_probe: int, count_stored: int, checks: Checks, resume: tuple[int, int], limit: int) -> Matches:
    """As `probe`, without keys: every probing row with every stored row, if the checks hold."""
    run = partial(_scan, int(count_probe), int(count_stored), _kernel_checks(checks))
    return _collect(run, (count_probe - resume[0]) * count_stored - resume[1], resume, limit)


def _empty(bits: int, count: int) -> Index:
    """Arrays for 2^bits buckets and `count` rows, to be filled by a kernel."""
    return Index(np.zeros((1 << bits) + 1, np.int32), np.empty(count, np.int32), np.empty(count, np.int64))


def _collect(run: Callable[..., Any], estimate: int, resume: tuple[int, int], limit: int) -> Matches:
    """Run a kernel into arrays of the estimated size, and into larger ones while these are full.

    Numpy allocates them, not the kernel, because Linux gives numpy's arrays large pages.
    """
    size = max(1, min(estimate, limit))
    left, right = np.empty(size, np.int32), np.empty(size, np.int32)
    count, i, skip = run(left, right, 0, int(resume[0]), int(resume[1]))
    while i >= 0 and size < limit:
        size = min(2 * size, limit)
        left, right = _larger(left, size), _larger(right, size)
        count, i, skip = run(left, right, count, i, skip)
    return Matches(left[:count], right[:count], None if i < 0 else (i, skip))


def _larger(array: Int32s, size: int) -> Int32s:
    larger = np.empty(size, np.int32)
    larger[: array.size] = array
    return larger


def _kernel_checks(checks: Checks) -> _KernelChecks:
    return _KernelChecks(
        checks.arrival_stored is not None,
        words_or_empty(checks.arrival_probe),
        words_or_empty(checks.arrival_stored),
        int(checks.number),
        checks.latest_stored is not None,
        words_or_empty(checks.latest_probe),
        words_or_empty(checks.deadline_probe),
        words_or_empty(checks.latest_stored),
        words_or_empty(checks.deadline_stored),
        np.uint64(checks.window),
    )
