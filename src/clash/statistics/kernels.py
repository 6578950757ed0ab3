"""The loops over rows: hash and count key words, pick the rows of a sample.

A key's hash has 32 bits, never 0, which stands for NULL. The upper bits are its bucket; another mix of them is compared with a
threshold that all streams share, so that equal keys are in the samples of all streams or of none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.columnar.numba_kernel import flags_or_none, kernel, part, plain

Hashes = NDArray[np.uint32]

BITS = 12
BUCKETS = 1 << BITS
ALL = 1 << 32  # the threshold that every key is below

_A = np.uint64(0xFF51AFD7ED558CCD)
_B = np.uint64(0xC4CEB9FE1A85EC53)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(0x85EBCA6B)
_LOW = np.uint64(0xFFFFFFFF)
_32, _33 = np.uint64(32), np.uint64(33)
_SHIFT = np.uint32(32 - BITS)


@part
def _mixed(bits: Any) -> Any:
    bits = (bits ^ (bits >> _33)) * _A
    bits = (bits ^ (bits >> _33)) * _B
    return bits ^ (bits >> _33)


@kernel
def _count(words: Any, valid: Any, weight: Any, histogram: Any, hashes: Any) -> None:
    for i in range(words.size):
        if valid.size == 0 or valid[i]:
            found = np.uint32(_mixed(np.uint64(words[i]) ^ _STEP) >> _32)
            found = np.uint32(1) if found == 0 else found
            hashes[i] = found
            histogram[found >> _SHIFT] += weight
        else:
            hashes[i] = np.uint32(0)


@kernel
def _pick(hashes: Any, threshold: Any, share: Any, seed: Any, rows: Any) -> Any:
    """Of those below the threshold a share; the key 0 is below none."""
    count = 0
    for i in range(hashes.size):
        if hashes[i] != 0 and ((np.uint64(hashes[i]) * _SPREAD) & _LOW) < threshold and (
            share > _LOW or (_mixed(np.uint64(i) + seed) & _LOW) < share
        ):  # fmt: skip
            rows[count] = i
            count += 1
    return count


def count_keys(words: NDArray[np.int64], valid: NDArray[np.bool_] | None, weight: int, histogram: NDArray[np.int64]) -> Hashes:
    """Add the keys to the histogram; returns their hashes."""
    hashes = np.empty(words.size, np.uint32)
    _count(plain(words, np.int64), flags_or_none(valid), int(weight), histogram, hashes)
    return hashes


def pick(hashes: Hashes, threshold: int, share: float, seed: int) -> NDArray[np.int32]:
    """The rows whose key is below the threshold, and of those a share."""
    rows = np.empty(hashes.size, np.int32)
    count = _pick(plain(hashes, np.uint32), np.uint64(threshold), np.uint64(min(1.0, share) * ALL), np.uint64(seed & (ALL - 1)), rows)
    return rows[:count]


def below(hashes: Hashes, threshold: int) -> NDArray[np.bool_]:
    """Which keys a lower threshold leaves."""
    flags: NDArray[np.bool_] = (hashes.astype(np.uint64) * _SPREAD & _LOW) < np.uint64(threshold)
    return flags


def buckets(hashes: Hashes) -> NDArray[np.int64]:
    return (hashes >> _SHIFT).astype(np.int64)
