"""A query between the passes of `parse`, and what the passes hand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from clash.model.expressions import Expr
from clash.model.outer_query import OuterQuery
from clash.model.query import EqualityClass, Output, Query, SubJoin
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.sql.query_source import QuerySource, Span
from clash.sql.scope import Scope
from clash.sql.short_form import ShortRelation

Syntax = exp.Select | tuple[ShortRelation, ...]
Windows = frozenset[tuple[Relation, int | None]]
TimeBounds = frozenset[tuple[Relation, Relation, int]]


@dataclass(frozen=True, slots=True)
class FromClause:
    """The resolved FROM clause."""

    scope: Scope
    """All uses of streams, and the columns that are visible after the last join."""
    equalities: tuple[tuple[Expr, Expr, Span], ...]
    """Pairs that USING, NATURAL or the short form make equal, and where."""
    conditions: tuple[tuple[exp.Expression, Scope], ...]
    """Each ON condition, and each WHERE of a derived table, with the names that it may use."""
    cross_joins: frozenset[frozenset[Relation]]
    """Pairs of relations that need no equality between them, because of CROSS JOIN."""


@dataclass(frozen=True, slots=True)
class Predicates:
    """All conditions of ON, USING, NATURAL and WHERE, classified; see `clash.model.query` for the fields."""

    classes: frozenset[EqualityClass]
    filters: frozenset[Expr]
    residuals: frozenset[Expr]
    links: frozenset[frozenset[Relation]]


@dataclass(slots=True)
class DetachedOuter:
    """The outer query before its names are resolved."""

    select: exp.Select
    """The SELECT as it was written."""
    columns: dict[str, exp.Column] = field(default_factory=dict)
    """By output of the join core, the column that it is."""


@dataclass(slots=True)
class QueryDraft:
    """One query while it is parsed. Fields without a value in the constructor are set by one pass each, in this order.

    A pass may only read fields above the one that it sets.
    """

    name: str
    text: str
    window_arguments: Mapping[str, str] | None = None
    """Windows given beside the text, by alias or stream."""
    source: QuerySource = field(init=False)
    syntax: Syntax = field(init=False)
    """A SELECT of sqlglot, or the relations of a short form."""
    detached: DetachedOuter | None = field(init=False, default=None)
    """What is outside of the join, before its names are resolved."""
    streams: Mapping[str, Stream] = field(default_factory=dict)
    """The streams that the query may name; set between the passes where they are inferred from the queries."""
    declared: bool = True
    """False where `streams` are inferred: then they have only columns that queries name, of unknown type."""
    from_clause: FromClause = field(init=False)
    predicates: Predicates = field(init=False)
    outer: OuterQuery | None = field(init=False, default=None)
    outputs: tuple[Output, ...] = field(init=False)
    windows: Windows = field(init=False)
    time_bounds: TimeBounds = field(init=False)

    @property
    def scope(self) -> Scope:
        return self.from_clause.scope

    def finish(self) -> Query:
        """The query, once all passes have run."""
        aliases, predicates = self.scope.aliases, self.predicates
        relations = frozenset(alias.relation for alias in aliases)
        join = SubJoin(relations, predicates.classes, predicates.filters, predicates.residuals, self.windows)
        names = tuple((alias.name, alias.relation) for alias in aliases)
        return Query(self.name, self.source.text, join, names, self.outputs, predicates.links, self.time_bounds, self.outer)
