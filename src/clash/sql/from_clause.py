"""Pass: the FROM clause, or a short form, to aliases, merged columns of USING and NATURAL, and pairs of CROSS JOIN.

A comma binds as JOIN does, as in Spark and unlike in the SQL standard: the left side of a JOIN is everything before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from clash.hints import did_you_mean, listed
from clash.model.block_columns import MAX_NUMBERS
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.model.types import joinable
from clash.sql.draft import FromClause, QueryDraft
from clash.sql.name_lookup import look_up
from clash.sql.query_source import QuerySource, Span, keyword
from clash.sql.scope import Alias, Scope, VisibleColumn
from clash.sql.short_form import ShortRelation

_JOIN_WORDS = {"JOIN", "CROSS", "INNER", "NATURAL", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "ASOF", ",", "STRAIGHT_JOIN"}
_UNSUPPORTED_KINDS = {
    "SEMI": "semi", "ANTI": "anti", "ASOF": "ASOF", "STRAIGHT_JOIN": "straight",
    "LEFT": "outer", "RIGHT": "outer", "FULL": "outer", "OUTER": "outer",
}  # fmt: skip
_ALTERNATIVES = {
    "semi": "join it and select the columns of the other side; every match gives a row",
    "anti": "a stream never ends, so absence is never certain",
    "outer": "write an inner JOIN; a stream never ends, so a missing match is never certain",
}

_Merge = tuple[tuple[Attribute, ...], Attribute]  # what USING merges: the attributes of a visible column on the left, and one on the right


def resolve_from_clause(draft: QueryDraft) -> None:
    """Sets `from_clause`."""
    if isinstance(draft.syntax, tuple):
        draft.from_clause = _from_short_form(draft.source, draft.syntax, draft.streams, draft.declared)
    else:
        draft.from_clause = _from_select(draft.source, draft.syntax, draft.streams, draft.declared)


def read_table(source: QuerySource, node: exp.Expression) -> tuple[str, str, exp.Expression]:
    """Stream name, alias and the node itself, of one table of the FROM clause."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise source.error(node, "only streams can stand in FROM", "write the name of a stream")
    if node.args.get("db") is not None:
        raise source.error(node, "a stream has no database", "write the stream's name alone")
    if node.args.get("joins"):
        raise source.error(node, "nested joins are not supported", "write each ON directly behind its JOIN")
    alias = node.args.get("alias")
    if alias is not None and not isinstance(alias.this, exp.Identifier | None):
        raise source.error(node, "this alias is not supported", "write stream AS name")
    if alias is not None and alias.args.get("columns"):
        raise source.error(node, "renaming columns in an alias is not supported", "rename them in SELECT, with AS")
    name = alias.name if alias is not None and alias.name else node.name
    return node.name, source.checked_label("an alias", name, node), node


def _from_select(source: QuerySource, select: exp.Select, streams: Mapping[str, Stream], declared: bool) -> FromClause:
    """Joins from left to right; `left` is the scope of everything before the current JOIN."""
    joins: list[exp.Join] = select.args.get("joins") or []
    nodes = [select.args["from_"].this, *(join.this for join in joins)]
    aliases = _resolve_aliases(source, [read_table(source, node) for node in nodes], streams)
    left = Scope(aliases[:1], _columns_of(aliases[0]), declared)
    equalities: list[tuple[Attribute, Attribute]] = []
    conditions: list[tuple[exp.Expression, Scope]] = []
    cross_joins: set[frozenset[Relation]] = set()
    for at, join in enumerate(joins, start=1):
        alias = aliases[at]
        words, span = _join_words(source, join.this)
        _refuse_kind(source, join, words, span)
        if "CROSS" in words:
            cross_joins |= {frozenset((alias.relation, other.relation)) for other in aliases[:at]}
        names = [(identifier.name, source.span(identifier)) for identifier in join.args.get("using") or []]
        if "NATURAL" in words:
            names = _common_columns(source, left, alias, span)
        merges = [_merge(source, left, alias, name, name_span) for name, name_span in names]
        equalities += [(attributes[0], right) for attributes, right in merges]
        left = replace(left, aliases=(*left.aliases, alias), visible=_merged_columns(left.visible, _columns_of(alias), merges))
        if join.args.get("on") is not None:
            conditions.append((join.args["on"], replace(left, later=tuple(a.name for a in aliases if a not in left.aliases))))
    return FromClause(left, tuple(equalities), tuple(conditions), frozenset(cross_joins))


def _from_short_form(
    source: QuerySource, relations: tuple[ShortRelation, ...], streams: Mapping[str, Stream], declared: bool
) -> FromClause:
    """Equal attribute names are merged. A stream that is named again gets the alias `R_2`."""
    count: dict[str, int] = {}
    tables: list[tuple[str, str, Span]] = []
    for relation in relations:
        count[relation.stream.lower()] = number = count.get(relation.stream.lower(), 0) + 1
        tables.append((relation.stream, relation.stream if number == 1 else f"{relation.stream}_{number}", relation.span))
    aliases = _resolve_aliases(source, tables, streams)
    visible: dict[str, VisibleColumn] = {}
    equalities: list[tuple[Attribute, Attribute]] = []
    for alias, relation in zip(aliases, relations, strict=True):
        for name, span in relation.columns:
            column = alias.find_column(name)
            if column is None:
                raise alias.unknown_column(source, name, span)
            attribute = Attribute(alias.relation, column)
            merged = visible.get(name.lower())
            if merged is not None:
                equalities.append((merged.attributes[0], attribute))
                _refuse_types(source, Scope(aliases, (), declared), merged.attributes[0], attribute, span)
                visible[name.lower()] = VisibleColumn(merged.name, (*merged.attributes, attribute))
            else:
                visible[name.lower()] = VisibleColumn(column, (attribute,))
    return FromClause(Scope(aliases, tuple(visible.values()), declared), tuple(equalities), (), frozenset())


