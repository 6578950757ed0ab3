"""Hashes of bytes and words: 64 bits, the same in every process and version, because slots and indexes are kept in files.

Words go through the finaliser of MurmurHash3, bytes through the round that xxHash64 has for eight of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.columnar.numba_kernel import eight_bytes, flags_or_none, kernel, part, plain

Int64s = NDArray[np.int64]

_A = np.uint64(0xFF51AFD7ED558CCD)
_B = np.uint64(0xC4CEB9FE1A85EC53)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_27, _31, _32, _33, _37 = (np.uint64(bits) for bits in (27, 31, 32, 33, 37))
_EIGHT = np.uint64(8)
_ONE = np.uint64(1)
_NAN = np.int64(0x7FF8000000000000)
_INFINITY = np.int64(0x7FF0000000000000)
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


@part
def _mix(bits: Any) -> Any:
    bits = (bits ^ (bits >> _33)) * _A
    bits = (bits ^ (bits >> _33)) * _B
    return bits ^ (bits >> _33)


@part
def _absorb(bits: Any, word: Any) -> Any:
    word *= _P2
    bits ^= ((word << _31) | (word >> _33)) * _P1
    return ((bits << _27) | (bits >> _37)) * _P1 + _P4


@kernel
def _text(offsets: Any, data: Any) -> Any:
    rows = offsets.size - 1
    words = np.empty(rows, np.int64)
    for i in range(rows):
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        bits = _STEP + np.uint64(end - at)
        while at + 8 <= end:
            bits = _absorb(bits, eight_bytes(data, at))
            at += 8
        if at < end:
            if at + 8 <= data.size:  # bytes of the next value are read and cut off
                rest = eight_bytes(data, at) & ((_ONE << (np.uint64(end - at) * _EIGHT)) - _ONE)
            else:
                rest = np.uint64(0)
                for k in range(end - at):
                    rest |= np.uint64(data[at + k]) << (np.uint64(k) * _EIGHT)
            bits = _absorb(bits, rest)
        words[i] = np.int64(_mix(bits))
    return words


@kernel
def _combine(first: Any, second: Any) -> Any:
    words = np.empty(first.size, np.int64)
    for i in range(first.size):
        words[i] = np.int64(_mix(_mix(np.uint64(first[i])) + _STEP ^ np.uint64(second[i])))
    return words


@kernel
def _canonical(bits: Any) -> Any:
    words = np.empty(bits.size, np.int64)
    for i in range(bits.size):
        size = bits[i] & _MAGNITUDE
        words[i] = _NAN if size > _INFINITY else (np.int64(0) if size == 0 else bits[i])
    return words


@kernel
def _place(words: Any, valid: Any, count: Any) -> Any:
    slots = np.empty(words.size, np.int32)
    for i in range(words.size):
        # the upper half of the hash as a fraction of `count`: no division
        slots[i] = np.int32((_mix(np.uint64(words[i]) + _STEP) >> _32) * count >> _32) if valid.size == 0 or valid[i] else np.int32(0)
    return slots


def hash_text(offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> Int64s:
    """A hash of each value `data[offsets[i]:offsets[i + 1]]`."""
    words: Int64s = _text(plain(offsets, np.int32), plain(data, np.uint8))
    return words


def combine(first: Int64s, second: Int64s) -> Int64s:
    """One word for each pair of words; the order counts."""
    words: Int64s = _combine(plain(first, np.int64), plain(second, np.int64))
    return words


def canonical(doubles: NDArray[np.float64]) -> Int64s:
    """The bits of each double, with one NaN and one zero: equal words mean equal under Spark's `=`, and the other way round."""
    words: Int64s = _canonical(plain(doubles, np.float64).view(np.int64))
    return words


def place(words: Int64s, valid: NDArray[np.bool_] | None, count: int) -> NDArray[np.int32]:
    """A number below `count` for each word, by its hash; 0 where it is not valid."""
    slots: NDArray[np.int32] = _place(plain(words, np.int64), flags_or_none(valid), np.uint64(count))
    return slots
