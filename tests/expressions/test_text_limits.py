"""Texts of numbers and times that do not fit their type raise. Arrow's and numpy's own conversions would wrap around."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clash.errors import DataError
from clash.expressions.text_to_value import parse_text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("123456789012345678901234567890", "decimal(38,18)"),
        ("-123456789012345678901234567890", "decimal(38,18)"),
        ("1" + "0" * 320, "decimal(10,2)"),
        ("3.4028235e38", "decimal(38,18)"),
        ("1e400", "decimal(5,0)"),
        ("9999999-01-01", "date"),
        ("-9999999-01-01", "date"),
        ("5881581-01-01", "date"),
        ("294248-01-01", "timestamp"),
        ("9999999-01-01", "timestamp_ntz"),
        ("-9999999-01-01", "timestamp"),
        ("294247-01-10 04:00:54.775808", "timestamp_ntz"),
        ("2024-02-29T12Z", "timestamp"),  # a zone follows seconds only
        ("2024-02-29T12:34Z", "timestamp"),
    ],
)
def test_a_text_that_does_not_fit_raises(text: str, kind: str) -> None:
    with pytest.raises(DataError):
        parse_text(pa.array([text]), kind, "UTC")


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("5881580-07-11", "date", 2**31 - 1),
        ("294247-01-10 04:00:54.775807", "timestamp_ntz", 2**63 - 1),
        ("294247-01-10 04:00:54.775807", "timestamp", 2**63 - 1),
    ],
)
def test_the_last_day_and_the_last_microsecond(text: str, kind: str, number: int) -> None:
    parsed = parse_text(pa.array([text]), kind, "UTC")
    assert parsed.view(pa.int32() if kind == "date" else pa.int64()).to_pylist() == [number]


def test_the_largest_decimal() -> None:
    text = "99999999999999999999.999999999999999999"
    assert str(parse_text(pa.array([text, "-1"]), "decimal(38,18)", "UTC")[0].as_py()) == text
