"""Probe orders, split into branches where stores do not hold every row that was ever completed.

Invariant: each combination of tuples belongs to exactly one branch.

A step into an intermediate store that was introduced later than some of the rows that it would have becomes two branches: one probes the
store, for rows whose largest arrival is at or after the introduction; the other probes the base stores of its parts one after the other,
for rows of which *every* part arrived before it. For a query that was added later, the store counts as introduced no earlier than the
query: its rows from before may lack columns, and it may lack rows, that only this query needs. A query never reads rows from before a
column that it needs was kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from clash.model.layout import ALL, Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.plan.logical import ProbeOrder, Step, StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import UNBOUNDED, Bounds
from clash.plan.visibility import VisibilityBounds
from clash.topology.columns import join_attributes, query_attributes
from clash.topology.partitioning import Layouts, partition_attribute
from clash.topology.stores import readers
from clash.topology.trees import Branch, plain_branches

NEVER = 1 << 62  # later than every arrival


class _BoundedStep(NamedTuple):
    step: Step
    bounds: Bounds


class _Candidate(NamedTuple):
    """A possible next step over the parts of an intermediate store."""

    rank: int
    """0: an equality names the worker, or all workers have the rows; 1: an equality, but a broadcast; 2: a cross product."""
    relation: Relation
    layout: Layout


_Path = tuple[_BoundedStep, ...]


def branch_orders(queries: Sequence[Query], orders: Iterable[ProbeOrder], layouts: Layouts, visibility: VisibilityBounds) -> list[Branch]:
    """Every order as its branches; queries whose branches have the same steps and bounds share them."""
    if visibility == VisibilityBounds():
        return plain_branches(orders)
    brancher = _Brancher(queries, layouts, visibility)
    branches: list[Branch] = []
    for order in orders:
        query_paths: dict[_Path, list[str]] = {}
        for name in order.queries:
            query = brancher.queries[name]
            for path in brancher.paths(order, order.hull or query.join, [query]):
                query_paths.setdefault(path, []).append(name)
        for path, names in query_paths.items():
            branches.append(_branch(replace(order, queries=tuple(names), feeds=None), path))
        if order.feeds is not None and order.feeds.join is not None:
            for path in brancher.paths(order, order.feeds.join, readers(order.feeds, queries)):
                branches.append(_branch(replace(order, queries=()), path))
    for key in sorted((key for key in layouts if key.join is not None and store_id(key) in visibility.filling), key=str):
        branches += brancher.backfill_branches(key)
    return branches


def _branch(order: ProbeOrder, path: _Path) -> Branch:
    return Branch(replace(order, steps=tuple(step for step, _ in path)), tuple(bounds for _, bounds in path))


class _Brancher:
    """Splits single orders. `users` are the queries that a path is for: one query, or the readers of the store that it feeds."""

    def __init__(self, queries: Sequence[Query], layouts: Layouts, visibility: VisibilityBounds) -> None:
        self.queries = {query.name: query for query in queries}
        self.layouts, self.visibility = layouts, visibility

    def paths(self, order: ProbeOrder, join: SubJoin, users: list[Query]) -> list[_Path]:
        """The paths that together replace the steps of an order."""
        paths: list[_Path] = [()]
        bound = frozenset([order.origin])
        for step in order.steps:
            if step.store.join is not None:
                alternatives = self._into_mir(step, bound, join, users)
            else:
                alternatives = [(self._into_base(step, join, users),)]
            paths = [(*path, *alternative) for path in paths for alternative in alternatives]
            bound |= step.adds.relations
        return paths

    def backfill_branches(self, key: StoreKey) -> list[Branch]:
        """One branch per part of an intermediate store: stored tuples of that part probe the base stores of the others.

        As when it arrived, a stored tuple finds what arrived before it, so every row is completed once, by its last part.
        """
        branches = []
        for origin in sorted(_join(key).relations):
            path = self._over_parts(key, frozenset([origin]), _join(key), [], None)
            branch = _branch(ProbeOrder(origin, _join(key).sub([origin]), (), (), key), path)
            since = self._columns_since(_base_store(key, origin), origin, _join(key), [])
            branches.append(branch._replace(backfills=True, since=since))
        return branches

    def _into_base(self, step: Step, join: SubJoin, users: list[Query], before: int | None = None) -> _BoundedStep:
        return _BoundedStep(step, Bounds(self._columns_since(step.store, min(step.adds.relations), join, users), before))

    def _columns_since(self, key: StoreKey, relation: Relation, join: SubJoin, users: list[Query]) -> int:
        """The arrival since which a base store has the columns that are needed of the relation; 0 where no stored row is older.

        A path for a single query needs all columns that the query names; a path into a MIR needs those that decide which rows the MIR has.
        """
        is_query = len(users) == 1 and users[0].join.relations == join.relations
        attributes = query_attributes(users[0]) if is_query else join_attributes(join)
        needed = {a.column for a in attributes if a.relation == relation}
        store = store_id(key)
        columns = self.visibility.columns.get(store, {})
        since = max((columns.get(column, 0) for column in needed), default=0)
        return since if self._has_older_rows(store, since) else 0

    def _has_older_rows(self, store: str, arrival: int) -> bool:
        """Whether the store holds a row that arrived before `arrival`."""
        return self.visibility.oldest.get(store, NEVER) < arrival

    def _into_mir(self, step: Step, bound: frozenset[Relation], join: SubJoin, users: list[Query]) -> list[_Path]:
        """The alternatives for a step into an intermediate store: the store, its parts, or each for some of the rows."""
        since = self._mir_since(step.store, users)
        if since == NEVER:
            return [self._over_parts(step.store, bound, join, users, None)]
        parts = [_base_store(step.store, relation) for relation in step.adds.relations]
        if not all(self._has_older_rows(store_id(key), since) for key in parts):
            return [(_BoundedStep(step, UNBOUNDED),)]
        over_store: _Path = (_BoundedStep(step, Bounds(since)),)
        over_parts = self._over_parts(step.store, bound, join, users, since)
        if any(bounds.before is not None and bounds.since >= bounds.before for _, bounds in over_parts):
            return [over_store]  # no row can satisfy the bounds of the other path
        return [over_store, over_parts]

    def _mir_since(self, key: StoreKey, users: list[Query]) -> int:
        """The arrival since which an intermediate store has all rows and columns that its users need; NEVER where it never will."""
        introduced = self.visibility.introduced.get(store_id(key), 0)
        for query in users:
            for relation in _join(key).relations:
                base = _base_store(key, relation)
                for_query = self._columns_since(base, relation, query.join, [query])
                if for_query > self._columns_since(base, relation, _join(key), []):
                    return NEVER  # new rows, too, are built from older parts, which lack a column that this query needs
        added = [at for query in users if (at := self.visibility.added.get(query.name, 0)) > introduced]
        return max([0 if store_id(key) in self.visibility.filled else introduced, *added])

    def _over_parts(self, key: StoreKey, bound: frozenset[Relation], join: SubJoin, users: list[Query], before: int | None) -> _Path:
        """Probes the base stores of an intermediate store's relations one after the other, those first that need no broadcast."""
        path: _Path = ()
        remaining = set(_join(key).relations - bound)
        while remaining:
            candidates = [c for relation in sorted(remaining) for c in self._candidates(key, relation, bound, join)]
            best = min(candidates, key=lambda candidate: (candidate.rank, candidate.relation))
            step = Step(_base_store(key, best.relation), best.layout, join.sub([best.relation]), 0.0, 1, False, 0.0)
            path += (self._into_base(step, join, users, before),)
            bound |= {best.relation}
            remaining.remove(best.relation)
        return path

    def _candidates(self, key: StoreKey, relation: Relation, bound: frozenset[Relation], join: SubJoin) -> list[_Candidate]:
        """The ways to probe one relation, one per layout of its base store."""
        adds = join.sub([relation])
        linking = [c for c in join.classes if any(a.relation in bound for a in c) and any(a.relation == relation for a in c)]
        candidates = []
        for layout in self.layouts[_base_store(key, relation)]:
            target = partition_attribute(layout, adds)
            is_addressed = layout == ALL or any(target in equal for equal in linking)
            candidates.append(_Candidate(2 if not linking else 0 if is_addressed else 1, relation, layout))
        return candidates


def _base_store(key: StoreKey, relation: Relation) -> StoreKey:
    """The base store of one relation of an intermediate store, of the same owner."""
    return StoreKey(relation.stream, None, key.owner)


def _join(key: StoreKey) -> SubJoin:
    if key.join is None:
        raise AssertionError(f"{key} is no intermediate store")
    return key.join
