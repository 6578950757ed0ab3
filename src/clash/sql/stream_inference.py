"""Streams from the queries themselves, where nobody declared any: every column that a query names for a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from clash.errors import OptionError
from clash.model.stream import Stream, check_name
from clash.model.types import UNKNOWN
from clash.sql.joins import table_of
from clash.sql.name_lookup import look_up
from clash.sql.short_form import Part
from clash.sql.query_source import Source, Span

Parsed = exp.Select | tuple[Part, ...]
_Columns = dict[str, None]
_Stream = Callable[[Source, str, exp.Expression | Span], _Columns]


def infer_streams(queries: Iterable[tuple[Source, Parsed]]) -> dict[str, Stream]:
    """The first spelling of a name is the one that counts, for streams and for columns."""
    columns: dict[str, dict[str, None]] = {}

    def stream(source: Source, name: str, where: exp.Expression | Span) -> dict[str, None]:
        try:
            check_name("stream", name)
        except OptionError as error:
            raise source.error(where, error.what, error.hint) from None
        known = look_up(name, columns) or next((k for k in columns if k.lower() == name.lower()), name)
        return columns.setdefault(known, {})

    def mention(held: dict[str, None], column: str) -> None:
        if all(column.lower() != k.lower() for k in held):
            held[column] = None

    for source, query in queries:
        if isinstance(query, tuple):
            for part in query:
                held = stream(source, part.stream, part.span)
                for column, _ in part.columns:
                    mention(held, column)
        else:
            _of_select(source, query, stream, mention)
    return {name: Stream(name, tuple((column, UNKNOWN) for column in held)) for name, held in columns.items()}


def _of_select(source: Source, select: exp.Select, stream: _Stream, mention: Callable[[_Columns, str], None]) -> None:
    joins: list[exp.Join] = select.args.get("joins") or []
    group: list[dict[str, None]] = []
    aliases: dict[str, dict[str, None]] = {}
    for join, table in ((None, select.args["from_"].this), *((j, j.this) for j in joins)):
        name, alias, where = table_of(source, table)
        held = stream(source, name, where)
        aliases.setdefault(alias.lower(), held)
        for column in join.args.get("using") or [] if join is not None else []:
            mention(held, column.name)
            if len(group) == 1:
                mention(group[0], column.name)
        group.append(held)
    for node in select.walk():
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.args.get("db") is None:
            table = node.args.get("table")
            if table is not None and table.name.lower() in aliases:
                mention(aliases[table.name.lower()], node.name)
            elif table is None and len(aliases) == 1:
                mention(next(iter(aliases.values())), node.name)
