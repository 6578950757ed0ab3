"""Formats that cannot be decoded are refused when a stream is declared, with the name of the column and the stream."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from clash.errors import OptionError
from clash.records import RecordFormat, check_format

from .json_cases import TYPES


def test_every_type_of_json() -> None:
    check_format(RecordFormat("json", tuple((f"c{number}", kind) for number, kind in enumerate(TYPES))), "s")
    check_format(RecordFormat("raw", (("value", "binary"),)), "s")


@pytest.mark.parametrize(
    ("columns", "what", "detail"),
    [
        ((), "a stream needs at least one column", "stream s"),
        ((("a", "int"), ("A", "int")), "a column is declared twice", "a (stream s)"),
        ((("_corrupt_record", "string"),), "this name of a column is reserved", "_corrupt_record (stream s)"),
        ((("a", "money"),), "this type is not supported", "money (column a, stream s)"),
        ((("a", "varchar(3)"),), "a record has no strings of limited length", "varchar(3) (column a, stream s)"),
        ((("a", "array<void>"),), "json has no values of this type", "array<void> (column a, stream s)"),
        ((("a", "interval day to second"),), "json has no values of this type", "interval day to second (column a, stream s)"),
        ((("a", "map<int,int>"),), "keys of a map are strings", "map<int,int> (column a, stream s)"),
        ((("a", "struct<x:int,x:int>"),), "a column is declared twice", "x (column a, stream s)"),
        ((('a"b', "int"),), "a field of JSON with such a name cannot be declared", "'a\"b' (stream s)"),
    ],
)
def test_columns_that_json_cannot_have(columns: Any, what: str, detail: str) -> None:
    with pytest.raises(OptionError) as error:
        check_format(RecordFormat("json", columns), "s")
    assert (error.value.what, error.value.detail) == (what, detail)
    assert error.value.hint


def test_a_raw_value_has_one_column() -> None:
    with pytest.raises(OptionError, match="a raw value is one binary column"):
        check_format(RecordFormat("raw", (("value", "string"),)), "s")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="json needs a library that is not installed") as error:
        check_format(RecordFormat("json", (("a", "int"),)), "s")
    assert "clash-on-spark[kafka]" in error.value.hint
