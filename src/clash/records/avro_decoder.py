"""Avro records, plain or in Confluent's wire format (a zero byte, four bytes of the schema's id, the value)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, cast

import pyarrow as pa

from clash.errors import OptionError
from clash.records.avro_columns import to_column
from clash.records.avro_schema import logical_types, resolved, without_logical_types
from clash.records.record_format import RecordFormat

Columns = dict[str, pa.Array]

_PREFIX = 5  # bytes of Confluent's wire format before the value


class UnknownSchema(Exception):  # noqa: N818 - it is a request to the caller, not an error
    """A record was written with a schema that is not in the format's `registry`. The caller fetches it, and decodes again."""

    def __init__(self, id: int) -> None:
        super().__init__(f"schema {id} is not known")
        self.id = id


class NotAvroError(ValueError):
    """The value cannot be read with its schema; the message is the reason."""


def decode_avro(format: RecordFormat, values: Sequence[bytes]) -> tuple[Columns, dict[int, str]]:
    """All columns of the schema, with one value per record (NULL where it is rejected), and the reasons of the rejected records.

    Raises UnknownSchema for the first record whose writer's schema is not there yet.
    """
    assert format.schema is not None
    read = _reader(format.schema, dict(format.registry))
    rows: list[dict[str, Any]] = []
    rejected: dict[int, str] = {}
    for position, value in enumerate(values):
        try:
            rows.append(read(value))
        except NotAvroError as error:
            rejected[position] = str(error)
            rows.append({})
    arrays = {}
    for field in resolved(format.schema)["fields"]:
        name = field["name"]
        column = to_column([row.get(name) for row in rows], field["type"], name)
        arrays[name] = column.array
        for position, reason in column.reasons.items():
            rejected.setdefault(position, reason)
    return arrays, rejected


def _reader(schema: str, registry: dict[int, str]) -> Callable[[bytes], dict[str, Any]]:
    expected = _parsed(schema)
    if not registry:
        return lambda value: _read(value, 0, expected, None)

    def read(value: bytes) -> dict[str, Any]:
        if len(value) < _PREFIX or value[0] != 0:
            raise NotAvroError("not in Confluent's wire format: it does not begin with a zero byte and a schema's id")
        id = int.from_bytes(value[1:_PREFIX], "big")
        written = registry.get(id)
        if written is None:
            raise UnknownSchema(id)
        if not written:
            raise NotAvroError(f"the schema registry has no schema {id}")
        if written == schema:
            return _read(value, _PREFIX, expected, None)
        _check_compatible(written, schema, id)
        return _read(value, _PREFIX, _parsed(written), expected)

    return read


def _check_compatible(written: str, schema: str, id: int) -> None:
    conflict = _conflict(written, schema)
    if conflict:
        raise NotAvroError(f"schema {id} of the registry cannot be read as the stream's: {conflict}")


@lru_cache(maxsize=256)
def _conflict(written: str, schema: str) -> str:
    """Why values of one schema do not mean the same in the other; empty if they do. Avro itself compares only how they are stored."""
    try:
        theirs = logical_types(resolved(written))
    except OptionError as error:
        return f"{error.what}, {error.detail}"
    ours = logical_types(resolved(schema))
    differing = [field for field, kind in ours.items() if theirs.get(field, kind) != kind]
    return f"field {differing[0]} has another logical type" if differing else ""


@lru_cache(maxsize=256)
def _parsed(schema: str) -> Any:
    from fastavro import parse_schema

    return parse_schema(without_logical_types(json.loads(schema)))


def _read(value: bytes, begin: int, written: Any, expected: Any) -> dict[str, Any]:
    from fastavro import schemaless_reader

    stream = BytesIO(value)
    stream.seek(begin)
    try:
        row = schemaless_reader(stream, written, expected)
    except (
        Exception
    ) as error:  # fastavro raises whatever the bytes lead to: EOFError, IndexError, UnicodeDecodeError, SchemaResolutionError
        raise NotAvroError(f"not of this Avro schema: {type(error).__name__}, at byte {stream.tell()} of {len(value)}") from None
    if stream.tell() != len(value):
        raise NotAvroError(f"not of this Avro schema: it ends at byte {stream.tell()} of {len(value)}")
    return cast(dict[str, Any], row)
