"""No part of sqlglot's syntax tree is ignored: whatever an argument holds that no pass reads, the query is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from sqlglot import exp

from clash.errors import QueryError
from clash.sql import parse_query
from clash.sql.draft import QueryDraft
from clash.sql.parse import RESOLUTION_PASSES
from clash.sql.syntax import parse_syntax, tokenize
from clash.sql.unread import FLAGS, READ, refuse_unread
from clash.sql.unsupported import refuse_unsupported

from .streams import STREAMS

_SAMPLES = [
    "SELECT R.a, R.`name` AS n, 'x', 1.5, -5, +R.b AS b, TRUE, NULL, T.c, S.* FROM R AS R JOIN S s USING (a) CROSS JOIN T",
    "SELECT a + b - 1 AS c, a * b AS d, a / b AS e, a % b AS f, (a) AS g FROM R WHERE a = 1 AND b <> 2 OR NOT x < 3 AND b <= 4",
    "SELECT a FROM R WHERE a > 1 AND b >= 2 AND a <=> b AND a IS DISTINCT FROM b AND name LIKE 'a%' AND name LIKE 'a' ESCAPE '!'",
    "SELECT a FROM R WHERE name IS NOT NULL AND a IN (1, 2) AND b BETWEEN 1 AND 2 AND ts > ts - INTERVAL 5 SECONDS",
    "SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END AS c, CASE WHEN ok THEN 1 END AS d, IF(ok, 1, 2) AS e FROM R, T WHERE R.b = T.b",
    "SELECT abs(a) AS c, round(x, 2) AS d, floor(x) AS e, ceil(x) AS f, lower(name) AS g, upper(name) AS h, length(name) AS i FROM R",
    "SELECT trim(name) AS c, substring(name, 1, 2) AS d, concat(name, 'x') AS e, name || 'y' AS f, coalesce(name, 'z') AS g FROM R",
    "SELECT greatest(a, b) AS c, least(a, b) AS d, year(ts) AS e, month(ts) AS f, day(ts) AS g, dayofmonth(ts) AS h FROM R",
    "SELECT hour(ts) AS c, minute(ts) AS d, second(ts) AS e, CAST(a AS decimal(10,2)) AS f, a::int AS g, int(x) AS h, r'x' AS i FROM R",
    "WITH q(k) AS (SELECT a FROM R) SELECT d.p, q.k AS l FROM (SELECT a AS p FROM S WHERE b > 1) AS d(p) JOIN (q CROSS JOIN T) ON p = k",
    "SELECT u.k FROM (SELECT a AS k FROM R UNION ALL SELECT a FROM S) u",
    "SELECT pmod(a, 2) AS c, extract(YEAR FROM ts) AS d, ltrim('x', name) AS e, name ILIKE 'a%' AS f, position('a' IN name) AS g FROM R",
    "SELECT a div b AS c, a & b AS d, a | b AS e, a ^ b AS f, ~a AS g, ts + INTERVAL 1 MONTH AS h FROM R",
    "SELECT NULLIF(a, 1) AS f, DATE '2024-01-01' AS e, 'a' 'b' AS d FROM R NATURAL JOIN T",
]


def _draft(text: str) -> QueryDraft:
    draft = QueryDraft("q", text, streams=STREAMS)
    tokenize(draft)
    parse_syntax(draft)
    return draft


def _nodes(draft: QueryDraft) -> list[exp.Expr]:
    assert isinstance(draft.syntax, exp.Select)
    return list(draft.syntax.walk())


def _resolve(draft: QueryDraft) -> None:
    for each in (refuse_unsupported, refuse_unread, *RESOLUTION_PASSES):
        each(draft)


def _positions() -> Iterator[tuple[str, int]]:
    yield from ((text, at) for text in _SAMPLES for at in range(len(_nodes(_draft(text)))))


def test_the_samples_are_queries_and_have_every_node() -> None:
    seen = set()
    for text in _SAMPLES:
        _resolve(_draft(text))
        seen |= {type(node) for node in _nodes(_draft(text))}
    assert set(READ) - seen == {exp.Aliases}  # which has an error of its own
    assert seen <= set(READ)


def test_the_arguments_are_those_of_this_sqlglot() -> None:
    """Another version may call them otherwise."""
    for kind, read in READ.items():
        assert read | FLAGS.get(kind, {}).keys() <= kind.arg_types.keys() | {"negate"}, kind


@pytest.mark.parametrize("value", [exp.Literal.string("x"), [exp.Literal.string("x")], "x", True])
def test_every_other_argument_is_refused(value: object) -> None:
    for text, at in _positions():
        kind = type(_nodes(_draft(text))[at])
        for key in kind.arg_types.keys() - READ[kind]:
            if FLAGS.get(kind, {}).get(key) == value:
                continue
            draft = _draft(text)
            node = _nodes(draft)[at]
            node.args[key] = [each.copy() for each in value] if isinstance(value, list) else value
            with pytest.raises(QueryError) as error:
                _resolve(draft)
            assert error.value.detail, (text, kind, key)
            assert error.value.hint, (text, kind, key)


def test_every_foreign_node_is_refused() -> None:
    """Whatever stands where an expression or a table is expected, and has no conversion."""
    for text, at in _positions():
        node = _nodes(_draft(text))[at]
        for key in READ[type(node)] if not isinstance(node, exp.DataTypeParam) else ():  # a type is read from its words
            if isinstance(node.args.get(key), exp.Expr):
                draft = _draft(text)
                _nodes(draft)[at].set(key, exp.BitwiseLeftShift(this=exp.Literal.number(1), expression=exp.Literal.number(2)))
                with pytest.raises(QueryError):
                    _resolve(draft)


@pytest.mark.parametrize(
    "text", ["SELECT get_json_object(name, '$.[') FROM R", "WITH x AS (SELECT 1) SHOW y", "SELECT a FROM R; EXPLAIN x"]
)
def test_sqlglot_logs_nothing(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(QueryError):
        parse_query("q", text, STREAMS)
    assert not caplog.records
    logging.getLogger("sqlglot").warning("of the program's own use of it")
    assert len(caplog.records) == 1
