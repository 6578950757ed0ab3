"""Avro schemas: which columns they have, with the types that Spark gives them, and how fastavro reads them."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from clash.errors import OptionError

_PRIMITIVE = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_REFUSED = ("time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos", "duration")
_WIDER = {frozenset(("int", "long")): "bigint", frozenset(("float", "double")): "double"}
_ANNOTATIONS = ("logicalType", "precision", "scale")
_STORED = ("int", "long", "bytes", "fixed")  # types of which a logical type changes the meaning
_WHAT = "this Avro schema cannot be read"


def columns_of_avro(schema: str) -> tuple[tuple[str, str], ...]:
    """Name and Spark type of each field of a record's schema. Raises OptionError for a schema or a type that is not supported."""
    fields = resolved(schema)["fields"]
    if not fields:
        raise OptionError(_WHAT, "it has no fields", "a stream needs at least one column")
    return tuple((field["name"], spark_type(field["type"])) for field in fields)


@lru_cache(maxsize=256)
def resolved(schema: str) -> Any:
    """The schema with every name replaced by what it names. Raises OptionError unless it is a record."""
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        raise OptionError(_WHAT, f"not JSON: {schema[:60]}", "pass the text of an .avsc file") from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise OptionError(_WHAT, f"not a record: {schema[:60]}", "the schema of a value is a record, whose fields are the columns")
    _check_with_fastavro(parsed)
    found = _resolve(parsed, {}, "", ())
    _refuse_empty_items(found)
    return found


def _check_with_fastavro(schema: Any) -> None:
    try:
        from fastavro import parse_schema
    except ImportError:
        raise OptionError("avro needs a library that is not installed", "fastavro", "pip install 'clash-on-spark[kafka]'") from None
    try:
        parse_schema(schema)
    except Exception as error:  # fastavro raises whatever a wrong shape leads to
        raise OptionError(_WHAT, f"{type(error).__name__}: {error}", "check it with Avro's tools") from None


def _resolve(schema: Any, names: dict[str, Any], namespace: str, open_: tuple[str, ...]) -> Any:
    """`names` are the types that were defined before; `open_` the ones that are being defined, which must not occur in themselves."""
    if isinstance(schema, list):
        return [_resolve(branch, names, namespace, open_) for branch in schema]
    if isinstance(schema, str):
        full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        if schema in _PRIMITIVE or schema == "null":
            return {"type": schema}
        if full in open_:
            raise OptionError(_WHAT, f"{full} contains itself", "a column has a type of finite depth; leave the field out")
        return names[full] if full in names else names[schema]
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _resolve(kind, names, namespace, open_)
    if kind in ("record", "error", "enum", "fixed"):
        name = schema["name"]
        namespace = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        plain = {**schema, "name": full}
        plain.pop("namespace", None)
        if kind in ("record", "error"):
            inside = (*open_, full)
            plain["fields"] = [{**field, "type": _resolve(field["type"], names, namespace, inside)} for field in schema["fields"]]
        names[full] = plain
        return plain
    if kind == "array":
        return {**schema, "items": _resolve(schema["items"], names, namespace, open_)}
    if kind == "map":
        return {**schema, "values": _resolve(schema["values"], names, namespace, open_)}
    return schema if kind in _PRIMITIVE or kind == "null" else _resolve(kind, names, namespace, open_)


def _refuse_empty_items(schema: Any) -> None:
    """A record of a few bytes could have any number of items without bytes, and reading them would take as long, or as much memory."""
    for part in _parts(schema):
        _refuse_empty_items(part)
    if isinstance(schema, dict) and schema["type"] == "array" and _has_no_bytes(schema["items"]):
        raise OptionError(_WHAT, "an array whose items have no bytes", "leave the field out, or give its items a type with a value")


def _has_no_bytes(schema: Any) -> bool:
    """Whether all values of a resolved schema are stored in no bytes."""
    if isinstance(schema, list):  # which branch it is takes a byte
        return False
    kind = schema["type"]
    if kind in ("record", "error"):
        return all(map(_has_no_bytes, _parts(schema)))
    return bool(kind == "null" or (kind == "fixed" and schema["size"] == 0))


def _parts(schema: Any) -> list[Any]:
    """The schemas directly inside a resolved one."""
    if isinstance(schema, list):
        return schema
    return [*(field["type"] for field in schema.get("fields", ())), *(schema[key] for key in ("items", "values") if key in schema)]


def spark_type(schema: Any) -> str:
    """The type that Spark gives a resolved schema. Raises OptionError for one that is not supported."""
    if isinstance(schema, list):
        return _union_type(schema)
    kind, logical = schema["type"], schema.get("logicalType")
    if kind in ("record", "error"):
        if not schema["fields"]:
            raise OptionError("this Avro type is not supported", f"record {schema['name']} without fields", "leave the field out")
        parts = [f"{field['name']}:{spark_type(field['type'])}" for field in schema["fields"]]
        return f"struct<{','.join(parts)}>"
    if kind == "array":
        return f"array<{spark_type(schema['items'])}>"
    if kind == "map":
        return f"map<string,{spark_type(schema['values'])}>"
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in _REFUSED:
        raise OptionError(
            "this Avro type is not supported", f"{kind} with logicalType {logical}", "leave logicalType out to read the number"
        )
    if kind in _PRIMITIVE:
        return _LOGICAL.get((kind, logical), _PRIMITIVE[kind])
    raise OptionError("this Avro type is not supported", str(kind), "see docs/records.md for the types that are")


def _union_type(branches: list[Any]) -> str:
    """A union with null, or of two widths of a number; Spark makes structs of others, which is not supported."""
    values = [branch for branch in branches if branch["type"] != "null"]
    if len(values) == 1:
        return spark_type(values[0])
    wider = _WIDER.get(frozenset(branch["type"] for branch in values)) if len(values) == 2 else None
    if wider is None or any("logicalType" in branch for branch in values):
        listed = ", ".join(str(branch["type"]) for branch in branches)
        raise OptionError("this Avro type is not supported", f"union of {listed}", "a union of null and one type is")
    return wider


def without_logical_types(schema: Any) -> Any:
    """The schema, as it was parsed, in which all values are as they are stored, so that fastavro converts none of them."""
    if isinstance(schema, list):
        return [without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    for key in ("type", "items", "values", "fields"):
        if key in plain:
            plain[key] = without_logical_types(plain[key])
    return plain


def logical_types(schema: Any, field: str = "") -> dict[str, tuple[Any, ...]]:
    """What the stored values of a resolved schema mean, by dotted field: for comparing a writer's schema with a reader's."""
    if isinstance(schema, list):
        return {name: kind for branch in schema for name, kind in logical_types(branch, field).items()}
    found = {field: (schema.get("logicalType"), schema.get("scale", 0))} if schema["type"] in _STORED else {}
    for part in schema.get("fields", ()):
        found |= logical_types(part["type"], f"{field}.{part['name']}".lstrip("."))
    for key in ("items", "values"):
        if key in schema:
            found |= logical_types(schema[key], f"{field}[]")
    return found


def has_aliases(schema: Any) -> bool:
    """Whether a field of the schema, as it was parsed, may have another name in a writer's schema."""
    if isinstance(schema, list):
        return any(map(has_aliases, schema))
    return isinstance(schema, dict) and (
        bool(schema.get("aliases")) or any(has_aliases(schema.get(k)) for k in ("type", "items", "values", "fields"))
    )
