"""Containers are read as they were written, without a copy; a damaged file is refused and never crashes the reader."""

from __future__ import annotations

import json
import struct
import zlib
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.columnar.index import Index, build_index
from clash.errors import StateError
from clash.state import container as module
from clash.state.container import read_container, write_container
from clash.state.storage import LocalStorage, MemoryStorage, Storage

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None]),
    (pa.bool_(), [True, False]),
    (pa.int8(), [-128, 127]),
    (pa.int16(), [-(2**15), 1]),
    (pa.int32(), [-(2**31), 2]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.float32(), [0.5, float("inf")]),
    (pa.float64(), [-0.0, 1e300]),
    (pa.string(), ["", "ü€😀", "x" * 100]),
    (pa.large_string(), ["", "long"]),
    (pa.binary(), [b"", b"\0\xff"]),
    (pa.binary(4), [b"four"]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (pa.timestamp("us", tz="UTC"), [datetime(1969, 12, 31), datetime(2024, 2, 29, 23, 59, 59, 999999)]),
    (pa.timestamp("us"), [datetime(2024, 1, 1)]),
    (pa.duration("us"), [timedelta(days=-1), timedelta(microseconds=1)]),
    (pa.decimal128(38, 10), [Decimal("-1234567890.0123456789"), Decimal(0)]),
    (pa.decimal128(5, 2), [Decimal("999.99")]),
    (pa.list_(pa.int32()), [[], [1, None, 3]]),
    (pa.list_(pa.list_(pa.string())), [[["a"], None, []]]),
    (pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]), [{"x": None, "y": ["a", None]}, {"x": 1, "y": None}]),
    (pa.map_(pa.string(), pa.struct([("d", pa.date32())])), [[], [("k", {"d": date(2024, 1, 1)}), ("l", None)]]),
]
NAMES = [f"{number}: {kind}" for number, (kind, _) in enumerate(VALUES)]
SCHEMA = pa.schema([pa.field(name, kind) for name, (kind, _) in zip(NAMES, VALUES, strict=True)], metadata={"ü": "kept"})


def indexes(rows: int) -> dict[str, Index]:
    words = np.arange(rows, dtype=np.int64) * 7 % 5
    return {"by a": build_index(words, None), "by ü, b": build_index(words, words != 3)}


def same(left: dict[str, Index], right: Any) -> None:
    assert list(right) == list(left)
    for name, index in left.items():
        for key, array in index._asdict().items():
            found = getattr(right[name], key)
            np.testing.assert_array_equal(found, array)
            assert found.dtype == array.dtype
            assert not found.flags.writeable or not found.size
            assert found.ctypes.data % 64 == 0 or not found.size


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path) if request.param == "local" else MemoryStorage()


def full(rows: int) -> pa.RecordBatch:
    columns = [
        pa.array([None if (row + 1) % 3 == 0 else values[row % len(values)] for row in range(rows)], kind) for kind, values in VALUES
    ]
    return pa.record_batch(columns, schema=SCHEMA)


@pytest.mark.parametrize("rows", [0, 1, 2, 65, 1000])
def test_all_types_survive_a_round_trip(storage: Storage, rows: int) -> None:
    batch = full(rows)
    size = write_container(storage, "a/c", batch, indexes(rows))
    assert size == storage.size("a/c")
    found = read_container(storage, "a/c", verify=True)
    found.batch.validate(full=True)
    assert found.path == "a/c"
    assert found.batch.schema.equals(batch.schema, check_metadata=True)
    assert found.batch.to_pylist() == batch.to_pylist()
    same(indexes(rows), found.indexes)


@given(st.data())
def test_random_columns_and_slices_survive_a_round_trip(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(range(len(VALUES))), max_size=5, unique=True))
    rows = data.draw(st.integers(0, 20))
    columns = [pa.array([data.draw(st.sampled_from([None, *VALUES[n][1]])) for _ in range(rows)], VALUES[n][0]) for n in chosen]
    batch = pa.RecordBatch.from_arrays(columns, names=[NAMES[n] for n in chosen])
    start = data.draw(st.integers(0, rows))
    part = batch.slice(start, data.draw(st.integers(0, rows - start)))
    storage = MemoryStorage()
    write_container(storage, "c", part, {})
    found = read_container(storage, "c", verify=True).batch
    found.validate(full=True)
    assert found.num_rows == (part.num_rows if chosen else 0)
    assert found.schema == part.schema
    assert found.to_pylist() == part.to_pylist()


def test_rows_without_columns(storage: Storage) -> None:
    write_container(storage, "c", full(7).select([]), {})
    assert read_container(storage, "c").batch.num_rows == 7


def test_a_slice_is_written_without_the_rest_of_its_columns(storage: Storage) -> None:
    batch = pa.record_batch({"a": np.arange(1_000_000), "s": pa.array([str(n) for n in range(1_000_000)])})
    assert write_container(storage, "c", batch.slice(777_777, 10), {}) < 1500
    assert read_container(storage, "c").batch.to_pylist() == batch.slice(777_777, 10).to_pylist()


