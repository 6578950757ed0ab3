"""Small records as JSON files with a checksum: equal data give equal bytes, and a damaged or edited file is refused with its name.

A record is two lines: the data, and `{"crc32":"…"}` with the CRC-32 of the first line. Both are JSON, so tools for JSON lines read it.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any, TypeVar

from clash.codec import Codec, dump
from clash.errors import StateError
from clash.state.storage import Storage

_T = TypeVar("_T")
_NUMBERED = re.compile(r"(\d+)\.json")
_MAX_BYTES = 1 << 28  # of a record; the largest ones, generations of hundreds of queries, have some megabytes
_HALF_CHARACTER = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")  # as JSON may write it, and no file system takes it
RESTORE = "restore the checkpoint and its result folders from one copy, or start anew with empty ones"


def write_record(storage: Storage, path: str, codec: Codec[_T], record: _T) -> int:
    """Write a typed record durably and return the size of the file in bytes."""
    return write_json(storage, path, codec.encode(record))


def write_new_record(storage: Storage, path: str, codec: Codec[_T], record: _T) -> int:
    """Write a typed record; StateError if another run has written it."""
    return storage.write_new(path, [_content(codec.encode(record))])


def read_record(storage: Storage, path: str, codec: Codec[_T]) -> _T:
    """A typed record; StateError if it is damaged."""
    return decode_record(storage, path, codec, read_json(storage, path))


def decode_record(storage: Storage, path: str, codec: Codec[_T], data: Any) -> _T:
    """The data of a record, or of a part of it, as a type; StateError if it is not of that type."""
    try:
        return codec.decode(data)
    except ValueError as error:
        raise StateError("a record is corrupt", f"{storage.label(path)}: {error}", RESTORE) from error


def write_json(storage: Storage, path: str, data: Any, durable: bool = True) -> int:
    """Write JSON data and return the size of the file in bytes. Data must be JSON: NaN and keys that are not strings are not."""
    return storage.write(path, [_content(data)], durable=durable)


def read_json(storage: Storage, path: str) -> Any:
    """The data of a record; StateError if it is damaged. It is never taken from a cache, because records are replaced under one name."""
    content = read_bytes(storage, path)
    try:
        return json.loads(_checked(content).decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise StateError("a record is corrupt", f"{storage.label(path)}: {error}", RESTORE) from error


def record_numbers(storage: Storage, folder: str) -> list[int]:
    """The numbers by which the records in a folder are named, in order. Other files, as network file systems and editors leave them, are
    not ours."""
    return sorted(int(match[1]) for name in storage.list(folder) if (match := _NUMBERED.fullmatch(name)))


def read_bytes(storage: Storage, path: str) -> bytes:
    """The content of a record as it is; StateError if it is larger than any record."""
    if (size := storage.size(path)) > _MAX_BYTES:
        raise StateError("a record is corrupt", f"{storage.label(path)}: {size} bytes are too many", RESTORE)
    return bytes(storage.read(path, mapped=False).to_pybytes())


def _content(data: Any) -> bytes:
    return with_checksum(dump(data).encode() + b"\n")


def with_checksum(line: bytes) -> bytes:
    """A record of a line of JSON, which ends with a line break."""
    return line + b'{"crc32":"%08x"}\n' % zlib.crc32(line)


def _checked(content: bytes) -> bytes:
    """The line of data of a record; ValueError if it does not match its checksum."""
    line, end, _ = content.partition(b"\n")
    if not end or len(content) < len(with_checksum(line + end)):
        raise ValueError("its end is missing")
    if content != with_checksum(line + end):
        raise ValueError("it does not match its checksum")
    if _HALF_CHARACTER.search(line):
        raise ValueError("it has halves of characters")
    return line


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
