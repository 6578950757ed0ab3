"""One container, one file: an Arrow record batch and the indexes over it, read by mapping the file.

Layout: magic; the batch as an Arrow IPC stream; the arrays of the indexes; a footer in JSON that says where all that lies, with the
CRC-32 of everything before it; length and CRC-32 of the footer, the file's size, and the magic again. Each part starts on a 64-byte
border. Arrow pads the columns inside the batch to 8 bytes (pyarrow offers no other choice), so no 64-bit value lies across two
cache lines. Size, magic and footer are checked at each opening, the body on demand.
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

from clash.columnar.index import Index
from clash.errors import StateError
from clash.state.storage import Storage

_MAGIC = b"CLASHC01"
_BORDER = 64
_TAIL = struct.Struct("<IIQ8s")  # length and CRC-32 of the footer, size of the file, magic
_DTYPES = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"})
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow IPC stream
_SMALL = 1 << 20  # bytes of a batch up to which one copy is quicker than handing over buffers one by one


@dataclass(frozen=True)
class Container:
    """The columns and arrays are views of the mapped file, and read-only."""

    path: str
    batch: pa.RecordBatch
    indexes: Mapping[str, Index]


def write_container(storage: Storage, path: str, batch: pa.RecordBatch, indexes: Mapping[str, Index]) -> int:
    """Its size in bytes. What is large goes to the storage as it lies in memory, without a copy."""
    body = _Body()
    body.add([_MAGIC])
    where = body.add(_stream(batch))
    places = {name: _add_index(body, index) for name, index in indexes.items()}
    footer = {"batch": where, "indexes": places, "crc32": body.pad()}
    text = json.dumps(footer, separators=(",", ":")).encode()
    size = body.size + len(text) + _TAIL.size
    return storage.write(path, [*body.pieces, text, _TAIL.pack(len(text), zlib.crc32(text), size, _MAGIC)])


def read_container(storage: Storage, path: str, verify: bool = False) -> Container:
    """With `verify` the whole file is read and compared with its CRC-32; without, only what is used will be read, when it is used."""
    buffer = storage.read(path)
    try:
        footer, end = _footer(buffer)
        if verify and zlib.crc32(buffer.slice(0, end)) != footer["crc32"]:
            raise ValueError("the body does not match its checksum")
        with pa.ipc.open_stream(_part(buffer, footer["batch"], end)) as reader:
            batch = reader.read_next_batch()
        indexes = {
            name: Index(**{key: _array(buffer, at, end) for key, at in arrays.items()}) for name, arrays in footer["indexes"].items()
        }
    except (ValueError, TypeError, AttributeError, KeyError, OSError, StopIteration, pa.ArrowException) as error:
        hint = "restore that file from a copy, or start with an empty checkpoint"
        raise StateError("a container is corrupt", f"{storage.label(path)}: {error}", hint) from error
    return Container(path, batch, indexes)


class _Body:
    """Pieces one after the other, each part on a border, and their checksum so far."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.size = 0
        self._crc = 0

    def add(self, pieces: Sequence[Any]) -> tuple[int, int]:
        """Offset and size of what was added."""
        self.pad()
        start = self.size
        for piece in pieces:
            self._append(piece)
        return start, self.size - start

    def pad(self) -> int:
        """Up to the next border; the checksum of all so far."""
        if self.size % _BORDER:
            self._append(bytes(_BORDER - self.size % _BORDER))
        return self._crc

    def _append(self, piece: Any) -> None:
        if len(piece):
            self.pieces.append(piece)
            self._crc = zlib.crc32(piece, self._crc)
            self.size += len(piece)


class _Pieces:
    """A file for Arrow to write to, that keeps the buffers it is handed."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def write(self, piece: Any) -> int:
        self.pieces.append(piece)
        return len(piece)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed = True


def _stream(batch: pa.RecordBatch) -> Sequence[Any]:
    """The batch as an Arrow IPC stream, in pieces; the same bytes whatever its size."""
    if batch.get_total_buffer_size() <= _SMALL:
        return batch.schema.serialize(), batch.serialize(), _END
    sink = _Pieces()
    with pa.PythonFile(sink, "w") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.pieces


def _add_index(body: _Body, index: Index) -> dict[str, tuple[str, int, int]]:
    places = {}
    arrays: dict[str, Any] = index._asdict()
    for name, array in arrays.items():
        kind = array.dtype.str
        if array.ndim != 1 or kind not in _DTYPES:
            raise AssertionError(f"an index has an array that cannot be stored: {name} of {kind} in {array.ndim} dimensions")
        places[name] = (kind, *body.add([np.ascontiguousarray(array).data.cast("B")] if array.size else []))
    return places


def _footer(buffer: pa.Buffer) -> tuple[Any, int]:
    """The footer and where the body ends."""
    if buffer.size < _TAIL.size + _BORDER:
        raise ValueError(f"{buffer.size} bytes are too few")
    length, crc, size, magic = _TAIL.unpack(buffer.slice(buffer.size - _TAIL.size))
    if magic != _MAGIC or buffer.slice(0, len(_MAGIC)).to_pybytes() != _MAGIC:
        raise ValueError("it does not start and end as a container does")
    if size != buffer.size:
        raise ValueError(f"{buffer.size} bytes instead of {size}")
    end = size - _TAIL.size - length
    if end < _BORDER:
        raise ValueError("its footer is too long")
    text = buffer.slice(end, length).to_pybytes()
    if zlib.crc32(text) != crc:
        raise ValueError("the footer does not match its checksum")
    return json.loads(text), end


def _part(buffer: pa.Buffer, where: Sequence[int], end: int) -> pa.Buffer:
    start, size = where
    if not 0 <= start <= start + size <= end:
        raise ValueError(f"a part of {size} bytes at {start} lies outside")
    return buffer.slice(start, size)


def _array(buffer: pa.Buffer, at: Sequence[Any], end: int) -> np.ndarray[Any, Any]:
    kind, *where = at
    if kind not in _DTYPES:
        raise ValueError(f"an array of {kind}")
    part = _part(buffer, where, end)
    return np.frombuffer(part, dtype=kind) if part.size else np.empty(0, kind)
