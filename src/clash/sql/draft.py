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
from clash.sql.projection import project
from clash.sql.query_source import QuerySource, Span
from clash.sql.scope import Alias, Scope
from clash.sql.short_form import ShortRelation
from clash.sql.window_items import WindowItems

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
    by_spark: tuple[Expr, ...] = ()
    """Conditions that Spark evaluates over the joined rows, in the order of the text."""


@dataclass(slots=True)
class DetachedOuter:
    """The outer query before its names are resolved."""

    select: exp.Select
    """The SELECT as it was written."""
    columns: dict[str, exp.Column] = field(default_factory=dict)
    """By output of the join core, the column that it is."""
    final: str | None = None
    """SQL over the groups, where they are inside of the query."""
    items: WindowItems | None = None
    """Where the SELECT has window functions beside aggregates: what they need of the groups."""


@dataclass(slots=True)
class BranchChoices:
    """Which branch of each UNION ALL the FROM clause takes. A query with UNION ALL is resolved once for every combination."""

    given: tuple[int, ...] = ()
    """The branches to take, in the order in which the FROM clause is resolved; of all further ones the first is taken."""
    taken: list[tuple[int, int]] = field(default_factory=list)
    """What was taken, of how many."""

    def take(self, count: int) -> int:
        at = len(self.taken)
        chosen = self.given[at] if at < len(self.given) else 0
        self.taken.append((chosen, count))
        return chosen

    def following(self) -> tuple[int, ...] | None:
        """The branches of the next combination; None after the last. What is resolved later varies first, and may depend on what is
        resolved before."""
        for at in reversed(range(len(self.taken))):
            chosen, count = self.taken[at]
            if chosen + 1 < count:
                return *(before for before, _ in self.taken[:at]), chosen + 1
        return None


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
    choices: BranchChoices = field(default_factory=BranchChoices)
    """The combination of branches of UNION ALL that is resolved."""
    joined_types: Mapping[str, str] = field(default_factory=dict)
    """The Spark types of expressions over joined rows that are known so far."""
    from_clause: FromClause = field(init=False)
    predicates: Predicates = field(init=False)
    outer: OuterQuery | None = field(init=False, default=None)
    outputs: tuple[Output, ...] = field(init=False)
    time_bounds: TimeBounds = field(init=False)
    all_aliases: tuple[Alias, ...] = ()
    """The uses of streams of all branches; set between the passes."""
    windows: Windows = field(init=False)

    @property
    def scope(self) -> Scope:
        return self.from_clause.scope

    def finish(self) -> Query:
        """The query, once all passes have run."""
        aliases, predicates = self.scope.aliases, self.predicates
        relations = frozenset(alias.relation for alias in aliases)
        join = SubJoin(relations, predicates.classes, predicates.filters, predicates.residuals, self.windows)
        names = tuple((alias.name, alias.relation) for alias in aliases)
        tables = frozenset(alias.relation for alias in aliases if alias.stream.is_table)
        links, bounds = predicates.links, self.time_bounds
        outputs, projection = project(self.outputs, predicates.by_spark)
        return Query(self.name, self.source.text, join, names, outputs, links, bounds, self.outer, tables=tables, projection=projection)
