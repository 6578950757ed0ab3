"""Kernels over whole blocks of rows: key words, slots and indexes. Nothing here knows about streams, queries or files."""

from __future__ import annotations


def warm_up() -> None:
    """Load every kernel, or compile it where that was never done: no batch should wait for it."""
    import numpy as np

    from clash.columnar.hashing import canonical, combine, hash_text, place
    from clash.columnar.index import LARGE, Checks, build_index, probe, scan
    from clash.columnar.slots import split

    words = combine(canonical(np.zeros(1)), hash_text(np.array([0, 1], np.int32), np.zeros(1, np.uint8)))
    split(place(words, None, 2), 2)
    probe(build_index(words, None), words, None, Checks(), (0, 0), 1)
    build_index(np.arange(1 << LARGE, dtype=np.int64), None)
    scan(1, 1, Checks(), (0, 0), 1)
