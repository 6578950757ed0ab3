"""The loops over rows: hash and count key words, choose the rows of a sample.

A key's hash has 32 bits and is never 0, which stands for NULL. The upper bits are its histogram bucket. A different mix of the hash is
compared with a threshold that all streams of a domain share, so that equal keys are in the samples of all streams or of none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.columnar.numba_kernel import flags_or_empty, inlined, kernel, kernel_view

Hashes = NDArray[np.uint32]

BUCKET_BITS = 12
BUCKETS = 1 << BUCKET_BITS
MAX_THRESHOLD = 1 << 32  # every key is below it

_FACTOR_1 = np.uint64(0xFF51AFD7ED558CCD)  # of the finalizer of MurmurHash3
_FACTOR_2 = np.uint64(0xC4CEB9FE1A85EC53)
_SEED = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(0x85EBCA6B)  # odd, so the product modulo 2³² is a permutation of the hashes
_LOW = np.uint64(0xFFFFFFFF)
_32, _33 = np.uint64(32), np.uint64(33)
_BUCKET_SHIFT = np.uint32(32 - BUCKET_BITS)


@inlined
def _mix(bits: Any) -> Any:
    bits = (bits ^ (bits >> _33)) * _FACTOR_1
    bits = (bits ^ (bits >> _33)) * _FACTOR_2
    return bits ^ (bits >> _33)


@kernel
def _count_keys(words: Any, valid: Any, weight: Any, histogram: Any, hashes: Any) -> None:
    for i in range(words.size):
        if valid.size == 0 or valid[i]:
            mixed = np.uint32(_mix(np.uint64(words[i]) ^ _SEED) >> _32)
            mixed = np.uint32(1) if mixed == 0 else mixed
            hashes[i] = mixed
            histogram[mixed >> _BUCKET_SHIFT] += weight
        else:
            hashes[i] = np.uint32(0)


@kernel
def _choose_rows(hashes: Any, threshold: Any, share: Any, seed: Any, rows: Any) -> Any:
    """Of the rows below the threshold a share; a NULL key is below no threshold."""
    count = 0
    for i in range(hashes.size):
        if hashes[i] != 0 and ((np.uint64(hashes[i]) * _SPREAD) & _LOW) < threshold and (
            share > _LOW or (_mix(np.uint64(i) + seed) & _LOW) < share
        ):  # fmt: skip
            rows[count] = i
            count += 1
    return count


def count_keys(words: NDArray[np.int64], valid: NDArray[np.bool_] | None, weight: int, histogram: NDArray[np.int64]) -> Hashes:
    """Adds the keys to the histogram, each `weight` times; returns their hashes."""
    hashes = np.empty(words.size, np.uint32)
    _count_keys(kernel_view(words, np.int64), flags_or_empty(valid), int(weight), histogram, hashes)
    return hashes


def choose_rows(hashes: Hashes, threshold: int, share: float, seed: int) -> NDArray[np.int32]:
    """The rows whose key is below the threshold, and of those a pseudo-random share."""
    rows = np.empty(hashes.size, np.int32)
    scaled_share = np.uint64(min(1.0, share) * MAX_THRESHOLD)
    count = _choose_rows(kernel_view(hashes, np.uint32), np.uint64(threshold), scaled_share, np.uint64(seed & (MAX_THRESHOLD - 1)), rows)
    return rows[:count]


def below(hashes: Hashes, threshold: int) -> NDArray[np.bool_]:
    """Which keys are below a threshold."""
    flags: NDArray[np.bool_] = (hashes.astype(np.uint64) * _SPREAD & _LOW) < np.uint64(threshold)
    return flags


def buckets(hashes: Hashes) -> NDArray[np.int64]:
    """The histogram buckets of keys."""
    return (hashes >> _BUCKET_SHIFT).astype(np.int64)
