"""The names that an expression may use: aliases, and the columns visible through them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from clash.model.expressions import Col
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.sql.name_lookup import did_you_mean, listed, look_up
from clash.sql.query_source import Source, Span


@dataclass(frozen=True, slots=True)
class Alias:
    name: str
    relation: Relation
    stream: Stream

    def column(self, name: str) -> str | None:
        return look_up(name, (column for column, _ in self.stream.columns))

    def col(self, column: str) -> Col:
        return Col(self.relation, column, self.stream.type_of(column) or "unknown")


@dataclass(frozen=True, slots=True)
class Visible:
    """A column of `*`. USING and NATURAL make several columns one: `same` are all of them, the leftmost first."""

    name: str
    same: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """`declared` is false where the schemas were taken from the queries themselves; `later` are aliases not yet joined."""

    aliases: tuple[Alias, ...]
    visible: tuple[Visible, ...]
    declared: bool
    later: tuple[str, ...] = ()

    def find(self, name: str) -> Alias | None:
        found = look_up(name, (a.name for a in self.aliases))
        return next((a for a in self.aliases if a.name == found), None)

    def of(self, relation: Relation) -> Alias:
        return next(a for a in self.aliases if a.relation == relation)

    def col(self, attribute: Attribute) -> Col:
        return self.of(attribute.relation).col(attribute.column)

    def alias(self, source: Source, name: str, span: Span) -> Alias:
        found = self.find(name)
        if found is None and look_up(name, self.later) is not None:
            raise source.error(span, "the alias is not joined yet at this place", "move the predicate to WHERE or to a later ON")
        if found is None:
            names = [a.name for a in self.aliases] + list(self.later)
            hint = did_you_mean(name, names, f"the query's aliases are {listed(names)}")
            hidden = [a.name for a in self.aliases if a.stream.name.lower() == name.lower()]
            hint = f"the stream is known as {hidden[0]} here" if hidden else hint
            raise source.error(span, "unknown alias", hint)
        return found

    def resolve(self, source: Source, column: exp.Column) -> Col:
        """The column of the model that `column` names."""
        name, table = column.name, column.args.get("table")
        if column.args.get("db") is not None or not isinstance(column.this, exp.Identifier):
            raise source.error(column, "fields inside a column are not supported", "name whole columns: alias.column")
        if table is not None:
            alias = self.alias(source, table.name, source.span(table))
            found = alias.column(name)
            if found is None:
                columns = [c for c, _ in alias.stream.columns]
                hint = did_you_mean(name, columns, f"columns of {alias.stream.name} are {listed(columns)}")
                raise source.error(column, f"stream {alias.stream.name} has no such column", hint)
            return alias.col(found)
        return self.col(self.unqualified(source, name, source.span(column)))

    def unqualified(self, source: Source, name: str, span: Span) -> Attribute:
        for exactly in (True, False):
            found = [v for v in self.visible if v.name == name or (not exactly and v.name.lower() == name.lower())]
            if len(found) == 1:
                return found[0].same[0]
            if found:
                owners = [self.of(v.same[0].relation).name for v in found]
                hint = "write " + " or ".join(f"{owner}.{v.name}" for owner, v in zip(owners, found, strict=True))
                raise source.error(span, "ambiguous column", hint)
        if not self.declared and len(self.aliases) > 1:
            hint = f"no streams are declared, so say whose it is: write {' or '.join(f'{a.name}.{name}' for a in self.aliases[:3])}"
            raise source.error(span, "cannot tell whose column this is", hint)
        if self.find(name) is not None:
            raise source.error(span, "an alias is not a value", f"write {name}.column")
        hint = did_you_mean(name, (v.name for v in self.visible), f"columns are {listed(v.name for v in self.visible)}")
        raise source.error(span, "unknown column", hint)
