"""Hulls: joins that several queries can take their results from, which differ only in filters, residuals and windows.

A query that is stricter than a join of the same relations under the same equalities can have the rows of that join and check the rest on
top. The join may be another query's, or one that no query asks for: its *hull*, with the filters that all of the queries imply, the
residuals that they have in common and their longest windows. A hull is an option: the planner takes it where its steps and the checks cost
less than the queries' own steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from clash.model.expressions import Expr
from clash.model.failing import can_fail
from clash.model.implication import hull as hull_of_filters
from clash.model.implication import restrictions
from clash.model.projection import needs_spark
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation

MAX_PAIRED = 40  # queries of a family of which each is considered as the hull of others
Shape = tuple[object, ...]


def find_hulls(queries: Iterable[Query], given: Iterable[SubJoin] = ()) -> list[Query]:
    """Joins that some of the queries refine, each as a query without outputs; weaker ones first. `given`: joins that are hulls if some
    query refines them, such as those of a running plan."""
    families: dict[Shape, dict[SubJoin, Query]] = {}
    for query in queries:
        if len(query.join.relations) > 1:
            families.setdefault(_shape(query), {}).setdefault(query.join, query)
    given_by_relations: dict[frozenset[Relation], list[SubJoin]] = {}
    for join in given:
        given_by_relations.setdefault(join.relations, []).append(join)
    found: dict[SubJoin, Query] = {}
    for family in families.values():
        members = list(family.values())
        joins = [*_joins_of(members), *given_by_relations.get(members[0].join.relations, ())]
        for join in joins:
            if join not in found and any(member.join != join and member.join.is_within(join) for member in members):
                found[join] = replace(members[0], name="", text="", join=join, outputs=(), outer=None, added=(), projection=None)
    return list(found.values())


def _joins_of(members: Sequence[Query]) -> list[SubJoin]:
    """The hull of a family, those of the parts of it that filter the same columns, and its own joins."""
    if len(members) < 2:
        return []
    groups: dict[object, list[Query]] = {}
    for member in members:
        groups.setdefault((member.join.residuals, frozenset(restrictions(member.join.filters))), []).append(member)
    parts = [members, *(group for group in groups.values() if 1 < len(group) < len(members))]
    hulls = [hull for part in parts if (hull := _hull(part)) is not None]
    return [*dict.fromkeys(hulls), *(member.join for member in members if len(members) <= MAX_PAIRED and member.join not in hulls)]


def _shape(query: Query) -> Shape:
    """What the queries of a family have in common."""
    return query.join.relations, query.join.classes, query.links, query.tables


def _hull(members: Sequence[Query]) -> SubJoin | None:
    """The strictest join that all of them refine, as far as filters can be compared. None if some condition of it can fail: it would be
    evaluated on rows that no query looks at."""
    joins = [member.join for member in members]
    filters = frozenset[Expr]()
    for relation in joins[0].relations:
        filters |= hull_of_filters([join.sub([relation]).filters for join in joins])
    residuals = frozenset.intersection(*(join.residuals for join in joins))
    if any(can_fail(expr) or needs_spark(expr) for expr in (*filters, *residuals)):
        return None
    windows = frozenset((relation, _longest(dict(join.windows)[relation] for join in joins)) for relation, _ in joins[0].windows)
    return SubJoin(joins[0].relations, joins[0].classes, filters, residuals, windows)


def _longest(windows: Iterable[int | None]) -> int | None:
    """None, which is unbounded, if one of them is."""
    listed = list(windows)
    bounded = [window for window in listed if window is not None]
    return max(bounded) if len(bounded) == len(listed) else None
