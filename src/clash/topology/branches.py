"""Probe orders, cut into branches where stores do not hold all that was ever completed.

Invariant: each combination belongs to exactly one branch. A step into an intermediate store that was introduced later than some of the rows
that it would have is two: the store, for rows whose largest arrival is not before that; and its parts one after the other, for
rows of which *every* part came before. For a query that was added later the store counts as introduced no earlier than the query: what
it holds from before may lack columns, or rows, that only this query needs. A query never reads rows from before a column that it needs was
kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from clash.model.layout import ALL, Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.plan.logical import ProbeOrder, Step, StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import UNBOUNDED, Bounds
from clash.plan.visibility import VisibilityBounds
from clash.topology.columns import named, used
from clash.topology.equality import Streams
from clash.topology.placement import layout_attribute
from clash.topology.stores import readers
from clash.topology.trees import Branch, plain_branches

NEVER = 1 << 62  # after every arrival
Layouts = Mapping[StoreKey, tuple[Layout, ...]]


_Hops = tuple[tuple[Step, Bounds], ...]


def branch_orders(
    queries: Sequence[Query], orders: Iterable[ProbeOrder], layouts: Layouts, streams: Streams, past: VisibilityBounds
) -> list[Branch]:
    """Every order as its branches; queries that go the same ways stay together."""
    if past == VisibilityBounds():
        return plain_branches(orders)
    brancher = _Brancher(queries, layouts, streams, past)
    found: list[Branch] = []
    for order in orders:
        ways: dict[_Hops, list[str]] = {}
        for name in order.queries:
            query = brancher.queries[name]
            for way in brancher.ways(order, query.join, [query]):
                ways.setdefault(way, []).append(name)
        for way, names in ways.items():
            found.append(_branch(replace(order, queries=tuple(names), feeds=None), way))
        if order.feeds is not None and order.feeds.join is not None:
            users = readers(order.feeds, queries)
            for way in brancher.ways(order, order.feeds.join, users):
                found.append(_branch(replace(order, queries=()), way))
    for key in sorted((key for key in layouts if key.join is not None and store_id(key) in past.filling), key=str):
        found += brancher.backfill_branches(key)
    return found


def _branch(order: ProbeOrder, way: _Hops) -> Branch:
    return Branch(replace(order, steps=tuple(step for step, _ in way)), tuple(bounds for _, bounds in way))


class _Brancher:
    def __init__(self, queries: Sequence[Query], layouts: Layouts, streams: Streams, past: VisibilityBounds) -> None:
        self.queries = {query.name: query for query in queries}
        self.layouts, self.streams, self.past = layouts, streams, past

    def ways(self, order: ProbeOrder, join: SubJoin, users: list[Query]) -> list[_Hops]:
        found: list[_Hops] = [()]
        bound = frozenset([order.origin])
        for step in order.steps:
            heads = self._into_mir(step, bound, join, users) if step.store.join is not None else [self._into_base(step, join, users)]
            found = [(*way, *head) for way in found for head in heads]
            bound |= step.adds.relations
        return found

    def backfill_branches(self, key: StoreKey) -> list[Branch]:
        """From every part over the base stores of the others: what came before a stored tuple is found by it, as when it arrived."""
        found = []
        for origin in sorted(_join(key).relations):
            way = self._parts(key, frozenset([origin]), _join(key), [], None)
            branch = _branch(ProbeOrder(origin, _join(key).sub([origin]), (), (), key), way)
            found.append(branch._replace(backfills=True, since=self._kept(self._base(key, origin), origin, _join(key), [])))
        return found

    def _into_base(self, step: Step, join: SubJoin, users: list[Query], before: int | None = None) -> _Hops:
        return ((step, Bounds(self._kept(step.store, min(step.adds.relations), join, users), before)),)

    def _kept(self, key: StoreKey, relation: Relation, join: SubJoin, users: list[Query]) -> int:
        """Since when the store has the columns that are needed: one query's all; of a MIR with several, those that make its rows."""
        if len(users) == 1 and users[0].join == join:
            needed = {a.column for a in named(users[0]) if a.relation == relation}
        else:
            needed = {a.column for a in _made_of(join) if a.relation == relation}
        store = store_id(key)
        columns = self.past.columns.get(store, {})
        since = max((columns.get(column, 0) for column in needed), default=0)
        return since if self._older(store, since) else 0

    def _older(self, store: str, than: int) -> bool:
        """Does the store hold any row from before?"""
        return self.past.oldest.get(store, NEVER) < than

    def _into_mir(self, step: Step, bound: frozenset[Relation], join: SubJoin, users: list[Query]) -> list[_Hops]:
        since = self._since(step.store, users)
        if since == NEVER:
            return [self._parts(step.store, bound, join, users, None)]
        parts = [self._base(step.store, relation) for relation in step.adds.relations]
        if not all(self._older(store_id(key), since) for key in parts):
            return [((step, UNBOUNDED),)]
        old = self._parts(step.store, bound, join, users, since)
        if any(b.before is not None and b.since >= b.before for _, b in old):
            return [((step, Bounds(since)),)]
        return [((step, Bounds(since)),), old]

    def _since(self, key: StoreKey, users: list[Query]) -> int:
        start = self.past.introduced.get(store_id(key), 0)
        for query in users:
            for relation in _join(key).relations:
                base = self._base(key, relation)
                if self._kept(base, relation, query.join, [query]) > self._kept(base, relation, _join(key), []):
                    return NEVER  # rows that it gets still lack what this query needs of their older parts
        added = [at for query in users if (at := self.past.added.get(query.name, 0)) > start]
        return max([0 if store_id(key) in self.past.filled else start, *added])

    def _base(self, key: StoreKey, relation: Relation) -> StoreKey:
        return StoreKey(relation.stream, None, key.owner)

    def _parts(self, key: StoreKey, bound: frozenset[Relation], join: SubJoin, users: list[Query], before: int | None) -> _Hops:
        """The relations of the store one after the other: those first whose place is known."""
        hops: _Hops = ()
        left = set(_join(key).relations - bound)
        while left:
            choices = [choice for relation in sorted(left) for choice in self._choices(key, relation, bound, join)]
            _, relation, layout = min(choices, key=lambda choice: (choice[0], choice[1]))
            one = Step(self._base(key, relation), layout, join.sub([relation]), 0.0, 1, False, 0.0)
            hops += self._into_base(one, join, users, before)
            bound |= {relation}
            left.remove(relation)
        return hops

    def _choices(self, key: StoreKey, relation: Relation, bound: frozenset[Relation], join: SubJoin) -> list[tuple[int, Relation, Layout]]:
        adds = join.sub([relation])
        linked = [c for c in join.classes if any(a.relation in bound for a in c) and any(a.relation == relation for a in c)]
        found = []
        for layout in self.layouts[self._base(key, relation)]:
            target = layout_attribute(layout, adds)
            known = any(target in equal for equal in linked)
            found.append((0 if linked and (known or layout == ALL) else 1 if linked else 2, relation, layout))
        return found


def _join(key: StoreKey) -> SubJoin:
    if key.join is None:
        raise AssertionError(f"{key} is no intermediate store")
    return key.join


def _made_of(join: SubJoin) -> set[Attribute]:
    return {a for equal in join.classes for a in equal} | used(*join.filters, *join.residuals)
