"""Hashes of bytes depend on nothing but the value, have no collisions on simple inputs and mix all bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from clash.columnar.arrow_views import offsets_and_bytes
from clash.columnar.hashing import canonical_words, combine, hash_bytes


def hashes(values: list[bytes]) -> list[int]:
    words: list[int] = hash_bytes(*offsets_and_bytes(pa.array(values, pa.binary()))).tolist()
    return words


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=12), st.binary(max_size=20))
def test_only_the_bytes_of_the_value_count(values: list[bytes], after: bytes) -> None:
    """Also for the last value, after which there are no bytes to read."""
    assert hashes(values) == [hashes([value])[0] for value in values] == hashes([*values, after])[:-1]


def test_no_collisions_among_many_short_texts() -> None:
    texts = pa.array(np.arange(300_000)).cast(pa.string())
    assert np.unique(hash_bytes(*offsets_and_bytes(texts))).size == 300_000
    zeros = pa.array([b"\0" * n for n in range(2000)], pa.binary())
    assert np.unique(hash_bytes(*offsets_and_bytes(zeros))).size == 2000


def test_no_collisions_among_many_pairs() -> None:
    a, b = (part.ravel() for part in np.meshgrid(np.arange(500), np.arange(500)))
    assert np.unique(combine(a, b)).size == a.size
    assert np.unique(combine(canonical_words(a.astype(np.float64)), canonical_words(b.astype(np.float64)))).size == a.size


def test_every_bit_of_the_input_reaches_every_bit_of_the_hash() -> None:
    rng = np.random.default_rng(0)
    for length in (1, 7, 8, 9, 24):
        values = rng.integers(0, 256, (500, length), np.uint8)
        plain = np.array(hashes([bytes(v) for v in values]), np.int64).view(np.uint64)
        for bit in range(8 * length):
            changed = values.copy()
            changed[:, bit // 8] ^= np.uint8(1 << bit % 8)
            other = np.array(hashes([bytes(v) for v in changed]), np.int64).view(np.uint64)
            flips = np.unpackbits((plain ^ other).view(np.uint8)).reshape(-1, 64).mean(axis=0)
            assert flips.min() > 0.3
            assert flips.max() < 0.7
