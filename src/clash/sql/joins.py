"""The FROM clause: which aliases there are, what USING and NATURAL make equal, and where CROSS JOIN was asked for.

A comma binds as JOIN does, as in Spark (not as in the standard): the left side of a JOIN is everything before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.model.types import joinable
from clash.sql.name_lookup import did_you_mean, listed, look_up
from clash.sql.scope import Alias, Scope, Visible
from clash.sql.short_form import Part
from clash.sql.query_source import Source, Span

_JOIN_WORDS = {"JOIN", "CROSS", "INNER", "NATURAL", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "ASOF", ",", "STRAIGHT_JOIN"}
_KINDS = {
    "SEMI": "semi", "ANTI": "anti", "ASOF": "ASOF", "STRAIGHT_JOIN": "straight",
    "LEFT": "outer", "RIGHT": "outer", "FULL": "outer", "OUTER": "outer",
}  # fmt: skip
_INSTEAD = {
    "semi": "join it and select the columns of the other side; every match gives a row",
    "anti": "a stream never ends, so absence is never certain",
    "outer": "write an inner JOIN; a stream never ends, so a missing match is never certain",
}


_Pair = tuple[tuple[Attribute, ...], Attribute]


@dataclass(frozen=True, slots=True)
class Tables:
    """`equal` are pairs of USING, NATURAL and the short form; `conditions` are of ON, each with what it may name."""

    scope: Scope
    equal: tuple[tuple[Attribute, Attribute], ...]
    conditions: tuple[tuple[exp.Expression, Scope], ...]
    crossed: frozenset[frozenset[Relation]]


def table_of(source: Source, node: exp.Expression) -> tuple[str, str, exp.Expression]:
    """Stream name, alias and the node of one table."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise source.error(node, "only streams can stand in FROM", "write the name of a stream")
    if node.args.get("db") is not None:
        raise source.error(node, "a stream has no database", "write the stream's name alone")
    if node.args.get("joins"):
        raise source.error(node, "nested joins are not supported", "write each ON directly behind its JOIN")
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise source.error(node, "renaming columns in an alias is not supported", "rename them in SELECT, with AS")
    return node.name, alias.name if alias is not None and alias.name else node.name, node


def words_before(source: Source, node: exp.Expression) -> tuple[list[str], Span]:
    """The words of the join that leads to a table; sqlglot makes a comma a CROSS JOIN and forgets the difference."""
    at = source.index_at(source.span(node)[0])
    end = source.tokens[at].end + 1
    words: list[str] = []
    while at and source.tokens[at - 1].text.upper() in _JOIN_WORDS:
        at -= 1
        words.insert(0, source.tokens[at].text.upper())
    return words, (source.tokens[at].start, end)


def read_joins(source: Source, select: exp.Select, streams: Mapping[str, Stream], declared: bool) -> Tables:
    joins: list[exp.Join] = select.args.get("joins") or []
    nodes = [select.args["from_"].this, *(join.this for join in joins)]
    aliases = _aliases(source, [table_of(source, node) for node in nodes], streams)
    left = Scope(aliases[:1], _shown(aliases[0]), declared)
    equal: list[tuple[Attribute, Attribute]] = []
    conditions: list[tuple[exp.Expression, Scope]] = []
    crossed: set[frozenset[Relation]] = set()
    for at, join in enumerate(joins, start=1):
        alias = aliases[at]
        words, span = words_before(source, join.this)
        _refuse_kind(source, join, words, span)
        if "CROSS" in words:
            crossed |= {frozenset((alias.relation, other.relation)) for other in aliases[:at]}
        names = [(i.name, source.span(i)) for i in join.args.get("using") or []]
        if "NATURAL" in words:
            names = _common_names(source, left, alias, span)
        pairs = [_pair(source, left, alias, *name) for name in names]
        equal += [(same[0], right) for same, right in pairs]
        left = replace(left, aliases=(*left.aliases, alias), visible=_merged(left.visible, _shown(alias), pairs))
        if join.args.get("on") is not None:
            conditions.append((join.args["on"], replace(left, later=tuple(a.name for a in aliases if a not in left.aliases))))
    return Tables(left, tuple(equal), tuple(conditions), frozenset(crossed))


def read_short(source: Source, parts: tuple[Part, ...], streams: Mapping[str, Stream], declared: bool) -> Tables:
    """A repeated relation gets the alias `R_2`; an attribute is shown once."""
    count: dict[str, int] = {}
    tables: list[tuple[str, str, Span]] = []
    for part in parts:
        count[part.stream.lower()] = number = count.get(part.stream.lower(), 0) + 1
        tables.append((part.stream, part.stream if number == 1 else f"{part.stream}_{number}", part.span))
    aliases = _aliases(source, tables, streams)
    shown: dict[str, Visible] = {}
    equal: list[tuple[Attribute, Attribute]] = []
    for alias, part in zip(aliases, parts, strict=True):
        for name, span in part.columns:
            column = alias.column(name)
            if column is None:
                raise _no_column(source, alias, name, span)
            new = Attribute(alias.relation, column)
            held = shown.get(name.lower())
            if held is not None:
                equal.append((held.same[0], new))
                _check_types(source, Scope(aliases, (), declared), held.same[0], new, span)
            shown[name.lower()] = Visible(held.name if held else column, (*(held.same if held else ()), new))
    return Tables(Scope(aliases, tuple(shown.values()), declared), tuple(equal), (), frozenset())


