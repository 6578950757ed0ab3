"""Schemas of undeclared streams: each stream has the columns that any query names for it, of unknown type."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from clash.errors import OptionError
from clash.model.stream import Stream, check_name
from clash.model.types import UNKNOWN
from clash.sql.draft import QueryDraft
from clash.sql.name_lookup import look_up
from clash.sql.query_source import QuerySource, Span
from clash.sql.tables import CommonTables, common_tables, own_nodes, parts_of_from, read_table, table_name, union_branches

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


def _collect_from_select(source: QuerySource, query: exp.Select, streams: dict[str, _Columns]) -> None:
    """Columns of USING, qualified columns, and unqualified ones where there is only one table that they can belong to.

    A derived table has the columns of its own SELECT, in which those of streams are found.
    """
    pending: list[tuple[exp.Select | exp.Union, CommonTables]] = [(query, {})]
    while pending:
        select, outer = pending.pop()
        known = common_tables(source, select, outer)
        pending += [(table.query, table.known) for table in known.values() if table.within is select]
        if isinstance(select, exp.Union):
            pending += [(branch, known) for branch in union_branches(select)]
            continue
        own: list[_Columns] = []
        aliases: dict[str, _Columns] = {}
        for part in parts_of_from(select):
            columns: _Columns = {}  # of a derived table: mentioning them has no effect
            if isinstance(part, exp.Subquery):
                pending.append((part.this, known))
            else:
                name, _ = read_table(source, part)
                columns = columns if name.lower() in known else _columns_of(source, streams, name, part)
            aliases.setdefault(table_name(part).lower(), columns)
            own.append(columns)
        _collect_using(select, own)
        for node in own_nodes(select):
            if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.args.get("db") is None:
                table = node.args.get("table")
                if table is not None and table.name.lower() in aliases:
                    _mention(aliases[table.name.lower()], node.name)
                elif table is None and len(own) == 1:
                    _mention(own[0], node.name)


def _collect_using(select: exp.Select, tables: list[_Columns]) -> None:
    """A column of USING belongs to the table behind the JOIN, and to the one before it if there is only one."""
    joins: list[exp.Join] = select.args.get("joins") or []
    if len(tables) != len(joins) + 1:
        return  # joins in parentheses: whose column it is depends on what they hold
    for at, join in enumerate(joins, start=1):
        for identifier in join.args.get("using") or []:
            _mention(tables[at], identifier.name)
            if at == 1:
                _mention(tables[0], identifier.name)