def _resolve_aliases(
    source: QuerySource, tables: Iterable[tuple[str, str, exp.Expression | Span]], streams: Mapping[str, Stream]
) -> tuple[Alias, ...]:
    """The tables with their streams; aliases of one stream are numbered in the order of the text."""
    aliases: list[Alias] = []
    for name, alias, where in tables:
        stream = look_up(name, streams)
        if stream is None:
            others = f"streams are {listed(streams)}" if streams else "no stream is declared"
            raise source.error(where, "unknown stream", did_you_mean(name, streams, others))
        if any(a.name.lower() == alias.lower() for a in aliases):
            raise source.error(where, f"two relations are called {alias}", f"give one of them another alias, e.g. {name} AS {alias}2")
        number = sum(a.stream.name == stream for a in aliases)
        if number == MAX_NUMBERS:
            raise source.error(where, "a stream has too many aliases", f"one query may name a stream {MAX_NUMBERS} times")
        aliases.append(Alias(alias, Relation(stream, number), streams[stream]))
    return tuple(aliases)


def _columns_of(alias: Alias) -> tuple[VisibleColumn, ...]:
    return tuple(VisibleColumn(column, (Attribute(alias.relation, column),)) for column, _ in alias.stream.columns)


def _join_words(source: QuerySource, table: exp.Expression) -> tuple[list[str], Span]:
    """The keywords of the join in front of a table, and their span including the table's name.

    They come from the tokens, because sqlglot's tree does not distinguish a comma from CROSS JOIN.
    """
    at = source.index_at(source.span(table)[0])
    end = source.tokens[at].end + 1
    words: list[str] = []
    while at and keyword(source.tokens[at - 1]) in _JOIN_WORDS:
        at -= 1
        words.insert(0, keyword(source.tokens[at]))
    return words, (source.tokens[at].start, end)


def _refuse_kind(source: QuerySource, join: exp.Join, words: list[str], span: Span) -> None:
    """Only inner joins are supported, and only CROSS JOIN, NATURAL JOIN and a comma may lack a condition."""
    all_words = [*words, *(str(join.args.get(key) or "").upper() for key in ("side", "method", "kind"))]
    kind = next((_UNSUPPORTED_KINDS[word] for word in _UNSUPPORTED_KINDS if word in all_words), None)
    if kind is not None:
        raise source.error(span, f"{kind} joins are not supported", _ALTERNATIVES.get(kind, "write an inner JOIN with ON"))
    supported = {"this", "side", "kind", "method", "on", "using"}
    if any(value for key, value in join.args.items() if key not in supported):
        raise source.error(span, "this kind of join is not supported", "write an inner JOIN with ON")
    if "," in words or "CROSS" in words or "NATURAL" in words:
        return
    after = source.index_at(source.span(join.this)[1] - 1) + 1
    if after >= len(source.tokens) or keyword(source.tokens[after]) not in ("ON", "USING"):
        raise source.error(span, "a JOIN has no ON or USING", "add ON …, or write CROSS JOIN if every pair is meant")


def _common_columns(source: QuerySource, left: Scope, alias: Alias, span: Span) -> list[tuple[str, Span]]:
    """The columns that NATURAL joins on, in the order of the left side."""
    names = dict.fromkeys(column.name for column in left.visible if alias.find_column(column.name) is not None)
    if not names:
        hint = "write JOIN … ON …"
        if not left.declared:
            hint = f"no streams are declared, so only columns that queries name are known; {hint}"
        raise source.error(span, "NATURAL JOIN finds no common column", hint)
    for name in names:
        owners = [a for a in (*left.aliases, alias) if a.stream.time is not None and a.find_column(name) == a.stream.time]
        if owners:
            hint = f"write JOIN {alias.name} USING ({listed(n for n in names if n != name) or '…'})"
            raise source.error(span, "NATURAL JOIN would join time columns", hint, f"{owners[0].name}.{owners[0].stream.time}")
    return [(name, span) for name in names]


def _merge(source: QuerySource, left: Scope, alias: Alias, name: str, span: Span) -> _Merge:
    """What USING (name) makes equal: the left column, with all columns merged into it before, and the right one."""
    column = alias.find_column(name)
    if column is None:
        raise alias.unknown_column(source, name, span)
    attribute = left.resolve_unqualified(source, name, span)
    attributes = next(visible.attributes for visible in left.visible if attribute in visible.attributes)
    right = Attribute(alias.relation, column)
    _refuse_types(source, Scope((*left.aliases, alias), (), left.declared), attribute, right, span)
    return attributes, right


def _refuse_types(source: QuerySource, scope: Scope, left: Attribute, right: Attribute, span: Span) -> None:
    a, b = scope.col(left), scope.col(right)
    if not joinable(a.type, b.type):
        note = f"{scope.alias_of(left.relation).name}.{a.column} is {a.type}, {scope.alias_of(right.relation).name}.{b.column} is {b.type}"
        raise source.error(span, "columns of these types cannot be joined", "give both streams the same atomic type", note)


def _merged_columns(left: tuple[VisibleColumn, ...], right: tuple[VisibleColumn, ...], merges: list[_Merge]) -> tuple[VisibleColumn, ...]:
    """The columns of `*` after a join, in Spark's order: merged columns first, then the rest of the left and of the right side."""
    merged = [
        VisibleColumn(next(column.name for column in left if column.attributes == attributes), (*attributes, other))
        for attributes, other in merges
    ]
    in_merged = {attribute for column in merged for attribute in column.attributes}
    return (*merged, *(column for column in (*left, *right) if column.attributes[0] not in in_merged))
