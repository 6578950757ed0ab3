"""A query, and its sub-joins, which are the unit of sharing between queries.

Invariant: two sub-joins are the same (one MIR, one probe step) iff their relations, equality classes, filters, residuals and windows are
equal. Equality classes are closed over the whole query *before* they are restricted to a sub-join, so an equality that holds by way of a
relation outside the sub-join is part of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from clash.model.expressions import Expr, columns, relations
from clash.model.implication import implies
from clash.model.outer_query import OuterQuery
from clash.model.projection import Projection
from clash.model.relation import Attribute, Relation

EqualityClass = frozenset[Attribute]
_BRANCH = "#"  # in the name of a branch; names of queries have none


def branch_name(query: str, number: int) -> str:
    """The name that a branch of a query has in plans; the first, number 0, has that of the query.

    >>> branch_name("q", 0), branch_name("q", 1)
    ('q', 'q#2')
    """
    return query if number == 0 else f"{query}{_BRANCH}{number + 1}"


def query_of(branch: str) -> str:
    """The name of the query that a branch belongs to.

    >>> query_of("q"), query_of("q#2")
    ('q', 'q')
    """
    return branch.partition(_BRANCH)[0]


@dataclass(frozen=True, slots=True)
class SubJoin:
    """A join of some relations of a query, with all predicates and windows that concern these relations alone."""

    relations: frozenset[Relation]
    classes: frozenset[EqualityClass]
    """Sets of attributes that are equal to each other, each with at least two members."""
    filters: frozenset[Expr]
    """Predicates on one relation."""
    residuals: frozenset[Expr]
    """Predicates between relations that are not equalities of two columns."""
    windows: frozenset[tuple[Relation, int | None]]
    """The window of each relation in microseconds; None is unbounded."""

    def sub(self, keep: Iterable[Relation]) -> SubJoin:
        """The part of this join that concerns only the relations in `keep`."""
        keep = frozenset(keep)
        restricted = (frozenset(a for a in c if a.relation in keep) for c in self.classes)
        return SubJoin(
            keep,
            frozenset(c for c in restricted if len(c) > 1),
            frozenset(f for f in self.filters if relations(f) <= keep),
            frozenset(r for r in self.residuals if relations(r) <= keep),
            frozenset(w for w in self.windows if w[0] in keep),
        )

    def is_within(self, other: SubJoin) -> bool:
        """Whether every row of this join is one of the other, which has the same relations and equalities: the other's filters, residuals
        and windows hold wherever these do."""
        if self == other:
            return True
        windows = dict(self.windows)
        return (
            self.relations == other.relations
            and self.classes == other.classes
            and other.residuals <= self.residuals
            and all(_is_as_short(windows.get(relation), window) for relation, window in other.windows)
            and all(implies(self.filters, expr) for expr in other.filters)
        )

    def __str__(self) -> str:
        return " ⋈ ".join(str(r) for r in sorted(self.relations))


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the rows that a join gives."""

    name: str
    expression: Expr


