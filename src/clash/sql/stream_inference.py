"""Schemas of undeclared streams: each stream has the columns that any query names for it, of unknown type."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from clash.errors import OptionError
from clash.model.stream import Stream, check_name
from clash.model.types import UNKNOWN
from clash.sql.draft import QueryDraft
from clash.sql.from_clause import read_table
from clash.sql.name_lookup import look_up
from clash.sql.query_source import QuerySource, Span

_Columns = dict[str, None]  # names in the order in which they are first mentioned


def infer_streams(drafts: Iterable[QueryDraft]) -> dict[str, Stream]:
    """The streams that the queries name. Names that differ only in case are one; its first spelling counts, for streams and columns."""
    streams: dict[str, _Columns] = {}
    for draft in drafts:
        if isinstance(draft.syntax, tuple):
            for relation in draft.syntax:
                columns = _columns_of(draft.source, streams, relation.stream, relation.span)
                for column, _ in relation.columns:
                    _mention(columns, column)
        else:
            _collect_from_select(draft.source, draft.syntax, streams)
    return {name: Stream(name, tuple((column, UNKNOWN) for column in columns)) for name, columns in streams.items()}


def _columns_of(source: QuerySource, streams: dict[str, _Columns], name: str, where: exp.Expression | Span) -> _Columns:
    """The columns of a stream so far; a new stream has none."""
    try:
        check_name("stream", name)
    except OptionError as error:
        raise source.error(where, error.what, error.hint) from None
    spelling = look_up(name, streams) or next((stream for stream in streams if stream.lower() == name.lower()), name)
    return streams.setdefault(spelling, {})


def _mention(columns: _Columns, name: str) -> None:
    if all(name.lower() != column.lower() for column in columns):
        columns[name] = None


def _collect_from_select(source: QuerySource, select: exp.Select, streams: dict[str, _Columns]) -> None:
    """Columns of USING, qualified columns, and unqualified ones where there is only one alias that they can belong to."""
    joins: list[exp.Join] = select.args.get("joins") or []
    tables: list[_Columns] = []
    aliases: dict[str, _Columns] = {}
    for join, table in ((None, select.args["from_"].this), *((j, j.this) for j in joins)):
        name, alias, where = read_table(source, table)
        columns = _columns_of(source, streams, name, where)
        aliases.setdefault(alias.lower(), columns)
        for identifier in join.args.get("using") or [] if join is not None else []:
            _mention(columns, identifier.name)
            if len(tables) == 1:
                _mention(tables[0], identifier.name)
        tables.append(columns)
    for node in select.walk():
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.args.get("db") is None:
            table = node.args.get("table")
            if table is not None and table.name.lower() in aliases:
                _mention(aliases[table.name.lower()], node.name)
            elif table is None and len(aliases) == 1:
                _mention(next(iter(aliases.values())), node.name)
