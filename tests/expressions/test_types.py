"""Spark's type names as Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clash.errors import OptionError
from clash.expressions import arrow_type


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bigint", pa.int64()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("interval", pa.duration("us")),
        ("interval day to second", pa.duration("us")),
        ("void", pa.null()),
        ("varchar(10)", pa.string()),
        ("array<int>", pa.list_(pa.field("element", pa.int32()))),
        ("map<string,array<date>>", pa.map_(pa.string(), pa.list_(pa.field("element", pa.date32())))),
        (
            "struct<a:int,`b:c`:decimal(5,1),d:struct<e:string>>",
            pa.struct([("a", pa.int32()), ("b:c", pa.decimal128(5, 1)), ("d", pa.struct([("e", pa.string())]))]),
        ),
        ("struct<>", pa.struct([])),
    ],
)
def test_names(name: str, kind: pa.DataType) -> None:
    assert arrow_type(name) == kind


@pytest.mark.parametrize(
    "name", ["unknown", "decimal(39,0)", "decimal(2,3)", "decimal(0,0)", "decimal(a,b)", "map<int>", "array<x>", "struct<a>", "array<int"]
)
def test_refused(name: str) -> None:
    with pytest.raises(OptionError, match="this type is not supported"):
        arrow_type(name)
