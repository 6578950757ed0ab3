"""Every text, however malformed, gives a query or a complete error message, never another exception."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from clash.errors import ClashError
from clash.model.query import Query
from clash.sql import parse_queries, parse_query

from .streams import STREAMS

_TOKENS = """
SELECT FROM WHERE JOIN ON USING NATURAL CROSS LEFT OUTER SEMI AND OR NOT IN IS NULL BETWEEN LIKE CASE WHEN THEN ELSE END
CAST AS INTERVAL DATE TIMESTAMP GROUP BY ORDER LIMIT UNION WITH DISTINCT EXISTS LATERAL VALUES TABLESAMPLE OVER ESCAPE
TRUE FALSE R S T U a b name x ts items ok c d m key R.a S.a T.b R.ts S.ts R.* * , . ( ) [ ] { } = == < <= > >= <> != <=>
+ - / % || ; : ? @ $ ! & | ~ ^ :: -> => 1 2.5 1e9 5L 'x' '2024-01-01' "y" `R` ` ' /* */ /*+ WINDOW(R,'5 seconds') -- INT
STRING DECIMAL(10,2) ARRAY<INT> SECONDS DAY MONTH abs( coalesce( sum( if( upper( substring( round( year( R( S( explode(
x' r' €
""".split()  # noqa: SIM905 (a list of 180 lines is harder to read)
_SEEDS = [
    "SELECT /*+ WINDOW(R, '5 seconds') */ R.a, T.c FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b WHERE R.x > 5 AND S.name LIKE 'a%'",
    "SELECT * FROM R x, R y WHERE x.a = y.b AND x.ts BETWEEN y.ts - INTERVAL 5 SECONDS AND y.ts + INTERVAL '1' MINUTE",
    "SELECT CASE WHEN R.a IN (1, 2) THEN upper(R.name) ELSE 'x' END AS c, CAST(b AS decimal(10,2)) FROM R JOIN T USING (b)",
    "SELECT R.*, coalesce(T.c, 'none') || '!' AS n FROM R NATURAL JOIN T WHERE NOT (T.ok OR R.a IS NULL)",
    "R(a), S(a,b), T(b)",
    "SELECT R.a FROM R CROSS JOIN S WHERE (R.a = S.a AND R.b = 1) OR (R.a = S.a AND DATE '2024-01-01' < S.ts)",
]


def _check(text: str) -> None:
    for work in (lambda: parse_query("q", text, STREAMS), lambda: parse_queries({"q": text})[0][0]):
        try:
            result = work()
        except ClashError as error:
            assert error.what, text
            assert error.detail, text
            assert error.hint, text
            assert len(str(error)) < 2_000, text
        else:
            assert isinstance(result, Query)
            assert result.outputs
            assert all(len(c) > 1 for c in result.join.classes)


@settings(max_examples=150)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    _check(text)
    _check(f"SELECT a FROM R WHERE {text}")


@settings(max_examples=400)
@given(st.lists(st.sampled_from(_TOKENS), max_size=25).map(" ".join))
def test_token_soup(text: str) -> None:
    _check(text)
    _check(f"SELECT {text} FROM R JOIN S ON R.a = S.a")


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    words = draw(st.sampled_from(_SEEDS)).split(" ")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words)))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            words.insert(at, draw(st.sampled_from(_TOKENS)))
        elif kind == 1 and words:
            del words[at - 1]
        elif kind == 2 and words:
            words[at - 1] = draw(st.sampled_from(_TOKENS))
        elif words:
            other = draw(st.integers(0, len(words) - 1))
            words[at - 1], words[other] = words[other], words[at - 1]
    text = " ".join(words)
    cut = draw(st.integers(0, len(text)))
    return text[:cut] + draw(st.sampled_from(["", "", "", "(", ")", "'", "\n", ","])) + text[cut:]


@settings(max_examples=400)
@given(_mutated())
def test_mutated_queries(text: str) -> None:
    _check(text)


@given(
    st.sampled_from(["(", "-", "NOT ", "a+", "CASE WHEN ", "abs(", "a.", "[", "SELECT ", "/*", "`", "a AND ", "x IN (", "CAST("]),
    st.integers(1, 3000),
)
@settings(max_examples=60)
def test_deep(piece: str, count: int) -> None:
    _check(f"SELECT {piece * count}a FROM R")
    _check(f"SELECT a FROM R WHERE {piece * count}a")


@given(st.one_of(st.none(), st.integers(), st.binary(), st.lists(st.text())))
@settings(max_examples=30)
def test_not_text(thing: object) -> None:
    try:
        parse_query("q", thing, STREAMS)  # type: ignore[arg-type]
    except ClashError as error:
        assert error.what == "a query is text"
    else:
        raise AssertionError(thing)


def test_seeds_are_queries() -> None:
    for text in _SEEDS:
        assert isinstance(parse_query("q", text, STREAMS), Query)
