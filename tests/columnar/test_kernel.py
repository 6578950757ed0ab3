"""No kernel is compiled after `warm_up`, whatever kind of arrays it gets."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from clash.columnar.hashing import hash_bytes
from clash.columnar.index import Checks, Index, build_index, probe, scan
from clash.columnar.key_words import key_words, same
from clash.columnar.numba_kernel import kernel, kernel_view
from clash.columnar.slots import slots, split


def warm_up() -> None:
    """Load every kernel from numba's cache, or compile it if it is not there, so that no batch has to wait for that."""
    import numpy as np

    from clash.columnar.hashing import canonical_words, combine, hash_bytes, hash_keys, hash_slots
    from clash.columnar.index import TWO_PASS_BITS, Checks, build_index, probe, scan
    from clash.columnar.slots import split

    words = combine(canonical_words(np.zeros(1)), hash_bytes(np.array([0, 1], np.int32), np.zeros(1, np.uint8)))
    split(hash_slots(words, None, 2), 2)
    hash_keys(words)
    probe(build_index(words, None), words, None, Checks(), (0, 0), 1)
    build_index(np.arange(1 << TWO_PASS_BITS, dtype=np.int64), None)
    scan(1, 1, Checks(), (0, 0), 1)


def signatures() -> dict[str, int]:
    modules = [importlib.import_module(f"clash.columnar.{name}") for name in ("hashing", "index", "slots")]
    return {
        f"{module.__name__}.{name}": len(value.signatures)
        for module in modules
        for name, value in vars(module).items()
        if hasattr(value, "signatures") and not value.targetoptions.get("forceinline")
    }


def frozen(array: Any) -> Any:
    return np.frombuffer(bytes(array), array.dtype)


def test_nothing_is_compiled_after_warm_up() -> None:
    warm_up()
    before = signatures()
    assert set(before.values()) == {1}
    for convert in (
        np.ascontiguousarray,
        frozen,
        lambda a: np.repeat(a, 2)[::2],
        lambda a: np.frombuffer(b"x" + bytes(a), np.uint8)[1:].view(a.dtype),
    ):
        words = convert(np.arange(300, dtype=np.int64))
        valid = convert(words % 2 == 0)
        checks = Checks(words, words, 1, words, words, words, words, 5)
        for flags in (None, valid):
            index = Index(*(convert(part) for part in build_index(words, flags)))
            for tests in (Checks(), checks, checks._replace(arrival_stored=None), checks._replace(latest_stored=None)):
                probe(index, words, flags, tests, (np.int64(0), np.int32(0)), np.int64(5))  # type: ignore[arg-type]
                scan(3, 3, tests, (0, 0), 5)
        split(convert(np.zeros(3, np.int32)), 2)
        hash_bytes(convert(np.arange(3, dtype=np.int32)), convert(np.zeros(3, np.uint8)))
    for column in (pa.array([1, None]), pa.array([1.5]), pa.array(["a", "b"]).slice(1), pa.array([True]), pa.array([b"x"])):
        kind = {"int64": "bigint", "double": "double", "string": "string", "bool": "boolean", "binary": "binary"}[str(column.type)]
        for columns in ([column], [column, column]):
            key_words(columns, [kind] * len(columns), "UTC")
        same(column, column, kind, "UTC")
        slots(column, 5, "UTC")
    assert signatures() == before


def test_a_kernel_view_shares_memory_where_it_can() -> None:
    array = np.arange(5, dtype=np.int64)
    view = kernel_view(array, np.int64)
    assert np.shares_memory(array, view)
    assert not view.flags.writeable
    assert array.flags.writeable


def test_kernels_are_compiled_where_no_cache_folder_is_writable(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    def njit(**options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    real = numba.njit
    monkeypatch.setattr(numba, "njit", njit)

    def twice(x: int) -> int:
        return 2 * x

    assert kernel(twice)(21) == 42
