"""Column types, by their Spark names, and which of them may be joined.

Equality is transitive only within one *family* of types: `int = bigint` compares exact numbers, `int = double` rounds. An equality class of
attributes therefore never spans two families.
"""

from __future__ import annotations

import re

UNKNOWN = "unknown"  # the type of columns of undeclared streams; every use of it is accepted

_FAMILY = {
    "tinyint": "integer",
    "smallint": "integer",
    "int": "integer",
    "bigint": "integer",
    "float": "floating",
    "double": "floating",
    "string": "string",
    "boolean": "boolean",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    UNKNOWN: UNKNOWN,
}
_ALIASES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
_DECIMAL = re.compile(r"decimal\(([0-9]{1,3}),([0-9]{1,3})\)")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_JOINABLE = ({"integer", "floating", "decimal"}, {"date", "timestamp", "timestamp_ntz"})


def normalise(name: str) -> str:
    """The canonical spelling of a type, Spark's `simpleString`. Nested types stay as they are: they contain field names.

    >>> normalise("LONG"), normalise("decimal(10, 2)"), normalise("decimal(5)"), normalise("varchar(5)")
    ('bigint', 'decimal(10,2)', 'decimal(5,0)', 'string')
    """
    if "<" in name:
        return name.strip()
    name = name.strip().lower()
    if name == "decimal":
        return "decimal(10,0)"
    if name.startswith(("varchar", "char")):
        return "string"
    if name.startswith("decimal"):
        name = "".join(name.split())
        return name if "," in name else f"{name.removesuffix(')')},0)"
    return _ALIASES.get(name, name)


def family(name: str) -> str:
    """The family of a type. Types of one family are exactly comparable; each decimal type is a family of its own."""
    return _FAMILY.get(name, name)


def exact(a: str, b: str) -> bool:
    """Whether `=` between the two types compares values without rounding, so that it is transitive."""
    return family(a) == family(b) or UNKNOWN in (a, b)


def joinable(a: str, b: str) -> bool:
    """Whether `=` may join columns of the two types. A string never silently joins a number."""
    if exact(a, b):
        return is_atomic(a) and is_atomic(b)
    fa, fb = (("decimal" if t.startswith("decimal") else family(t)) for t in (a, b))
    if {fa, fb} <= {"decimal", "integer"} and not _fit_together(a, b):
        return False
    return fa == fb == "decimal" or any(fa in group and fb in group for group in _JOINABLE)


def _fit_together(a: str, b: str) -> bool:
    """Whether one decimal type can represent all values of both; otherwise `=` would compare rounded values."""
    (p, s), (q, t) = digits(a), digits(b)
    return max(p - s, q - t) + max(s, t) <= 38


def digits(name: str) -> tuple[int, int]:
    """Precision and scale of a decimal, or of an integer read as a decimal."""
    if name.startswith("decimal("):
        precision, scale = name[len("decimal(") : -1].split(",")
        return int(precision), int(scale)
    return _DIGITS[name], 0


def is_decimal(name: str) -> bool:
    """Whether the name is that of a decimal type that exists: up to 38 digits, of which any number may be fraction digits."""
    match = _DECIMAL.fullmatch(name)
    return match is not None and 0 <= int(match[2]) <= int(match[1]) <= 38 and int(match[1]) > 0


def is_atomic(name: str) -> bool:
    """Whether a column of this type can be a key; columns of nested types are payload only."""
    return name in _FAMILY or name.startswith("decimal")


def struct_fields(name: str) -> list[tuple[str, str]]:
    """Name and type of each field of a struct; none for any other type.

    >>> struct_fields("struct<a:int,b:struct<c:decimal(5,2),d:string>>")
    [('a', 'int'), ('b', 'struct<c:decimal(5,2),d:string>')]
    """
    if not name.startswith("struct<") or not name.endswith(">"):
        return []
    return [split_field(part) for part in split_at_commas(name.removeprefix("struct<")[:-1])]


def split_field(part: str) -> tuple[str, str]:
    """Name and type of a field, `name: type`; the name may be quoted with backticks. Without a type if it cannot be read."""
    part = part.strip()
    end = part.find("`", 1) + 1 if part.startswith("`") else part.find(":")
    if end <= 0 or part[end : end + 1] != ":":
        return part, ""
    return part[:end].strip("`"), part[end + 1 :].strip()


def split_at_commas(inner: str) -> list[str]:
    """Splits at the commas that are outside of all brackets."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(inner):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(inner[begin:position])
            begin = position + 1
    return [*parts, inner[begin:]] if inner.strip() else []


def is_numeric(name: str) -> bool:
    return family(name) in ("integer", "floating") or name.startswith("decimal")
