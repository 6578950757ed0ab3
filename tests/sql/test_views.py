"""Views become common tables of the queries that use them."""

from __future__ import annotations

import pytest

from clash.errors import QueryError
from clash.sql import check_view, parse_query, with_views

from .streams import STREAMS

_VIEWS = {
    "big": "SELECT a, b, -- the key\n 'x;--y' AS t\nFROM R WHERE b > 1",
    "counted": "SELECT a, count(*) AS n FROM R GROUP BY a",
    "wide": "SELECT big.a, S.name FROM Big JOIN S USING (a) UNION ALL SELECT a, name FROM R",
}


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("SELECT big.t FROM BIG JOIN T ON big.b = T.b", "SELECT 'x;--y' AS t FROM R JOIN T ON R.b = T.b WHERE R.b > 1"),
        ("-- first\nWITH q AS (SELECT a FROM big)\nSELECT a FROM q", "SELECT a FROM R WHERE b > 1"),
        ("SELECT wide.name FROM wide", "SELECT S.name FROM R JOIN S USING (a) WHERE R.b > 1 UNION ALL SELECT name FROM R"),
        ("WITH big AS (SELECT a FROM S) SELECT a FROM big", "SELECT a FROM S"),
        ("R(a), S(a, b)", "R(a), S(a, b)"),
        ("SELECT 'big' AS n FROM R", "SELECT 'big' AS n FROM R"),
        ("SELECT a AS counted, b AS big FROM R", "SELECT a AS counted, b AS big FROM R"),
    ],
)
def test_a_view_is_a_common_table(text: str, flat: str) -> None:
    ours, theirs = parse_query("q", with_views("q", text, _VIEWS), STREAMS), parse_query("q", flat, STREAMS)
    for mine, expected in zip(ours.branches, theirs.branches, strict=True):
        assert (mine.join, mine.outputs) == (expected.join, expected.outputs)


def test_errors_name_the_lines_of_the_query() -> None:
    text = "SELECT big.a,\n  big.nope\nFROM big"
    with pytest.raises(QueryError, match=r"line 2, column 3: big.nope"):
        parse_query("q", with_views("q", text, _VIEWS), STREAMS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("R(a), S(a, b)", "a view is a SELECT"),
        ("DELETE FROM R", "a view is a SELECT"),
        ("SELECT /*+ WINDOW(R, '1 second') */ a FROM R", "hints"),
        ("SELECT a FROM R; SELECT b FROM R", "several statements"),
        ("", "empty"),
    ],
)
def test_what_is_no_view(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        check_view("v", text)


def test_a_common_table_must_not_hide_a_view_that_another_uses() -> None:
    with pytest.raises(QueryError, match="hides a view"):
        with_views("q", "WITH big AS (SELECT a FROM S) SELECT wide.a FROM wide JOIN big ON wide.a = big.a", _VIEWS)
