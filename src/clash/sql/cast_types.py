"""The types that a CAST may name: the atomic types of Spark, as Spark writes them."""

from __future__ import annotations

import re

from sqlglot import exp

from clash.model.types import is_decimal
from clash.sql.result_types import MismatchError
from clash.sql.spark_parser import TYPE_WORDS

# types of sqlglot, for a cast that is written as a function or before a literal
_TYPES = {
    "TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint", "FLOAT": "float", "DOUBLE": "double",
    "TEXT": "string", "BOOLEAN": "boolean", "BINARY": "binary", "DATE": "date", "DECIMAL": "decimal(10,0)",
    "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz",
}  # fmt: skip
# types of Spark, as they are written
_SPELLINGS = {
    "TINYINT": "tinyint", "BYTE": "tinyint", "Y": "tinyint", "SMALLINT": "smallint", "SHORT": "smallint", "S": "smallint",
    "INT": "int", "INTEGER": "int", "BIGINT": "bigint", "LONG": "bigint", "L": "bigint", "FLOAT": "float", "REAL": "float", "F": "float",
    "DOUBLE": "double", "D": "double", "STRING": "string", "BOOLEAN": "boolean", "BINARY": "binary", "DATE": "date",
    "TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz",
    "DECIMAL": "decimal(10,0)", "DEC": "decimal(10,0)", "NUMERIC": "decimal(10,0)",
}  # fmt: skip
_DECIMAL = re.compile(r"(?:DECIMAL|DEC|NUMERIC) \( ([0-9]{1,3}) (?:, ([0-9]{1,3}) )?\)")
_LIMITED_TEXT = re.compile(r"(?:VARCHAR|CHAR|CHARACTER) \( [0-9]+ \)")  # whose length Spark ignores in a CAST


def target_type(to: exp.DataType) -> str:
    """The type that a CAST names; empty if Spark has no such atomic type."""
    words = to.meta.get(TYPE_WORDS)
    if words is None and to.is_type("decimal") and to.expressions:
        words = f"DECIMAL ( {' , '.join(part.name for part in to.expressions)} )"  # of a literal such as 1.5BD
    if words is None:
        plain = not any(to.args.get(key) for key in ("expressions", "nested", "values", "kind"))
        return _TYPES.get(to.this.name, "") if plain and not isinstance(to.this, exp.Expression) else ""
    if match := _DECIMAL.fullmatch(words):
        kind = f"decimal({int(match[1])},{int(match[2] or 0)})"
        if not is_decimal(kind):
            raise MismatchError("not a decimal type", kind, "write decimal(p,s) with p up to 38 and s up to p")
        return kind
    return "string" if _LIMITED_TEXT.fullmatch(words) else _SPELLINGS.get(words, "")
