"""Random valid plans: any probe orders, any intermediate results, any layouts; what is exact must be so under each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from random import Random

import pyarrow as pa

from clash.columnar.slots import key_hashes
from clash.expressions import arrow_type
from clash.model.layout import ALL, ONE, Layout
from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.model.types import is_atomic
from clash.optimizer import Plan, validate
from clash.plan.logical import ProbeOrder, Step, StoreKey, StorePlan
from clash.planner.hulls import find_hulls

from .schemas import values_of

Links = frozenset[frozenset[Relation]]


def random_plan(rng: Random, base: Plan, alone: float | None = None) -> Plan:
    """The queries of `base` under another plan. `alone`: how many of them have stores of their own; drawn if not given."""
    drawn = _Drawn(rng, base, alone)
    plan = replace(base, probe_orders=tuple(drawn.orders()), stores=drawn.stores(), cost=0.0, bound=0.0, optimal=False)
    plan = replace(plan, rounds=plan.topology.rounds)
    validate(plan)
    return plan


class _Drawn:
    def __init__(self, rng: Random, base: Plan, alone: float | None) -> None:
        self.rng, self.queries, self.streams, self.workers = rng, base.queries, base.streams, base.workers
        alone = rng.choice([0.0, 0.0, 0.3, 1.0]) if alone is None else alone
        self.owner = {query.name: query.name if rng.random() < alone else None for query in self.queries}
        self.many = rng.choice([0.0, 0.0, 0.4])
        self.layouts: dict[StoreKey, tuple[Layout, ...]] = {}
        share = rng.choice([0.0, 0.3, 0.7])
        # in a fixed order: a set of them has another one in each process
        self.mirs = [key for key in sorted(self._candidates(), key=_order) if rng.random() < share]
        self.feeding: list[StoreKey] = []
        self.hot = Random(hash(rng.getstate()))  # of its own, so that the other choices of a seed do not depend on it
        self.skewed = self.hot.choice([0.0, 0.7])
        hulls = find_hulls(query for query in self.queries if self.owner[query.name] is None)
        if hulls and rng.random() < 0.2:
            hulls = []
        refined = {q.name: [h.join for h in hulls if self.owner[q.name] is None and q.join.is_within(h.join)] for q in self.queries}
        # per query and origin: some of the orders of a query may go over one hull, others over none or another one
        self.hulls = {
            (q.name, origin): rng.choice(refined[q.name]) if refined[q.name] and rng.random() < 0.8 else q.join
            for q in self.queries
            for origin in sorted(q.streams)
        }
        self.mirs += [key for key in sorted(self._candidates_of_hulls(), key=_order) if key not in self.mirs and rng.random() < share]

    def _candidates(self) -> set[StoreKey]:
        found = set()
        for query in self.queries:
            relations = sorted(query.streams)  # no intermediate result has a table
            for size in range(2, min(len(relations) + 1, len(query.join.relations))):
                for some in combinations(relations, size):
                    join = query.join.sub(some)
                    if _connected(join, query.links):
                        found.add(StoreKey(None, join, self.owner[query.name]))
        return found

    def _candidates_of_hulls(self) -> set[StoreKey]:
        found = set()
        for query in self.queries:
            relations = sorted(query.streams)
            for join in {self.hulls[query.name, origin] for origin in relations} - {query.join}:
                for size in range(2, min(len(relations) + 1, len(join.relations))):
                    parts = (join.sub(some) for some in combinations(relations, size))
                    found |= {StoreKey(None, part) for part in parts if _connected(part, query.links)}
        return found

    def orders(self) -> Iterator[ProbeOrder]:
        for query in self.queries:
            for origin in sorted(query.streams):
                join = self.hulls[query.name, origin]
                steps = self._steps(join, origin, self.owner[query.name], query.links, self.mirs)
                yield ProbeOrder(origin, join.sub([origin]), steps, (query.name,), hull=None if join == query.join else join)
        if self.mirs and self.rng.random() < 0.2:  # one that is kept for nobody yet
            self._use(self.rng.choice(self.mirs))
        for key in self.feeding:  # grows while smaller ones are asked for
            assert key.join is not None
            inner = [m for m in self.mirs if m.join is not None and m.join.relations < key.join.relations]
            links = frozenset(link for query in self.queries if query.refines(key.join) for link in query.links)
            for origin in sorted(key.join.relations):
                yield ProbeOrder(origin, key.join.sub([origin]), self._steps(key.join, origin, key.owner, links, inner), (), key)

    def stores(self) -> tuple[StorePlan, ...]:
        return tuple(StorePlan(key, layouts, 0.0, 0.0) for key, layouts in sorted(self.layouts.items(), key=lambda item: _order(item[0])))

    def _steps(self, join: SubJoin, origin: Relation, owner: str | None, links: Links, mirs: list[StoreKey]) -> tuple[Step, ...]:
        steps: list[Step] = []
        bound, todo = frozenset([origin]), join.relations - {origin}
        while todo:
            usable = [m for m in mirs if m.join is not None and m.owner == owner and m.join.relations <= todo]
            kept = [m for m in usable if m.join == join.sub(m.join.relations)]  # type: ignore[union-attr]
            choice = [(StoreKey(r.stream, None, owner), frozenset([r])) for r in sorted(todo)]
            choice += [(m, m.join.relations) for m in kept if m.join is not None] * 2
            near = [(key, adds) for key, adds in choice if _keyed(join, bound, adds)]
            crossed = [(key, adds) for key, adds in choice if any(link & bound and link & adds for link in links)]
            key, adds = self.rng.choice(near + crossed if crossed and self.rng.random() < 0.3 else near or crossed)
            layout = self.rng.choice(self._use(key))
            steps.append(Step(key, layout, join.sub(adds), 0.0, self._places(join, bound, adds, layout), self.rng.random() < 0.5, 0.0))
            bound, todo = bound | adds, todo - adds
        return tuple(steps)

    def _places(self, join: SubJoin, bound: frozenset[Relation], adds: frozenset[Relation], layout: Layout) -> int:
        if layout.kind != "hash":
            return 1
        inside = adds if layout.relation is None else {layout.relation}
        known = any(a.column == layout.column and a.relation in inside for equal in _links(join, bound, adds) for a in equal)
        return 1 if known else self.workers

    def _use(self, key: StoreKey) -> tuple[Layout, ...]:
        if key not in self.layouts:
            count = 2 if self.rng.random() < self.many else 1
            self.layouts[key] = tuple(dict.fromkeys(self._with_hot_keys(key, self._layout(key)) for _ in range(count)))
            if key.join is not None:
                self.feeding.append(key)
        return self.layouts[key]

    def _layout(self, key: StoreKey) -> Layout:
        kind = self.rng.choice(["one", "all", "arrival", "hash", "hash", "key", "key", "key", "key"])
        if kind in ("one", "all"):
            return ONE if kind == "one" else ALL
        if kind == "arrival":
            return Layout("hash")
        found: list[Layout] = []
        for query in self.queries:
            if key.owner not in (None, query.name):
                continue
            if key.join is not None:
                # only what leads outside, and of a class its smallest member, surely travels to where the rows are completed
                if query.refines(key.join):
                    ends = [[a for a in equal if a.relation in key.join.relations] for equal in query.join.classes]
                    ends = [end for end, equal in zip(ends, query.join.classes, strict=True) if end and len(end) < len(equal)]
                    found += [Layout("hash", a.column, a.relation) for a in sorted(map(min, ends))]
                continue
            for relation in sorted(r for r in query.join.relations if r.stream == key.stream):
                keys = {a.column for equal in query.join.classes for a in equal if a.relation == relation}
                columns = sorted(keys) if kind == "key" else _hashable(self.streams[relation.stream])
                found += [Layout("hash", column) for column in columns]
        return self.rng.choice(found) if found else ONE

    def _with_hot_keys(self, key: StoreKey, layout: Layout) -> Layout:
        """At times some of the values that the partitioning column may have are spread."""
        if layout.column is None or self.hot.random() >= self.skewed:
            return layout
        stream = self.streams[str(key.stream) if layout.relation is None else layout.relation.stream]
        kind = stream.type_of(layout.column)
        if stream.is_table or kind is None:
            return layout
        return layout._replace(hot=tuple(sorted(one for one in _hashes(kind) if self.hot.random() < 0.6)))


@lru_cache
def _hashes(kind: str) -> list[int]:
    """The hashes of the values that a column of the type may have."""
    try:
        values = pa.array(values_of(kind), arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return []
    return sorted({int(one) for one in key_hashes(values, "UTC")[0]})


def _hashable(stream: Stream) -> list[str]:
    return [name for name, kind in stream.columns if is_atomic(kind)]


def _links(join: SubJoin, bound: frozenset[Relation], adds: frozenset[Relation]) -> list[frozenset[tuple[Relation, str]]]:
    return [equal for equal in join.classes if any(a.relation in bound for a in equal) and any(a.relation in adds for a in equal)]


def _keyed(join: SubJoin, bound: frozenset[Relation], adds: frozenset[Relation]) -> bool:
    return bool(_links(join, bound, adds))


def _connected(join: SubJoin, links: Links) -> bool:
    seen, todo = {min(join.relations)}, True
    while todo:
        near = {
            r
            for r in join.relations - seen
            if _keyed(join, frozenset(seen), frozenset([r])) or any(link & seen and r in link for link in links)
        }
        seen |= near
        todo = bool(near)
    return seen == join.relations


def _order(key: StoreKey) -> tuple[str, str]:
    """StoreKeys have no order of their own; frozensets print in another order in each process."""
    if key.join is None:
        return str(key.owner), str(key.stream)
    parts = (key.join.relations, *key.join.classes, key.join.filters, key.join.residuals, key.join.windows)
    return f"{key.owner}~", " ".join(sorted(str(sorted(map(str, part))) for part in parts))
