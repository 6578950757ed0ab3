"""Views: names for SELECTs, which queries use as they use common tables.

A query keeps no reference to a view: its text, as it is planned, recorded and compared after a restart, begins with the views that it uses,
as common tables. A view that changes therefore changes the queries that use it, when they are declared again, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from clash.errors import QueryError
from clash.sql.query_source import QuerySource, keyword, read_source
from clash.sql.short_form import is_short_form
from clash.sql.spark_parser import parse_statements

_EXAMPLE = 'write engine.view("big", "SELECT a, b FROM R WHERE x > 100")'


def with_views(name: str, text: str, views: Mapping[str, str]) -> str:
    """The text of a query with the views that it uses, directly or through others, in the order of their declaration. They are put on its
    first line, so that errors name the lines that the user wrote."""
    source = read_source(name, text)
    if is_short_form(source):
        return text
    used = _used(source, views)
    own = _common_table_names(source)
    hidden = next((view for view in used if view.lower() in own), None)
    if hidden is not None:
        if len(used) > 1:
            hint = "rename the common table, or the view"
            raise QueryError("a common table hides a view that other views may use", f"query {name}: {hidden}", hint)
        return text
    if not used:
        return text
    tables = ", ".join(f"`{view}` AS ({_on_one_line(view, views[view])})" for view in used)
    first = source.tokens[0]
    if first.token_type is TokenType.WITH:
        return f"{text[: first.start]}WITH {tables}, {text[first.end + 1 :].lstrip()}"
    return f"{text[: first.start]}WITH {tables} {text[first.start :]}"


def check_view(name: str, text: str) -> None:
    """A view is a SELECT, or several that are added by UNION ALL, without hints: those are for queries."""
    source = read_source(name, text)
    if is_short_form(source) or keyword(source.tokens[0]) not in ("SELECT", "WITH", "("):
        raise QueryError("a view is a SELECT", f"view {name}: {source.quote((0, len(text)))}", _EXAMPLE)
    for token in source.tokens:
        if token.token_type in (TokenType.HINT, TokenType.SEMICOLON):
            raise source.error((token.start, token.end + 1), "hints and several statements cannot stand in a view", _EXAMPLE)


def _used(source: QuerySource, views: Mapping[str, str]) -> list[str]:
    """The views that stand in FROM, of the text or of views that are used."""
    by_name = {view.lower(): view for view in views}
    found: set[str] = set()
    pending = [source]
    while pending:
        for table in _tables(pending.pop()) & by_name.keys():
            if by_name[table] not in found:
                found.add(by_name[table])
                pending.append(read_source(by_name[table], views[by_name[table]]))
    return [view for view in views if view in found]


def _tables(source: QuerySource) -> set[str]:
    """The names in FROM, in lower case; none of a text that cannot be read, which is refused later."""
    try:
        statements = parse_statements(source.tokens, source.text)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        return set()
    return {table.name.lower() for statement in statements for table in statement.find_all(exp.Table)}


def _common_table_names(source: QuerySource) -> set[str]:
    """The names before `AS (` and, with a list of columns, before it: those that WITH may define."""
    names = set()
    tokens = source.tokens if source.tokens[0].token_type is TokenType.WITH else ()
    for at, token in enumerate(tokens[:-2]):
        if keyword(tokens[at + 1]) == "AS" and tokens[at + 2].token_type is TokenType.L_PAREN:
            names.add(token.text.lower())
    return names


def _on_one_line(name: str, text: str) -> str:
    """Without comments and line breaks; computed columns without a name are named by their text."""
    parts: list[str] = []
    end = 0
    for token in read_source(name, text).tokens:
        parts += [" " if token.start > end and parts else "", text[token.start : token.end + 1]]
        end = token.end + 1
    return "".join(parts)
