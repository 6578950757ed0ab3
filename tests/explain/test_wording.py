"""How numbers, lists and predicates are written."""

from __future__ import annotations

import pytest

from clash.explain.wording import join_names, number, percent, plural
from clash.model.expression_text import expression_text
from clash.sql import parse_queries


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1e-12, "0"),
        (0.0001, "0.0"),
        (0.0125, "0.013"),
        (0.5, "0.5"),
        (1.0000000001, "1"),
        (2.345, "2.35"),
        (33.3333, "33.3"),
        (99.96, "100"),
        (475, "475"),
        (474.9999999999, "475"),
        (474.5, "474.5"),
        (999.7, "1,000"),
        (1234.56, "1,235"),
        (12_345_678.9, "12,345,679"),
        (1.2e18, "1.2e18"),
        (-75.0, "-75"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0 %"), (0.5, "50 %"), (0.024, "2.4 %"), (0.0003, "0.03 %"), (1e-7, "< 0.01 %"), (1.94, "194 %")]
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_lists() -> None:
    names = [f"q{i}" for i in range(1, 8)]
    assert [join_names(names[:n]) for n in (1, 2, 3, 4, 7)] == [
        "q1",
        "q1 and q2",
        "q1, q2 and q3",
        "q1, q2, q3 and q4",
        "q1, q2, q3 and 4 more",
    ]
    assert [plural(1, "query"), plural(2, "query"), plural(1200, "stream")] == ["1 query", "2 queries", "1,200 streams"]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("R.a > 3", "R.a > 3"),
        ("3 >= R.a", "R.a <= 3"),
        ("R.a IN (1, 2)", "R.a IN (1, 2)"),
        ("R.a IS NOT NULL", "R.a IS NOT NULL"),
        ("R.n LIKE 'it''s%'", "R.n LIKE 'it''s%'"),
        ("R.a = 1 OR R.b = 2", "(R.a = 1) OR (R.b = 2)"),
        ("upper(R.n) = 'A'", "upper(R.n) = 'A'"),
        ("R.a + 1 < R.b * 2", "(R.a + 1) < (R.b * 2)"),
    ],
)
def test_expression_text(sql: str, text: str) -> None:
    (query,), _ = parse_queries({"q": f"SELECT R.a FROM R WHERE {sql}"})
    (predicate,) = query.join.filters
    assert expression_text(predicate) == text
