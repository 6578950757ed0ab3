"""The names that an expression may use: tables, and the columns visible through them.

A table is a stream, or a derived table or common table, whose columns are expressions over streams. A name is replaced by its expression
when it is resolved, so nothing behind the resolution of names knows derived tables: a query over them is one join of streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from clash.errors import QueryError
from clash.hints import did_you_mean, listed
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, family
from clash.sql.name_lookup import look_up
from clash.sql.query_source import QuerySource, Span

AMBIGUOUS = "ambiguous column"
_MAX_NODES = 1_000  # of an expression that a name stands for: sums of sums of sums grow exponentially with the levels of a query
_MAX_DEPTH = 60  # likewise; keeps every later recursion over expressions far from Python's limit


@dataclass(frozen=True, slots=True)
class Alias:
    """One use of a stream in a query."""

    name: str
    """Its alias; inside a derived table `d`, it is `d.alias`."""
    relation: Relation
    stream: Stream

    def find_column(self, name: str) -> str | None:
        """The declared spelling of a column of the stream; None if there is none."""
        return look_up(name, (column for column, _ in self.stream.columns))

    def col(self, column: str) -> Col:
        """The typed column, by its declared spelling."""
        return Col(self.relation, column, self.stream.type_of(column) or UNKNOWN)

    def unknown_column(self, source: QuerySource, name: str, where: exp.Expression | Span) -> QueryError:
        """The error for a column that the stream does not have."""
        columns = [column for column, _ in self.stream.columns]
        hint = did_you_mean(name, columns, f"columns of {self.stream.name} are {listed(columns)}")
        return source.error(where, f"stream {self.stream.name} has no such column", hint)


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A column of a table in FROM."""

    name: str
    table: str
    """The name by which it can be qualified; empty for a derived table without one."""
    expression: Expr
    named: bool = True
    """False for a computed column without AS. Spark gives it a name of its own, so no name refers to it here."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables and columns that are known at one place of the query."""

    aliases: tuple[Alias, ...]
    """All uses of streams so far, those inside of derived tables included."""
    visible: tuple[ScopeColumn, ...]
    """The columns of `*`, in order."""
    declared: bool
    """False where the schemas are inferred from the queries themselves."""
    tables: tuple[str, ...] = ()
    """The names by which columns can be qualified. As in Spark, two tables may have the same one."""
    hidden: tuple[ScopeColumn, ...] = ()
    """Columns that USING or NATURAL merged into others: only qualified names and `table.*` refer to them."""
    computed: tuple[tuple[str, Expr], ...] = ()
    """Outputs to the left in the SELECT list, to which a name refers that no table has."""
    later: tuple[str, ...] = ()
    """Tables that are joined further right, which an ON condition cannot use yet."""
    joined_types: Mapping[str, str] = field(default_factory=dict)
    """The Spark types of expressions over joined rows that are known so far."""

    def alias_of(self, relation: Relation) -> Alias:
        return next(alias for alias in self.aliases if alias.relation == relation)

    def col(self, attribute: Attribute) -> Col:
        """The typed column of an attribute."""
        return self.alias_of(attribute.relation).col(attribute.column)

    def resolve_table(self, source: QuerySource, name: str, span: Span) -> tuple[ScopeColumn, ...]:
        """The columns of the tables of this name, in the order of `table.*`; raises if there is none, or it is not joined yet."""
        if name.lower() in (table.lower() for table in self.tables):
            return tuple(column for column in (*self.hidden, *self.visible) if column.table.lower() == name.lower())
        if look_up(name, self.later) is not None:
            raise source.error(span, "the alias is not joined yet at this place", "move the predicate to WHERE or to a later ON")
        names = [*filter(None, self.tables), *self.later]
        hint = did_you_mean(name, names, f"the query's aliases are {listed(names)}")
        renamed = [alias.name for alias in self.aliases if alias.stream.name.lower() == name.lower() and alias.name in self.tables]
        hint = f"the stream is known as {renamed[0]} here" if renamed else hint
        raise source.error(span, "unknown alias", hint)

    def resolve_column(self, source: QuerySource, node: exp.Column) -> Expr:
        """What a qualified or unqualified name stands for; raises if there is nothing, or several."""
        name, table = node.name, node.args.get("table")
        if node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
            raise source.error(node, "fields inside a column are not supported", "name whole columns: alias.column")
        if table is None:
            expr = self._unqualified(source, name, source.span(node))
        else:
            columns = self.resolve_table(source, table.name, source.span(table))
            matches = _matches(name, columns)
            if not matches:
                raise self.unknown_column(source, name, node, table.name)
            if len(matches) > 1:
                raise source.error(node, AMBIGUOUS, "give the tables, or the columns inside them, names of their own")
            expr = matches[0].expression
        if _exceeds_limits(expr):
            raise source.error(node, "the expression is nested too deeply", "a derived column may have 60 levels and 1,000 operators")
        return expr

    def resolve_visible(self, source: QuerySource, name: str, span: Span) -> ScopeColumn:
        """The column of `*` that a bare name refers to."""
        matches = _matches(name, self.visible)
        if len(matches) == 1:
            return matches[0]
        if matches:
            qualified = [f"{column.table}.{column.name}" for column in matches if column.table]
            hint = (
                "write " + " or ".join(qualified) if len({q.lower() for q in qualified}) == len(matches) else "rename one of them with AS"
            )
            raise source.error(span, AMBIGUOUS, hint)
        if len(self.tables) == 1:
            raise self.unknown_column(source, name, span, self.tables[0])
        raise self._unknown(source, name, span)

    def unknown_column(self, source: QuerySource, name: str, where: exp.Expression | Span, table: str) -> QueryError:
        """The error for a column that a table does not have."""
        streams = [alias for alias in self.aliases if alias.name.lower().rpartition(".")[2] == table.lower()]
        columns = [c.name for c in (*self.hidden, *self.visible) if c.table.lower() == table.lower() and c.named]
        if len(streams) == 1 and [column for column, _ in streams[0].stream.columns] == columns:
            return streams[0].unknown_column(source, name, where)
        hint = did_you_mean(name, columns, f"its columns are {listed(columns)}; give a computed one a name inside it, with AS")
        return source.error(where, f"{table or 'the derived table'} has no such column", hint)

    def _unqualified(self, source: QuerySource, name: str, span: Span) -> Expr:
        if _matches(name, self.visible):
            return self.resolve_visible(source, name, span).expression
        computed = [expr for other, expr in self.computed if other.lower() == name.lower()]
        if len(computed) == 1:
            return computed[0]
        if computed:
            raise source.error(span, AMBIGUOUS, "two outputs to the left have this name; rename one of them")
        raise self._unknown(source, name, span)

    def _unknown(self, source: QuerySource, name: str, span: Span) -> QueryError:
        if not self.declared and len(self.tables) > 1:
            hint = f"no streams are declared, so say whose it is: write {' or '.join(f'{t}.{name}' for t in self.tables[:3])}"
            return source.error(span, "cannot tell whose column this is", hint)
        if name.lower() in (table.lower() for table in self.tables):
            return source.error(span, "an alias is not a value", f"write {name}.column")
        names = list(dict.fromkeys(column.name for column in self.visible if column.named))
        known = f"columns are {listed(names)}" if names else "give the computed columns of the derived table names, with AS"
        return source.error(span, "unknown column", did_you_mean(name, names, known))


def _matches(name: str, columns: Iterable[ScopeColumn]) -> list[ScopeColumn]:
    """The columns of exactly this name; if there is none, those that differ from it in case only."""
    named = [column for column in columns if column.named and column.name.lower() == name.lower()]
    return [column for column in named if column.name == name] or named


def as_column(expr: Expr) -> Expr:
    """An expression as other expressions see it by its name. In Spark a column of integers has all digits of its type in sums with
    decimals, but an integer literal only its own: behind a name it must not be taken for one."""
    return Call("cast", (expr,), expr.type) if isinstance(expr, Lit) and family(expr.type) == "integer" else expr


def _exceeds_limits(expr: Expr) -> bool:
    nodes, pending = 0, [(expr, 1)]
    while pending:
        part, depth = pending.pop()
        nodes += 1
        if nodes > _MAX_NODES or depth > _MAX_DEPTH:
            return True
        if isinstance(part, Call):
            pending += [(arg, depth + 1) for arg in part.args]
    return False