def test_large_and_small_batches_are_written_alike(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = full(100).slice(3, 90)
    write_container(storage, "small", batch, indexes(90))
    monkeypatch.setattr(module, "_MAX_COPIED_BYTES", -1)
    write_container(storage, "large", batch, indexes(90))
    assert storage.read("small").equals(storage.read("large"))


def test_large_columns_are_neither_copied_nor_read_at_once(storage: Storage) -> None:
    batch = pa.record_batch({"a": np.arange(1_000_000)})
    before = pa.total_allocated_bytes()
    seen: list[Any] = []

    class Spy:
        def write(self, path: str, buffers: list[Any], durable: bool = False) -> int:
            seen.extend(buffers)
            return storage.write(path, buffers)

    write_container(Spy(), "c", batch, {})  # type: ignore[arg-type]
    assert any(isinstance(piece, pa.Buffer) and piece.address == batch["a"].buffers()[1].address for piece in seen)
    seen.clear()
    if isinstance(storage, LocalStorage):
        found = read_container(storage, "c").batch
        assert pa.total_allocated_bytes() - before < 1_000_000
        storage.delete(["c"])
        assert found["a"].equals(batch["a"])


def test_columns_are_views_of_the_file(storage: Storage) -> None:
    write_container(storage, "c", full(10), indexes(10))
    found = read_container(storage, "c")
    for column in found.batch.columns:
        for buffer in column.buffers():
            assert buffer is None or not buffer.is_mutable
            assert buffer is None or buffer.address % 8 == 0


def test_arrays_that_are_no_numbers_are_an_error_of_the_caller() -> None:
    index = indexes(3)["by a"]
    for array in (np.array([None, 1], dtype=object), np.zeros((2, 2)), np.array(["text"])):
        with pytest.raises(AssertionError, match="cannot be stored"):
            write_container(MemoryStorage(), "c", full(1), {"x": index._replace(words=array)})


def test_strided_arrays_are_stored_in_order() -> None:
    storage = MemoryStorage()
    index = indexes(3)["by a"]._replace(words=np.arange(10, dtype=np.int64)[::3])
    write_container(storage, "c", full(1), {"x": index})
    same({"x": index}, read_container(storage, "c").indexes)


def small() -> bytes:
    storage = MemoryStorage()
    write_container(storage, "c", pa.record_batch({"a": [1, None, 3], "s": ["x", "", None]}), indexes(3))
    return storage.read("c").to_pybytes()


def refused(content: bytes, verify: bool) -> StateError:
    storage = MemoryStorage("damaged")
    storage.write("the/file", [content])
    with pytest.raises(StateError) as caught:
        read_container(storage, "the/file", verify=verify)
    assert caught.value.what == "a container is corrupt"
    assert "the/file" in caught.value.detail
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("verify", [False, True])
def test_every_truncation_is_refused(verify: bool) -> None:
    whole = small()
    for length in range(len(whole)):
        refused(whole[:length], verify)
    refused(whole + b"\0", verify)
    refused(whole[1:], verify)
    refused(bytes(len(whole)), verify)


def test_every_flipped_byte_is_refused() -> None:
    whole = small()
    for place in range(len(whole)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= mask
            refused(bytes(damaged), verify=True)


def test_a_flipped_byte_never_crashes_the_opening() -> None:
    """Without `verify` a container with a damaged body may open, one with a damaged frame may not."""
    whole = small()
    length = struct.unpack_from("<I", whole, len(whole) - 24)[0]
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        if place < 8 or place >= len(whole) - 24 - length:
            refused(bytes(damaged), verify=False)
            continue
        storage = MemoryStorage()
        storage.write("c", [damaged])
        try:
            read_container(storage, "c")
        except StateError as error:
            assert error.what == "a container is corrupt"


@pytest.mark.parametrize(
    "change",
    [
        {"batch": [0, 10**9]},
        {"batch": [-64, 64]},
        {"batch": [64]},
        {"batch": ["a", "b"]},
        {"batch": [64, 0]},
        {"batch": None},
        {"indexes": {"x": {"unknown": ["<i8", 64, 8]}}},
        {"indexes": {"x": {"starts": ["<i8", 64, 7], "rows": ["<i4", 64, 4], "words": ["<i8", 64, 8]}}},
        {"indexes": {"x": {"starts": ["|O", 64, 8], "rows": ["<i4", 64, 4], "words": ["<i8", 64, 8]}}},
        {"indexes": {"x": {"starts": [["<i8"], 64, 8], "rows": ["<i4", 64, 4], "words": ["<i8", 64, 8]}}},
        {"indexes": []},
        {"indexes": {"x": 1}},
    ],
)
def test_a_footer_with_wrong_content_is_refused(change: dict[str, Any]) -> None:
    whole = small()
    length = struct.unpack_from("<I", whole, len(whole) - 24)[0]
    body, footer = whole[: -24 - length], json.loads(whole[-24 - length : -24])
    text = json.dumps({**footer, **change}).encode()
    tail = struct.pack("<IIQ8s", len(text), zlib.crc32(text), len(body) + len(text) + 24, whole[-8:])
    refused(body + text + tail, verify=True)


def test_a_missing_container_is_an_error(storage: Storage) -> None:
    with pytest.raises(StateError, match="missing"):
        read_container(storage, "no/such")
