"""Kernels over columns of whole blocks: key words, hash partitioning and bucket indexes. They know nothing of streams, queries or files.

It may import `expressions`, `model` and `errors` only. Start reading at `key_words`, then `index`.

| module | contents |
|---|---|
| `block` | `Block`: tuples as Arrow columns |
| `key_words` | keys as 64-bit words, and the exact comparison of keys |
| `widening` | columns in the type in which a comparison takes place |
| `slots` | the slot of a partitioned store for each key; rows grouped by slot |
| `index` | the bucket index over key words, and the loops that probe it |
| `hashing` | hash functions of words and bytes |
| `arrow_views` | Arrow arrays as numpy arrays |
| `numba_kernel` | how loops over rows are compiled |
"""

from __future__ import annotations


def warm_up() -> None:
    """Load every kernel from numba's cache, or compile it if it is not there, so that no batch has to wait for that."""
    import numpy as np

    from clash.columnar.hashing import canonical_words, combine, hash_bytes, hash_slots
    from clash.columnar.index import TWO_PASS_BITS, Checks, build_index, probe, scan
    from clash.columnar.slots import split

    words = combine(canonical_words(np.zeros(1)), hash_bytes(np.array([0, 1], np.int32), np.zeros(1, np.uint8)))
    split(hash_slots(words, None, 2), 2)
    probe(build_index(words, None), words, None, Checks(), (0, 0), 1)
    build_index(np.arange(1 << TWO_PASS_BITS, dtype=np.int64), None)
    scan(1, 1, Checks(), (0, 0), 1)
