"""Passes: text to tokens, and tokens to one SELECT of sqlglot or a short form; anything else is refused here."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import TokenType

from clash.errors import QueryError
from clash.model.stream import check_name
from clash.sql.draft import QueryDraft
from clash.sql.query_source import QuerySource, Span, keyword, read_source
from clash.sql.short_form import is_short_form, parse_short_form
from clash.sql.spark_parser import TEXT_RANGE, parse_statements
from clash.sql.tables import is_union_all
from clash.sql.unsupported import set_operation_error

_EXAMPLE = "write e.g. SELECT R.a, S.b FROM R JOIN S ON R.a = S.a"
_STARTS = {"SELECT", "FROM", "WITH", "(", "VALUES"}
_MAX_CONTEXT = 60  # characters of the text before a syntax error
_AFTER_COMMA = {"FROM", "WHERE", "ON", "JOIN", "CROSS", "NATURAL", "INNER", ")", ";", ","}


def tokenize(draft: QueryDraft) -> None:
    """Sets `source`."""
    check_name("query", draft.name)
    draft.source = read_source(draft.name, draft.text)


def parse_syntax(draft: QueryDraft) -> None:
    """Sets `syntax`."""
    draft.syntax = parse_short_form(draft.source) if is_short_form(draft.source) else _parse_select(draft.source)


def _parse_select(source: QuerySource) -> exp.Select:
    first = source.tokens[0]
    if keyword(first) not in _STARTS:
        raise source.error((first.start, first.end + 1), "only SELECT queries are supported", _EXAMPLE)
    _refuse_dangling_commas(source)
    for token in source.tokens:
        if token.token_type is TokenType.PIPE_GT:
            raise source.error((token.start, token.end + 1), "the pipe syntax is not supported", _EXAMPLE)
    try:
        statements = parse_statements(source.tokens, source.text)
    except ParseError as error:
        raise _translate(source, error) from None
    except RecursionError:
        raise QueryError("the query is nested too deeply", f"query {source.name}", "write it with fewer levels") from None
    except (SqlglotError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        raise QueryError("the query cannot be read", f"query {source.name}", _EXAMPLE) from None
    if not statements:
        raise QueryError("the query is empty", f"query {source.name}", _EXAMPLE)
    if len(statements) > 1:
        raise source.error(source.token_span(";"), "several statements in one query", "give every statement a query name of its own")
    statement = statements[0]
    if isinstance(statement, exp.SetOperation):
        if not is_union_all(statement):
            raise set_operation_error(source, statement)
        statement = _as_select(statement, source)
    if isinstance(statement, exp.Subquery):
        raise source.error(statement, "a query in parentheses is not supported", "write it without the parentheses")
    if not isinstance(statement, exp.Select):
        raise source.error((first.start, first.end + 1), "only SELECT queries are supported", _EXAMPLE)
    for select in statement.find_all(exp.Select):
        select.set("hint", None)  # `windows` reads hints from the text; positions in sqlglot's hint node are not positions in the text
    return statement


def _as_select(union: exp.SetOperation, source: QuerySource) -> exp.Select:
    """`SELECT * FROM (… UNION ALL …)`. The parser keeps no range of a union whose first SELECT is in parentheses: it is all of the text."""
    common = union.args.pop("with_", None)
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=union)), with_=common)
    select.meta[TEXT_RANGE] = union.meta.get(TEXT_RANGE, (source.tokens[0].start, source.tokens[-1].end + 1))
    return select


def _refuse_dangling_commas(source: QuerySource) -> None:
    """sqlglot accepts `SELECT a, FROM R` and `FROM R,`; Spark does not."""
    for comma, following in zip(source.tokens, [*source.tokens[1:], None], strict=True):
        if comma.token_type is TokenType.COMMA and (following is None or keyword(following) in _AFTER_COMMA):
            span = (comma.start, (following or comma).end + 1)
            raise source.error(span, "a comma with nothing behind it", "remove the comma")


def _translate(source: QuerySource, error: ParseError) -> QueryError:
    """A syntax error of sqlglot as one of ours, with its place."""
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    word = str(first.get("highlight") or "")
    span: Span = (len(source.text.rstrip()), len(source.text))
    if isinstance(line, int) and isinstance(column, int):
        starts = [0] + [i + 1 for i, char in enumerate(source.text) if char == "\n"]
        end = (starts[line - 1] if line <= len(starts) else 0) + column  # sqlglot's column is that of the token's last character
        span = (max(0, end - max(1, len(word))), min(len(source.text), max(end, 1)))
    description = str(first.get("description", ""))
    if "number of provided arguments" in description:
        return source.error(span, "a function has too many arguments", "see docs/queries.md for the functions and their arguments")
    if "Required keyword" in description and "functions." in description:
        return source.error(span, "a function lacks an argument", "see docs/queries.md for the functions and their arguments")
    context = " ".join(source.text[: span[1]].split()[-6:])
    return source.error(span, "the query cannot be read from here on", f"look just before: … {context[-_MAX_CONTEXT:]}")
