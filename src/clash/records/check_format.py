"""Whether a format can be decoded. It is checked when a stream is declared, so that decoding never meets a type it does not know."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator

import pyarrow as pa

from clash.errors import OptionError, with_context
from clash.expressions.arrow_types import arrow_type
from clash.records.avro_schema import columns_of_avro, has_aliases
from clash.records.record_format import RecordFormat

_LIBRARIES = {"json": "msgspec", "avro": "fastavro"}
_CORRUPT = "_corrupt_record"  # which Spark's readers fill themselves


def check_format(format: RecordFormat, stream: str) -> None:
    """Raise OptionError for columns that the format cannot have, and for a library that is missing."""
    where = f"stream {stream}"
    if format.kind == "raw":
        if format.columns != (("value", "binary"),):
            raise OptionError("a raw value is one binary column", f"{_listed(format)} ({where})", "declare nothing: it is named value")
        return
    _check_names([name for name, _ in format.columns], where)
    for name, kind in format.columns:
        _check_type(name, kind, format.kind, where)
    if format.kind == "json":
        _check_json_names(format, where)
    if format.kind == "csv" and (len(format.separator) != 1 or format.separator in '"\\\r\n\0'):
        raise OptionError("a separator is one character", f"{format.separator!r} ({where})", "write separator=';' or such")
    _check_library(format.kind, where)
    if format.kind == "avro":
        _check_avro(format, where)


def _check_avro(format: RecordFormat, where: str) -> None:
    if format.schema is None:
        raise OptionError("Avro needs a schema", where, "pass the text of an .avsc file, or the address of a schema registry")
    try:
        derived = columns_of_avro(format.schema)
    except OptionError as error:
        raise with_context(error, where) from None
    if format.registry and has_aliases(json.loads(format.schema)):
        raise OptionError("aliases in an Avro schema are not supported", where, "rename the column in a query instead")
    if derived != format.columns:
        declared = ", ".join(f"{name} {kind}" for name, kind in derived)
        raise OptionError("the columns are not those of the Avro schema", f"{_listed(format)} ({where})", f"the schema has {declared}")


def _check_json_names(format: RecordFormat, where: str) -> None:
    """The quick decoder compares names as they are written in the record, without escapes."""
    for name, _ in format.columns:
        if any(character in '"\\' or character < " " for character in name):
            raise OptionError(
                "a field of JSON with such a name cannot be declared",
                f"{name!r} ({where})",
                "names have no quotes, backslashes and control characters; read the value raw and take it apart in a query",
            )


def _check_names(names: list[str], where: str) -> None:
    if not names:
        raise OptionError("a stream needs at least one column", where, "declare the fields of the value, e.g. 'id long, ts timestamp'")
    lower = [name.lower() for name in names]
    for name in names:
        if lower.count(name.lower()) > 1:
            raise OptionError("a column is declared twice", f"{name} ({where})", "names must differ in more than upper and lower case")
        if name == _CORRUPT:
            raise OptionError(
                "this name of a column is reserved", f"{name} ({where})", "records that do not fit are kept by run.rejected()"
            )


def _check_type(name: str, kind: str, format: str, where: str) -> None:
    place = f"column {name}, {where}"
    try:
        arrow = arrow_type(kind)
    except OptionError as error:
        raise with_context(error, place) from None
    if "char(" in kind:
        raise OptionError("a record has no strings of limited length", f"{kind} ({place})", "declare it as string")
    for part in _parts(arrow):
        if pa.types.is_duration(part) or pa.types.is_null(part) or (format == "csv" and pa.types.is_nested(part)):
            raise OptionError(f"{format} has no values of this type", f"{kind} ({place})", "declare it as string or bigint and convert it")
        if pa.types.is_map(part) and not pa.types.is_string(part.key_type):
            raise OptionError("keys of a map are strings", f"{kind} ({place})", "declare it as map<string, …>")
        if pa.types.is_struct(part):
            _check_names([field.name for field in part], place)


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The type and all types inside it."""
    yield kind
    if pa.types.is_map(kind):
        yield from (*_parts(kind.key_type), *_parts(kind.item_type))
    elif pa.types.is_nested(kind):
        for number in range(kind.num_fields):
            yield from _parts(kind.field(number).type)


def _check_library(kind: str, where: str) -> None:
    library = _LIBRARIES.get(kind)
    if library is not None and importlib.util.find_spec(library) is None:
        raise OptionError(f"{kind} needs a library that is not installed", f"{library} ({where})", "pip install 'clash-on-spark[kafka]'")


def _listed(format: RecordFormat) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in format.columns) or "no column"