@dataclass(frozen=True, slots=True)
class Query:
    """One continuous join query, resolved against its streams."""

    name: str
    text: str
    join: SubJoin
    """The whole join: all relations, predicates and windows of the query."""
    aliases: tuple[tuple[str, Relation], ...]
    """Each alias with its relation, in the order of the text."""
    outputs: tuple[Output, ...]
    links: frozenset[frozenset[Relation]] = frozenset()
    """Pairs of relations that may be joined without an equality, because the query says `CROSS JOIN`."""
    bounds: frozenset[tuple[Relation, Relation, int]] = frozenset()
    """What the predicates imply for event times: (a, b, d) means τ_a ≤ τ_b + d microseconds."""
    outer: OuterQuery | None = None
    """What Spark computes of the results of this join, which is the core of a query with aggregates or DISTINCT."""
    added: tuple[Query, ...] = ()
    """The other branches of a query with UNION ALL: joins of their own, whose results are added to those of this one."""
    tables: frozenset[Relation] = frozenset()
    """The relations that are reference tables: their rows never arrive, so they complete no result, and windows do not restrict them."""
    projection: Projection | None = None
    """What Spark computes of the rows of this join, which have the columns `outputs`, before they are published; None where they are the
    results."""

    @property
    def branches(self) -> tuple[Query, ...]:
        """The joins whose results together are those of the query, each as a query of its own: what is planned and run."""
        return (self,) if not self.added else (replace(self, added=()), *self.added)

    @property
    def windows(self) -> tuple[frozenset[tuple[Relation, int | None]], ...]:
        """The windows of its relations, by branch."""
        return tuple(branch.join.windows for branch in self.branches)

    @property
    def streams(self) -> frozenset[Relation]:
        """The relations whose tuples arrive."""
        return self.join.relations - self.tables

    @property
    def result_columns(self) -> list[tuple[str, str]]:
        """Name and Spark type of each column of the results."""
        if self.projection is not None:
            return [(column.name, column.type) for column in self.projection.columns]
        return [(output.name, output.expression.type) for output in self.outputs]

    def columns_of(self, stream: str) -> set[str]:
        """The columns of a stream that the query names: in equalities, filters, residuals and outputs."""
        expressions = [*self.join.filters, *self.join.residuals, *(output.expression for output in self.outputs)]
        read = {(c.relation.stream, c.column) for expression in expressions for c in columns(expression)}
        read |= {(a.relation.stream, a.column) for equal in self.join.classes for a in equal}
        return {column for name, column in read if name == stream}

    def means(self, other: Query) -> bool:
        """Whether both have the same results, under whatever layout of their texts."""
        return replace(self, text="") == replace(other, text="")

    def contains(self, part: SubJoin) -> bool:
        """Whether `part` is a sub-join of this query, with the very same predicates and windows."""
        return part.relations <= self.join.relations and self.join.sub(part.relations) == part

    def refines(self, part: SubJoin) -> bool:
        """Whether every result of the query contains a row of `part`: a join of some of its relations under the same equalities, whose
        filters, residuals and windows hold wherever the query's do."""
        return part.relations <= self.join.relations and self.join.sub(part.relations).is_within(part)

    def beyond(self, part: SubJoin) -> frozenset[Expr]:
        """The filters and residuals of the query on the relations of `part` that a row of it has not been checked for."""
        own = self.join.sub(part.relations)
        return (own.filters - part.filters) | (own.residuals - part.residuals)

    def shorter_windows(self, part: SubJoin) -> dict[Relation, int]:
        """The windows of the query that are shorter than those of `part`, for the relations of it."""
        given = dict(part.windows)
        return {r: w for r, w in self.join.windows if w is not None and r in given and w != given[r]}

    def reach(self) -> dict[tuple[Relation, Relation], int | None]:
        """D[k, j], the largest τ_j − τ_k in microseconds that a result allows; None where it is unbounded.

        A window of k bounds τ_j − τ_k for every j, and `bounds` add direct bounds; all-pairs shortest paths combine them. Rows of tables
        have no event time and take no part.
        """
        rels = sorted(self.streams)
        reach: dict[tuple[Relation, Relation], int | None] = {}
        for k, window in self.join.windows:
            for j in rels if k not in self.tables else ():
                reach[k, j] = 0 if j == k else window
        for a, b, micros in self.bounds:
            window_bound = reach[b, a]
            reach[b, a] = micros if window_bound is None else min(window_bound, micros)
        for m, k, j in itertools.product(rels, rels, rels):
            first, second, direct = reach[k, m], reach[m, j], reach[k, j]
            if first is not None and second is not None and (direct is None or first + second < direct):
                reach[k, j] = first + second
        return reach


def _is_as_short(window: int | None, other: int | None) -> bool:
    """Whether a window is no longer than another; None is unbounded."""
    return other is None or (window is not None and window <= other)
