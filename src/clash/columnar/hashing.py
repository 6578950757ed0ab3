"""64-bit hashes of bytes and words.

Invariant: a hash is the same in every process and version, because slots and indexes are stored in files.

Words are hashed by the finaliser of MurmurHash3, bytes by the round of xxHash64 for eight bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.columnar.numba_kernel import flags_or_empty, inlined, kernel, kernel_view, load_eight_bytes

Int64s = NDArray[np.int64]

_MURMUR_1 = np.uint64(0xFF51AFD7ED558CCD)
_MURMUR_2 = np.uint64(0xC4CEB9FE1A85EC53)
_SEED = np.uint64(0x9E3779B97F4A7C15)
_XX_1 = np.uint64(0x9E3779B185EBCA87)
_XX_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_XX_4 = np.uint64(0x85EBCA77C2B2AE63)
_27, _31, _32, _33, _37 = (np.uint64(bits) for bits in (27, 31, 32, 33, 37))
_EIGHT = np.uint64(8)
_ONE = np.uint64(1)
_NAN_BITS = np.int64(0x7FF8000000000000)
_INFINITY_BITS = np.int64(0x7FF0000000000000)
_MAGNITUDE_MASK = np.int64(0x7FFFFFFFFFFFFFFF)


@inlined
def _mix(bits: Any) -> Any:
    """MurmurHash3's finaliser: every bit of the result depends on every bit of the input."""
    bits = (bits ^ (bits >> _33)) * _MURMUR_1
    bits = (bits ^ (bits >> _33)) * _MURMUR_2
    return bits ^ (bits >> _33)


@inlined
def _absorb(bits: Any, word: Any) -> Any:
    """One round of xxHash64: eight more bytes."""
    word *= _XX_2
    bits ^= ((word << _31) | (word >> _33)) * _XX_1
    return ((bits << _27) | (bits >> _37)) * _XX_1 + _XX_4


@kernel
def _hash_bytes(offsets: Any, data: Any) -> Any:
    rows = offsets.size - 1
    words = np.empty(rows, np.int64)
    for i in range(rows):
        position = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        bits = _SEED + np.uint64(end - position)
        while position + 8 <= end:
            bits = _absorb(bits, load_eight_bytes(data, position))
            position += 8
        if position < end:
            if position + 8 <= data.size:  # bytes of the next value are read too, and masked out
                rest = load_eight_bytes(data, position) & ((_ONE << (np.uint64(end - position) * _EIGHT)) - _ONE)
            else:
                rest = np.uint64(0)
                for k in range(end - position):
                    rest |= np.uint64(data[position + k]) << (np.uint64(k) * _EIGHT)
            bits = _absorb(bits, rest)
        words[i] = np.int64(_mix(bits))
    return words


@kernel
def _combine(first: Any, second: Any) -> Any:
    words = np.empty(first.size, np.int64)
    for i in range(first.size):
        words[i] = np.int64(_mix(_mix(np.uint64(first[i])) + _SEED ^ np.uint64(second[i])))
    return words


@kernel
def _canonical_words(bits: Any) -> Any:
    words = np.empty(bits.size, np.int64)
    for i in range(bits.size):
        magnitude = bits[i] & _MAGNITUDE_MASK
        words[i] = _NAN_BITS if magnitude > _INFINITY_BITS else (np.int64(0) if magnitude == 0 else bits[i])
    return words


@kernel
def _hash_slots(words: Any, valid: Any, count: Any) -> Any:
    slots = np.empty(words.size, np.int32)
    for i in range(words.size):
        # the upper half of the hash, as a fraction of 2^32, times `count`: this needs no division
        slots[i] = np.int32((_mix(np.uint64(words[i]) + _SEED) >> _32) * count >> _32) if valid.size == 0 or valid[i] else np.int32(0)
    return slots


@kernel
def _hash_keys(words: Any) -> Any:
    hashes = np.empty(words.size, np.uint32)
    for i in range(words.size):
        hashes[i] = np.uint32(_mix(np.uint64(words[i]) + _SEED) >> _32)
    return hashes


def hash_bytes(offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> Int64s:
    """A hash of each value `data[offsets[i]:offsets[i + 1]]`."""
    words: Int64s = _hash_bytes(kernel_view(offsets, np.int32), kernel_view(data, np.uint8))
    return words


def combine(first: Int64s, second: Int64s) -> Int64s:
    """A hash of each pair of words, which depends on their order."""
    words: Int64s = _combine(kernel_view(first, np.int64), kernel_view(second, np.int64))
    return words


def canonical_words(doubles: NDArray[np.float64]) -> Int64s:
    """The bits of each double, with one NaN and one zero only: words are equal if and only if Spark's `=` calls the doubles equal."""
    words: Int64s = _canonical_words(kernel_view(doubles, np.float64).view(np.int64))
    return words


def hash_slots(words: Int64s, valid: NDArray[np.bool_] | None, count: int) -> NDArray[np.int32]:
    """A slot number below `count` for each word, by its hash; 0 where the word is not valid."""
    slots: NDArray[np.int32] = _hash_slots(kernel_view(words, np.int64), flags_or_empty(valid), np.uint64(count))
    return slots


def hash_keys(words: Int64s) -> NDArray[np.uint32]:
    """The part of each word's hash that `hash_slots` takes as a fraction."""
    hashes: NDArray[np.uint32] = _hash_keys(kernel_view(words, np.int64))
    return hashes
