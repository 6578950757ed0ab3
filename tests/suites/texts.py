"""The texts and schemas of the suites, read from the jar of Spark's own tests; none of them is part of this repository."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

Schema = dict[str, dict[str, str]]  # by table, the columns with their Spark types

_CLASSES = {"tpch": "org/apache/spark/sql/TPCHBase.class", "tpcds": "org/apache/spark/sql/TPCDSSchema.class"}
_COLUMN = re.compile(r"`(\w+)` (\w+(?:\(\d+(?:,\s*\d+)?\))?)")
_CREATED = re.compile(r"CREATE TABLE `(\w+)`")
_CONSTANT_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_TWICE = (5, 6)  # kinds of constants that count as two


def texts(jar: Path, suite: str) -> dict[str, str]:
    """The queries of `tpch` or `tpcds`, by name, in the order of their numbers."""
    with zipfile.ZipFile(jar) as archive:
        found = {Path(name).stem: archive.read(name).decode() for name in archive.namelist() if re.fullmatch(rf"{suite}/q\w+\.sql", name)}
    return dict(sorted(found.items(), key=lambda item: (int(re.sub(r"\D", "", item[0])), item[0])))


def sql_test(jar: Path, name: str) -> str:
    """One file of Spark's SQL tests."""
    with zipfile.ZipFile(jar) as archive:
        return archive.read(f"sql-tests/inputs/{name}.sql").decode()


def schema(jar: Path, suite: str) -> Schema:
    """The tables of a suite. They are string constants of a class. Fixed-length text is text: a stream has no other."""
    with zipfile.ZipFile(jar) as archive:
        constants = list(_string_constants(archive.read(_CLASSES[suite])))
    tables: Schema = {}
    table = ""
    for text in constants:
        columns = {name: _type(kind) for name, kind in _COLUMN.findall(text)}
        created = _CREATED.search(text)
        if len(columns) > 1:
            tables[created[1] if created else table] = columns
        elif re.fullmatch("[a-z_]+", text):
            table = text  # the name stands before the columns
    return tables


def _type(kind: str) -> str:
    """Amounts of TPC-H have cents, as in its specification: in Spark's tests they are whole numbers."""
    kind = kind.lower().replace(" ", "")
    return "string" if kind.startswith(("char", "varchar")) else "decimal(15,2)" if kind == "decimal(10,0)" else kind


def _string_constants(code: bytes) -> Iterator[str]:
    """The strings in the constant pool of a class file, in order."""
    count, at, number = struct.unpack(">H", code[8:10])[0], 10, 1
    while number < count:
        kind = code[at]
        if kind == 1:
            length = struct.unpack(">H", code[at + 1 : at + 3])[0]
            yield code[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            at += 1 + _CONSTANT_SIZES[kind]
            number += kind in _TWICE
        number += 1
