"""CSV records: splitting, NULL, and reasons as a user reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.errors import OptionError
from clash.records import Decoded, RecordFormat, check_format, decode

COLUMNS = (("id", "bigint"), ("name", "string"), ("price", "double"))


def reads(*values: bytes | None, separator: str = ",") -> Decoded:
    format = RecordFormat("csv", COLUMNS, separator=separator)
    check_format(format, "s")
    return decode(format, values, "UTC")


def test_fields_in_order_with_nulls() -> None:
    decoded = reads(b"1,x,2.5", b',"a,b",', b"+3,  , 4 ")
    assert decoded.columns["id"].to_pylist() == [1, None, 3]
    assert decoded.columns["name"].to_pylist() == ["x", "a,b", "  "]
    assert decoded.columns["price"].to_pylist() == [2.5, None, 4.0]
    assert (decoded.accepted, decoded.rejected) == (None, {})


def test_lines_that_are_split_at_once_and_one_by_one() -> None:
    """The same fields, whatever else is in the batch."""
    plain = [b"1,x,2.5", b",,", b"3,y z,"]
    with_quotes = decode(RecordFormat("csv", COLUMNS), [*plain, b'4,"q",1'], "UTC")
    assert {name: array[:3] for name, array in with_quotes.columns.items()} == reads(*plain).columns
    assert decode(RecordFormat("csv", (("a", "string"),)), [b"x", b"", b"y"], "UTC").rejected == {1: "empty value"}


def test_another_separator() -> None:
    decoded = reads(b'1|"a|b"|2', b"2|a,b|3", separator="|")
    assert decoded.columns["name"].to_pylist() == ["a|b", "a,b"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "tombstone (no value)"),
        (b"", "empty value"),
        (b"1,x", "3 fields are declared and it has 2"),
        (b"1,x,2,3", "3 fields are declared and it has 4"),
        (b"1,\xff,2", "not UTF-8: byte 0xff at byte 2"),
        (b"\xef\xbb\xbf1,x,2", "it begins with a byte order mark"),
        (b'1,"x""y",2', r"the quotes of field 2 do not end with it; a quote inside of quotes is written \""),
        (b'1,"x,2', r"the quotes of field 2 do not end with it; a quote inside of quotes is written \""),
        (b"1.0,x,2", 'field id is bigint and has "1.0"'),
        (b" 1,x,2", 'field id is bigint and has " 1"'),
        (b"9223372036854775808,x,2", 'field id is bigint and has "9223372036854775808"'),
        (b"1,x,2f", 'field price is double and has "2f"'),
        (b"1,x,2\n3", 'field price is double and has "2\\u000a3"'),
    ],
)
def test_reasons(value: bytes | None, reason: str) -> None:
    decoded = reads(b"1,x,2", value, b"2,y,3")
    assert decoded.rejected == {1: reason}
    assert decoded.columns["id"].to_pylist() == [1, 2]


@given(st.lists(st.binary(max_size=20) | st.text('",;\\1x\n', max_size=12).map(str.encode), min_size=1, max_size=5))
def test_bytes_of_any_kind_are_accepted_or_rejected(values: list[bytes]) -> None:
    decoded = reads(*values)
    assert len(decoded.columns["id"]) + len(decoded.rejected) == len(values)


@given(st.lists(st.text('",;\\1xé \n', max_size=8), min_size=2, max_size=2))
def test_quoted_fields_are_what_was_written(texts: list[str]) -> None:
    quoted = ['"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts]
    decoded = decode(RecordFormat("csv", (("a", "string"), ("b", "string"))), [",".join(quoted).encode()], "UTC")
    assert [decoded.columns[name][0].as_py() for name in "ab"] == [text or None for text in texts]


@pytest.mark.parametrize("separator", ["", ",,", '"', "\\", "\n"])
def test_separators_that_cannot_be(separator: str) -> None:
    with pytest.raises(OptionError, match="a separator is one character"):
        check_format(RecordFormat("csv", COLUMNS, separator=separator), "s")


def test_csv_has_no_nested_values() -> None:
    with pytest.raises(OptionError, match="csv has no values of this type"):
        check_format(RecordFormat("csv", (("a", "array<int>"),)), "s")
