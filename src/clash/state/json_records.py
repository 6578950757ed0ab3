"""Small records as JSON files: equal data give equal bytes, and a damaged file is refused with its name."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from clash.codec import Codec, dump
from clash.errors import StateError
from clash.state.storage import Storage

_T = TypeVar("_T")
_HINT = "restore that file from a copy, or start with an empty checkpoint"


def write_record(storage: Storage, path: str, codec: Codec[_T], record: _T) -> int:
    """Write a typed record durably and return the size of the file in bytes."""
    return write_json(storage, path, codec.encode(record))


def read_record(storage: Storage, path: str, codec: Codec[_T]) -> _T:
    """A typed record; StateError if it is damaged."""
    data = read_json(storage, path)
    try:
        return codec.decode(data)
    except ValueError as error:
        raise StateError("a record is corrupt", f"{storage.label(path)}: {error}", _HINT) from error


def write_json(storage: Storage, path: str, data: Any, durable: bool = True) -> int:
    """Write JSON data and return the size of the file in bytes. Data must be JSON: NaN and keys that are not strings are not."""
    return storage.write(path, [dump(data).encode() + b"\n"], durable=durable)


def read_json(storage: Storage, path: str) -> Any:
    """The data of a record; StateError if it is damaged. It is never taken from a cache, because records are replaced under one name."""
    content = storage.read(path, mapped=False).to_pybytes()
    try:
        if not content.endswith(b"\n"):
            raise ValueError("its end is missing")
        return json.loads(content.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise StateError("a record is corrupt", f"{storage.label(path)}: {error}", _HINT) from error


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
