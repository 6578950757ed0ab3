"""The names that an expression may use: aliases, and the columns visible through them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from clash.errors import QueryError
from clash.hints import did_you_mean, listed
from clash.model.expressions import Col
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.model.types import UNKNOWN
from clash.sql.name_lookup import look_up
from clash.sql.query_source import QuerySource, Span


@dataclass(frozen=True, slots=True)
class Alias:
    """One table of the FROM clause."""

    name: str
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
class VisibleColumn:
    """A column of `*`, which an unqualified name can refer to."""

    name: str
    attributes: tuple[Attribute, ...]
    """The columns that USING or NATURAL merged into this one, the leftmost first; otherwise a single column."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The aliases and columns that are known at one place of the query."""

    aliases: tuple[Alias, ...]
    visible: tuple[VisibleColumn, ...]
    declared: bool
    """False where the schemas are inferred from the queries themselves."""
    later: tuple[str, ...] = ()
    """Aliases that are joined further right, which an ON condition cannot use yet."""

    def find_alias(self, name: str) -> Alias | None:
        spelling = look_up(name, (alias.name for alias in self.aliases))
        return next((alias for alias in self.aliases if alias.name == spelling), None)

    def alias_of(self, relation: Relation) -> Alias:
        return next(alias for alias in self.aliases if alias.relation == relation)

    def col(self, attribute: Attribute) -> Col:
        """The typed column of an attribute."""
        return self.alias_of(attribute.relation).col(attribute.column)

    def resolve_alias(self, source: QuerySource, name: str, span: Span) -> Alias:
        """The alias of this name; raises if it is unknown, or not joined yet."""
        alias = self.find_alias(name)
        if alias is not None:
            return alias
        if look_up(name, self.later) is not None:
            raise source.error(span, "the alias is not joined yet at this place", "move the predicate to WHERE or to a later ON")
        names = [alias.name for alias in self.aliases] + list(self.later)
        hint = did_you_mean(name, names, f"the query's aliases are {listed(names)}")
        renamed = [alias.name for alias in self.aliases if alias.stream.name.lower() == name.lower()]
        hint = f"the stream is known as {renamed[0]} here" if renamed else hint
        raise source.error(span, "unknown alias", hint)

    def resolve_column(self, source: QuerySource, node: exp.Column) -> Col:
        """The column that a qualified or unqualified name refers to; raises if there is none, or several."""
        name, table = node.name, node.args.get("table")
        if node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
            raise source.error(node, "fields inside a column are not supported", "name whole columns: alias.column")
        if table is None:
            return self.col(self.resolve_unqualified(source, name, source.span(node)))
        alias = self.resolve_alias(source, table.name, source.span(table))
        column = alias.find_column(name)
        if column is None:
            raise alias.unknown_column(source, name, node)
        return alias.col(column)

    def resolve_unqualified(self, source: QuerySource, name: str, span: Span) -> Attribute:
        """The attribute that a bare column name refers to; of merged columns the leftmost."""
        exact = [column for column in self.visible if column.name == name]
        matches = exact or [column for column in self.visible if column.name.lower() == name.lower()]
        if len(matches) == 1:
            return matches[0].attributes[0]
        if matches:
            qualified = [f"{self.alias_of(column.attributes[0].relation).name}.{column.name}" for column in matches]
            raise source.error(span, "ambiguous column", "write " + " or ".join(qualified))
        if not self.declared and len(self.aliases) > 1:
            hint = f"no streams are declared, so say whose it is: write {' or '.join(f'{a.name}.{name}' for a in self.aliases[:3])}"
            raise source.error(span, "cannot tell whose column this is", hint)
        if self.find_alias(name) is not None:
            raise source.error(span, "an alias is not a value", f"write {name}.column")
        hint = did_you_mean(name, (v.name for v in self.visible), f"columns are {listed(v.name for v in self.visible)}")
        raise source.error(span, "unknown column", hint)
