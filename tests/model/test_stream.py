"""What a declared stream may be called, and what its columns may be."""

from __future__ import annotations

import pytest

from clash.errors import OptionError
from clash.model.stream import Stream


@pytest.mark.parametrize("column", ["", "a\nb", "a\x00", "\x7f", "\ud800", "x" * 1001, 5])
def test_names_of_columns_that_cannot_be_shown(column: str) -> None:
    with pytest.raises(OptionError) as error:
        Stream.of("R", {column: "int"})
    assert error.value.what == "not a valid name of a column"
    assert len(error.value.detail) <= 60
    assert error.value.hint


@pytest.mark.parametrize("column", ["a", "k c", "é日", "a.b", "`", "FROM", "x" * 1000])
def test_other_names(column: str) -> None:
    assert Stream.of("R", {column: "int"}).columns == ((column, "int"),)


@pytest.mark.parametrize(
    "kind", ["decimal(50,2)", "decimal(5,7)", "decimal(0,0)", "decimal(a,b)", "decimal(1,2,3)", "decimal(", "decimal(-1,2)"]
)
def test_decimals_that_do_not_exist(kind: str) -> None:
    with pytest.raises(OptionError) as error:
        Stream.of("R", {"a": kind})
    assert error.value.what == "not a decimal type"


def test_spellings_of_types() -> None:
    kinds = {"a": "DECIMAL", "b": "decimal( 5 )", "c": "Decimal(5, 2)", "d": "LONG"}
    assert dict(Stream.of("R", kinds).columns) == {"a": "decimal(10,0)", "b": "decimal(5,0)", "c": "decimal(5,2)", "d": "bigint"}
