"""A plain reader of Avro binary, by its specification: for tests of what the sink writes."""

from __future__ import annotations

import json
import struct
from typing import Any


class AvroReader:
    def __init__(self, schema: str) -> None:
        self._schema = json.loads(schema)

    def read(self, data: bytes) -> Any:
        value, end = _read(self._schema, data, 0)
        assert end == len(data)
        return value


def _read(schema: Any, data: bytes, at: int) -> tuple[Any, int]:
    if isinstance(schema, list):
        branch, at = _long(data, at)
        return _read(schema[branch], data, at)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "null":
        return None, at
    if kind == "boolean":
        return bool(data[at]), at + 1
    if kind in ("int", "long"):
        return _long(data, at)
    if kind in ("float", "double"):
        size = 4 if kind == "float" else 8
        return struct.unpack("<f" if size == 4 else "<d", data[at : at + size])[0], at + size
    if kind in ("bytes", "string"):
        size, at = _long(data, at)
        content = data[at : at + size]
        return content.decode() if kind == "string" else content, at + size
    if kind == "fixed":
        return int.from_bytes(data[at : at + schema["size"]], "big", signed=True), at + schema["size"]
    if kind == "record":
        record = {}
        for field in schema["fields"]:
            record[field["name"]], at = _read(field["type"], data, at)
        return record, at
    items: list[Any] = []
    while True:
        count, at = _long(data, at)
        if not count:
            return (dict(items) if kind == "map" else items), at
        for _ in range(count):
            name = None
            if kind == "map":
                name, at = _read("string", data, at)
            item, at = _read(schema["values" if kind == "map" else "items"], data, at)
            items.append((name, item) if kind == "map" else item)


def _long(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
