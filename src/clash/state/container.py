"""Containers: an Arrow record batch and the indexes over it in one file, which is read by mapping it.

The file consists of: magic; the batch as an Arrow IPC stream; the arrays of the indexes; a footer in JSON with the offsets and sizes of
all these parts, what the writer says of the container, and the CRC-32 of everything before it; a tail with length and CRC-32 of the
footer, the file's size, and the magic again.
Each part starts at a multiple of 64 bytes. Arrow aligns the columns inside the batch to 8 bytes (pyarrow offers no other choice), so no
64-bit value crosses a cache line. Size, magic and footer are checked whenever a container is opened, the body only on request.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from clash.columnar.index import Index, check_index
from clash.errors import StateError
from clash.state.json_records import RESTORE
from clash.state.storage import Storage

_MAGIC = b"CLASHC01"
_ALIGNMENT = 64
_TAIL = struct.Struct("<IIQ8s")  # length and CRC-32 of the footer, size of the file, magic
_DTYPES = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"})
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow IPC stream
_MAX_COPIED_BYTES = 1 << 20  # of a batch, up to which one copy is faster than passing the buffers one by one


@dataclass(frozen=True)
class Container:
    """An opened container. Its columns and arrays are read-only views of the mapped file."""

    path: str
    batch: pa.RecordBatch
    indexes: Mapping[str, Index]
    bytes: int
    """The size of the file."""
    description: Any
    """JSON data: what the writer says of the container; None in containers of format 6."""


def write_container(storage: Storage, path: str, batch: pa.RecordBatch, indexes: Mapping[str, Index], description: Any = None) -> int:
    """Write a container and return its size in bytes. Large buffers are passed to the storage without a copy.

    `description`: JSON data, kept in the file so that what others record of it can be compared with it."""
    body = _Body()
    body.add([_MAGIC])
    batch_range = body.add(_stream(batch))
    index_ranges = {name: _add_index(body, index) for name, index in indexes.items()}
    footer = {"batch": batch_range, "indexes": index_ranges, "crc32": body.pad(), "description": description}
    text = json.dumps(footer, separators=(",", ":")).encode()
    size = body.size + len(text) + _TAIL.size
    return storage.write(path, [*body.pieces, text, _TAIL.pack(len(text), zlib.crc32(text), size, _MAGIC)])


def read_container(storage: Storage, path: str, verify: bool = False) -> Container:
    """Open a container; StateError if it is missing or corrupt.

    With `verify` the whole file is read and compared with its CRC-32; and if somebody has made up both, columns and indexes still refer to
    nothing outside of the file. Otherwise pages of the body are read only when they are used, and damage there is not detected.
    """
    buffer = storage.read(path)
    try:
        footer, end = _footer(buffer)
        if verify and zlib.crc32(buffer.slice(0, end)) != footer["crc32"]:
            raise ValueError("the body does not match its checksum")
        with pa.ipc.open_stream(_part(buffer, footer["batch"], end)) as reader:
            batch = reader.read_next_batch()
        indexes = {
            name: Index(**{field: _array(buffer, entry, end) for field, entry in arrays.items()})
            for name, arrays in footer["indexes"].items()
        }
        if verify:
            batch.validate(full=True)
            for index in indexes.values():
                check_index(index, batch.num_rows)
    except (ValueError, TypeError, AttributeError, KeyError, OSError, StopIteration, RecursionError, pa.ArrowException) as error:
        raise StateError("a container is corrupt", f"{storage.label(path)}: {error}", RESTORE) from error
    return Container(path, batch, indexes, buffer.size, footer.get("description"))


class _Body:
    """The body of a file under construction: a list of buffers, in which each part is aligned, and their checksum."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.size = 0
        self._crc = 0

    def add(self, pieces: Sequence[Any]) -> tuple[int, int]:
        """Append a part; its offset and size."""
        self.pad()
        start = self.size
        for piece in pieces:
            self._append(piece)
        return start, self.size - start

    def pad(self) -> int:
        """Append zeros up to the next multiple of the alignment; the checksum of the whole body."""
        if self.size % _ALIGNMENT:
            self._append(bytes(_ALIGNMENT - self.size % _ALIGNMENT))
        return self._crc

    def _append(self, piece: Any) -> None:
        if len(piece):
            self.pieces.append(piece)
            self._crc = zlib.crc32(piece, self._crc)
            self.size += len(piece)


class _BufferList:
    """A file object for Arrow that collects the buffers written to it, without copying them."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def write(self, piece: Any) -> int:
        self.pieces.append(piece)
        return len(piece)

    def flush(self) -> None:
        """Required of a file object; there is nothing to flush."""

    def close(self) -> None:
        self.closed = True


def _stream(batch: pa.RecordBatch) -> Sequence[Any]:
    """The batch as an Arrow IPC stream, in buffers. Both ways to make them give the same bytes."""
    if batch.get_total_buffer_size() <= _MAX_COPIED_BYTES:
        return batch.schema.serialize(), batch.serialize(), _STREAM_END
    sink = _BufferList()
    with pa.PythonFile(sink, "w") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.pieces


def _add_index(body: _Body, index: Index) -> dict[str, tuple[str, int, int]]:
    """Append the arrays of an index; type, offset and size of each."""
    entries = {}
    arrays: dict[str, Any] = index._asdict()
    for name, array in arrays.items():
        kind = array.dtype.str
        if array.ndim != 1 or kind not in _DTYPES:
            raise AssertionError(f"an index has an array that cannot be stored: {name} of {kind} in {array.ndim} dimensions")
        entries[name] = (kind, *body.add([np.ascontiguousarray(array).data.cast("B")] if array.size else []))
    return entries


def _footer(buffer: pa.Buffer) -> tuple[Any, int]:
    """The footer, and the offset at which the body ends; ValueError if the file is damaged."""
    if buffer.size < _TAIL.size + _ALIGNMENT:
        raise ValueError(f"{buffer.size} bytes are too few")
    length, crc, size, magic = _TAIL.unpack(buffer.slice(buffer.size - _TAIL.size))
    if magic != _MAGIC or buffer.slice(0, len(_MAGIC)).to_pybytes() != _MAGIC:
        raise ValueError("it does not start and end as a container does")
    if size != buffer.size:
        raise ValueError(f"{buffer.size} bytes instead of {size}")
    end = size - _TAIL.size - length
    if end < _ALIGNMENT:
        raise ValueError("its footer is too long")
    text = buffer.slice(end, length).to_pybytes()
    if zlib.crc32(text) != crc:
        raise ValueError("the footer does not match its checksum")
    return json.loads(text), end


def _part(buffer: pa.Buffer, offset_and_size: Sequence[int], end: int) -> pa.Buffer:
    """A part of the body, which ends at `end`."""
    start, size = offset_and_size
    if not 0 <= start <= start + size <= end:
        raise ValueError(f"a part of {size} bytes at {start} lies outside")
    return buffer.slice(start, size)


def _array(buffer: pa.Buffer, entry: Sequence[Any], end: int) -> np.ndarray[Any, Any]:
    """The array of which `entry` is (type, offset, size)."""
    kind, *offset_and_size = entry
    if kind not in _DTYPES:
        raise ValueError(f"an array of {kind}")
    part = _part(buffer, offset_and_size, end)
    return np.frombuffer(part, dtype=kind) if part.size else np.empty(0, kind)
