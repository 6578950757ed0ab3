"""SQL text to one sqlglot `SELECT`; what sqlglot cannot read, or is no single SELECT, is refused here."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import TokenType

from clash.errors import QueryError
from clash.sql.query_source import Source, Span

_EXAMPLE = "write e.g. SELECT R.a, S.b FROM R JOIN S ON R.a = S.a"
_STARTS = {"SELECT", "FROM", "WITH", "(", "VALUES"}
_NEAR = 60
_AFTER_COMMA = {"FROM", "WHERE", "ON", "JOIN", "CROSS", "NATURAL", "INNER", ")", ";", ","}


def parse_select(source: Source) -> exp.Select:
    first = source.tokens[0]
    if first.text.upper() not in _STARTS:
        # Known before sqlglot sees it: it would fall back to an opaque command, and log that.
        raise source.error((first.start, first.end + 1), "only SELECT queries are supported", _EXAMPLE)
    _refuse_lonely_commas(source)
    try:
        statements = [s for s in Spark().parse(source.text) if s is not None and not isinstance(s, exp.Semicolon)]
    except ParseError as error:
        raise _translated(source, error) from None
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
        words = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
        raise source.error(source.token_span(*words), "set operations are not supported", "register every SELECT as a query of its own")
    if isinstance(statement, exp.Subquery):
        raise source.error(statement, "a query in parentheses is not supported", "write it without the parentheses")
    if not isinstance(statement, exp.Select):
        raise source.error((first.start, first.end + 1), "only SELECT queries are supported", _EXAMPLE)
    statement.set("hint", None)  # `windows` reads hints from the text: their places here are not places in the text
    return statement


def _refuse_lonely_commas(source: Source) -> None:
    """sqlglot overlooks `SELECT a, FROM R` and `FROM R,`; Spark does not."""
    for comma, following in zip(source.tokens, [*source.tokens[1:], None], strict=True):
        if comma.token_type is TokenType.COMMA and (following is None or following.text.upper() in _AFTER_COMMA):
            span = (comma.start, (following or comma).end + 1)
            raise source.error(span, "a comma with nothing behind it", "remove the comma")


def _translated(source: Source, error: ParseError) -> QueryError:
    found = error.errors[0] if error.errors else {}
    line, column = found.get("line"), found.get("col")
    word = str(found.get("highlight") or "")
    span: Span = (len(source.text.rstrip()), len(source.text))
    if isinstance(line, int) and isinstance(column, int):
        starts = [0] + [i + 1 for i, char in enumerate(source.text) if char == "\n"]
        end = (starts[line - 1] if line <= len(starts) else 0) + column  # sqlglot's column is that of the token's last character
        span = (max(0, end - max(1, len(word))), min(len(source.text), max(end, 1)))
    said = str(found.get("description", ""))
    if "number of provided arguments" in said:
        return source.error(span, "a function has too many arguments", "see docs/queries.md for the functions and their arguments")
    if "Required keyword" in said and "functions." in said:
        return source.error(span, "a function lacks an argument", "see docs/queries.md for the functions and their arguments")
    near = " ".join(source.text[: span[1]].split()[-6:])
    return source.error(span, "the query cannot be read from here on", f"look just before: … {near[-_NEAR:]}")