def _aliases(source: Source, tables: Iterable[tuple[str, str, exp.Expression | Span]], streams: Mapping[str, Stream]) -> tuple[Alias, ...]:
    aliases: list[Alias] = []
    for name, alias, where in tables:
        found = look_up(name, streams)
        if found is None:
            others = f"streams are {listed(streams)}" if streams else "no stream is declared"
            raise source.error(where, "unknown stream", did_you_mean(name, streams, others))
        if any(a.name.lower() == alias.lower() for a in aliases):
            raise source.error(where, f"two relations are called {alias}", f"give one of them another alias, e.g. {name} AS {alias}2")
        number = sum(a.stream.name == found for a in aliases)
        aliases.append(Alias(alias, Relation(found, number), streams[found]))
    return tuple(aliases)


def _shown(alias: Alias) -> tuple[Visible, ...]:
    return tuple(Visible(column, (Attribute(alias.relation, column),)) for column, _ in alias.stream.columns)


def _refuse_kind(source: Source, join: exp.Join, words: list[str], span: Span) -> None:
    told = [*words, *(str(join.args.get(key) or "").upper() for key in ("side", "method", "kind"))]
    kind = next((_KINDS[word] for word in _KINDS if word in told), None)
    if kind is not None:
        raise source.error(span, f"{kind} joins are not supported", _INSTEAD.get(kind, "write an inner JOIN with ON"))
    known = {"this", "side", "kind", "method", "on", "using"}
    if any(value for key, value in join.args.items() if key not in known):
        raise source.error(span, "this kind of join is not supported", "write an inner JOIN with ON")
    if "," in words or "CROSS" in words or "NATURAL" in words:
        return
    after = source.index_at(source.span(join.this)[1] - 1) + 1
    if after >= len(source.tokens) or source.tokens[after].text.upper() not in ("ON", "USING"):
        raise source.error(span, "a JOIN has no ON or USING", "add ON …, or write CROSS JOIN if every pair is meant")


def _common_names(source: Source, left: Scope, alias: Alias, span: Span) -> list[tuple[str, Span]]:
    """What NATURAL joins on, in the order of the left side."""
    names = dict.fromkeys(v.name for v in left.visible if alias.column(v.name) is not None)
    if not names:
        hint = "write JOIN … ON …"
        if not left.declared:
            hint = f"no streams are declared, so only columns that queries name are known; {hint}"
        raise source.error(span, "NATURAL JOIN finds no common column", hint)
    for name in names:
        times = [a for a in (*left.aliases, alias) if a.stream.time is not None and a.column(name) == a.stream.time]
        if times:
            hint = f"write JOIN {alias.name} USING ({listed(n for n in names if n != name) or '…'})"
            raise source.error(span, "NATURAL JOIN would join time columns", hint, f"{times[0].name}.{times[0].stream.time}")
    return [(name, span) for name in names]


def _pair(source: Source, left: Scope, alias: Alias, name: str, span: Span) -> _Pair:
    """What USING (name) makes equal: the left column, with all that are it already, and the right one."""
    column = alias.column(name)
    if column is None:
        raise _no_column(source, alias, name, span)
    found = left.unqualified(source, name, span)
    same = next(v.same for v in left.visible if found in v.same)
    right = Attribute(alias.relation, column)
    _check_types(source, Scope((*left.aliases, alias), (), left.declared), found, right, span)
    return same, right


def _check_types(source: Source, scope: Scope, left: Attribute, right: Attribute, span: Span) -> None:
    a, b = scope.col(left), scope.col(right)
    if not joinable(a.type, b.type):
        note = f"{scope.of(left.relation).name}.{a.column} is {a.type}, {scope.of(right.relation).name}.{b.column} is {b.type}"
        raise source.error(span, "columns of these types cannot be joined", "give both streams the same atomic type", note)


def _merged(left: tuple[Visible, ...], right: tuple[Visible, ...], pairs: list[_Pair]) -> tuple[Visible, ...]:
    """Joined columns first, then the rest of the left and of the right side, as Spark orders `*`."""
    first = [Visible(next(v.name for v in left if v.same == same), (*same, other)) for same, other in pairs]
    gone = {attribute for visible in first for attribute in visible.same}
    return (*first, *(v for v in (*left, *right) if v.same[0] not in gone))


def _no_column(source: Source, alias: Alias, name: str, span: Span) -> Exception:
    columns = [c for c, _ in alias.stream.columns]
    hint = did_you_mean(name, columns, f"columns of {alias.stream.name} are {listed(columns)}")
    return source.error(span, f"stream {alias.stream.name} has no such column", hint)
