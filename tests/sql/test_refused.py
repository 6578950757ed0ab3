"""Refused queries and their exact error messages. `CLASH_REWRITE=1 pytest tests/sql/test_refused.py` rewrites the expected messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clash.errors import ClashError, QueryError
from clash.model.stream import Stream
from clash.sql import parse_queries, parse_query

from .streams import STREAMS

_FILE = Path(__file__).parent / "fixtures" / "refused.txt"


def _blocks() -> list[tuple[str, str]]:
    """Query and message: `> ` lines are the query, the lines below it the message, a blank line ends the block."""
    blocks = []
    for block in _FILE.read_text().split("\n\n"):
        lines = block.strip("\n").splitlines()
        query = [line[2:] for line in lines if line.startswith("> ")]
        if query:
            blocks.append(("\n".join(query), "\n".join(line for line in lines if not line.startswith(("> ", "#")))))
    return blocks


def _message(text: str) -> str:
    try:
        parse_query("q", text, STREAMS)
    except ClashError as error:
        return str(error)
    return "accepted"


def test_messages() -> None:
    blocks = _blocks()
    actual = [(text, _message(text)) for text, _ in blocks]
    if os.environ.get("CLASH_REWRITE"):
        head = "# Queries that are refused, and their error messages. Written by tests/sql/test_refused.py with CLASH_REWRITE=1."
        body = ["\n".join([*(f"> {line}" for line in text.splitlines()), message]) for text, message in actual]
        _FILE.write_text("\n\n".join([head, *body]) + "\n")
    else:
        assert actual == blocks
    assert [text for text, message in actual if message == "accepted"] == []


def test_every_message_is_complete() -> None:
    for text, message in _blocks():
        assert "\n  detail: query q" in message, text
        assert "\n  hint: " in message, text
        assert message[0].islower() or message[:2].isupper() or message[0] in "*-+/%=<>", message


_JOIN = "SELECT R.a FROM R JOIN S ON R.a = S.a"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "a query is text"),
        (5, "a query is text"),
        (b"SELECT 1", "a query is text"),
        ("", "the query is empty"),
        (" \n\t", "the query is empty"),
        ("-- nothing", "the query is empty"),
        ("/* nothing */ ;", "the query is empty"),
        ("SELECT a FROM R WHERE a = \0", "the query holds a character that is not text"),
        ("SELECT '\ud800' FROM R", "the query holds a character that is not text"),
        ("SELECT a FROM R " + " " * 1_000_000, "the query is too long"),
        ("SELECT " + "(" * 5000 + "a" + ")" * 5000 + " FROM R", "the query is nested too deeply"),
        ("SELECT " + "-" * 0 + "- " * 5000 + "a FROM R", "the query is nested too deeply"),
        ("SELECT a FROM R WHERE " + "NOT " * 5000 + "ok", "the query is nested too deeply"),
        ("SELECT " + "CASE WHEN a THEN " * 500 + "1" + " END" * 500 + " FROM R", "the query is nested too deeply"),
        ("SELECT " + "a + " * 5000 + "a FROM R", "the expression is nested too deeply"),
    ],
)
def test_text_that_cannot_be_parsed(text: str, what: str) -> None:
    with pytest.raises(QueryError) as error:
        parse_query("q", text, STREAMS)
    assert error.value.what == what


def test_long_chains_of_and_and_or_are_accepted() -> None:
    query = parse_query("q", "SELECT a FROM R WHERE " + " OR ".join(f"a = {n}" for n in range(10_000)), STREAMS)
    (only,) = query.join.filters
    assert len(getattr(only, "args", ())) == 10_001
    query = parse_query("q", "SELECT a FROM R WHERE " + " AND ".join(f"(b + {n} > x)" for n in range(3_000)), STREAMS)
    assert len(query.join.filters) == 3_000


def test_names() -> None:
    with pytest.raises(ClashError, match="not a valid query name"):
        parse_query("no/good", _JOIN, STREAMS)
    with pytest.raises(ClashError, match="there are no queries"):
        parse_queries({})
    with pytest.raises(ClashError, match="queries is a mapping"):
        parse_queries([_JOIN])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("windows", "text", "what"),
    [
        ({"Q": "5 seconds"}, _JOIN, "a window for a relation that the query does not have"),
        ({"R": "5 moons"}, _JOIN, "the window has an unknown unit of time"),
        ({"R": "soon"}, _JOIN, "the window is not a duration"),
        ({"R": 5}, _JOIN, "the window is not a duration"),
        ({5: "5 seconds"}, _JOIN, "a window for a relation that the query does not have"),
        ({"R": "5 seconds", "r": "6 seconds"}, _JOIN, "a relation is given two windows"),
        ({"R": "5 seconds"}, "SELECT /*+ WINDOW(R, '6 seconds') */ a FROM R", "a relation is given two windows"),
        ("5 seconds", _JOIN, "windows is a mapping"),
    ],
)
def test_windows(windows: dict[str, str], text: str, what: str) -> None:
    with pytest.raises(QueryError) as error:
        parse_query("q", text, STREAMS, windows)
    assert error.value.what == what


@pytest.mark.parametrize(
    ("queries", "what"),
    [
        ({"q": "SELECT a FROM R, S WHERE R.b = S.b"}, "cannot tell whose column this is"),
        ({"q": "SELECT R.b FROM R NATURAL JOIN S"}, "NATURAL JOIN finds no common column"),
        ({"q": "SELECT * FROM R"}, "* stands for no column here"),
        ({"q": "SELECT a FROM R, S WHERE R.a = S.a"}, "ambiguous column"),
        ({"q": "SELECT a FROM `no good`"}, "not a valid stream name"),
        ({"q": "R(a), S(b)"}, "not all relations are joined by an equality"),
        ({"q": "SELECT a FROM R JOIN S USING (b) JOIN T USING (c)"}, "cannot tell whose column this is"),
    ],
)
def test_undeclared(queries: dict[str, str], what: str) -> None:
    with pytest.raises(QueryError) as error:
        parse_queries(queries)
    assert error.value.what == what


def test_windows_of_an_unknown_query() -> None:
    with pytest.raises(ClashError, match="did you mean first"):
        parse_queries({"first": _JOIN}, windows={"frist": {"R": "1 s"}})


def test_more_aliases_of_a_stream_than_an_arrival_has_numbers() -> None:
    """The number of a relation is part of every arrival: a 33rd alias would be taken for the first of the next arrival."""
    joins = " ".join(f"JOIN R x{n} ON x{n}.a = x0.a" for n in range(1, 33))
    with pytest.raises(QueryError, match="a stream has too many aliases"):
        parse_query("q", f"SELECT x0.a FROM R x0 {joins}", {"R": Stream.of("R", {"a": "bigint"})})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT a AS `x\ny` FROM R", "not a valid name of an output"),
        ("SELECT a AS `` FROM R", "not a valid name of an output"),
        (f"SELECT a AS `{'x' * 1001}` FROM R", "not a valid name of an output"),
        (f"SELECT '{'x' * 1000}' FROM R", "not a valid name of an output"),
        ("SELECT a FROM R AS `x\u2028`", "not a valid name of an alias"),
        (f"SELECT a FROM R {'x' * 1001}", "not a valid name of an alias"),
    ],
)
def test_names_that_cannot_be_shown(text: str, what: str) -> None:
    with pytest.raises(QueryError) as error:
        parse_query("q", text, STREAMS)
    assert error.value.what == what
    assert error.value.detail
    assert error.value.hint
    assert len(str(error.value)) < 500
