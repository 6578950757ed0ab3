"""The planner's oracle: every plan of a small query set, costed from the definitions.

It shares no code with the planner's graph and programs: it lists probe orders as sequences of (sub-join, layout), follows a tuple along
each of them, adds up the steps (equal prefixes once), stores and rounds, and tries all combinations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache
from operator import itemgetter

from clash.model.layout import ALL, ONE, Layout
from clash.model.query import EqualityClass, Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.planner.cardinalities import Sizes
from clash.planner.cost_model import CostModel
from clash.planner.hulls import find_hulls

Order = tuple[tuple[SubJoin, Layout], ...]
StoreLayouts = dict[SubJoin | str, tuple[Layout, ...]]


class Exhaustive:
    def __init__(
        self, queries: tuple[Query, ...], sizes: Sizes, model: CostModel, mirs: bool, exact: Callable[[EqualityClass], bool]
    ) -> None:
        """`exact`: whether all attributes of the class compare values of one kind, so that equal values have equal hashes."""
        self.queries, self.sizes, self.model, self.mirs, self.exact = queries, sizes, model, mirs, exact
        self.rows = cache(sizes.rows)
        self.joins = {query.join for query in queries}
        self.tables = {relation.stream for query in queries for relation in query.tables}
        self.hulls = find_hulls(queries) if model.full else []
        self.parts = {part for query in (*queries, *self.hulls) for part in self._connected(query)}
        self.order_lists: dict[tuple[SubJoin, Relation], list[tuple[SubJoin, ...]]] = {}

    # ---- sub-joins ------------------------------------------------------------------------------------------
    def _connected(self, query: Query) -> Iterator[SubJoin]:
        relations = sorted(query.join.relations)
        for size in range(1, len(relations) + 1):
            for chosen in itertools.combinations(relations, size):
                if self._reaches(query, frozenset(chosen)):
                    yield query.join.sub(chosen)

    def _reaches(self, query: Query, chosen: frozenset[Relation]) -> bool:
        seen = {min(chosen)}
        while True:
            near = {r for r in chosen - seen if any(self._adjacent(query, r, s) for s in seen)}
            if not near:
                return seen == chosen
            seen |= near

    def _adjacent(self, query: Query, r: Relation, s: Relation) -> bool:
        return any({r, s} <= {a.relation for a in c} for c in query.join.classes) or frozenset((r, s)) in query.links

    def _owner(self, join: SubJoin) -> Query:
        return next(query for query in (*self.queries, *self.hulls) if query.contains(join))

    def _found(self, join: SubJoin, feeds: bool) -> list[SubJoin]:
        """The joins among whose rows those of `join` are."""
        return [join, *(h.join for h in self.hulls if not feeds and h.join != join and join.is_within(h.join))]

    def _origins(self, relations: frozenset[Relation]) -> list[Relation]:
        """Those whose tuples arrive: rows of tables do not."""
        return sorted(relation for relation in relations if relation.stream not in self.tables)

    def _stored(self, query: Query, relation: Relation) -> bool:
        """Whether the query needs a store of the relation: something that arrives may probe it."""
        return relation in query.tables or len(query.streams) > 1

    # ---- layouts --------------------------------------------------------------------------------------------
    def layouts(self, store: SubJoin | str) -> list[Layout]:
        """Hash by any attribute that joins something outside, in any query; under `full` also on one worker and on all."""
        hashes = set()
        for query in (*self.queries, *self.hulls):
            if isinstance(store, str):
                roles = [frozenset([r]) for r in query.join.relations if r.stream == store]
            else:
                roles = [store.relations] if query.contains(store) else []
            for inside in roles:
                for equal in query.join.classes:
                    members = sorted(a for a in equal if a.relation in inside)
                    if members and len(members) < len(equal) and any(a.relation not in inside for a in equal):
                        hashes.add(Layout("hash", members[0].column, None if isinstance(store, str) else members[0].relation))
        hash_layouts = sorted(hashes) or [Layout("hash")]
        if not self.model.full:
            return hash_layouts
        return [*hash_layouts, ONE, ALL] if self.model.workers > 1 else [ONE]

    def store_rows(self, store: SubJoin | str) -> float:
        if not isinstance(store, str):
            return self.rows(store)
        singles = {q.join.sub([r]) for q in self.queries for r in q.join.relations if r.stream == store and self._stored(q, r)}
        hulls = {h.join.sub([r]) for h in self.hulls for r in h.join.relations if r.stream == store}
        return self.sizes.base_store_rows(sorted(singles, key=str), sorted(hulls, key=str))

    # ---- orders ---------------------------------------------------------------------------------------------
    def orders(self, join: SubJoin, origin: Relation) -> list[tuple[SubJoin, ...]]:
        """The paper's algorithm: join any MIR that the head can be joined with, until the head is complete."""
        key = (join, origin)
        if key not in self.order_lists:
            query = self._owner(join)
            inside = [p for p in self.parts if p.relations <= join.relations and query.contains(p) and self._may_be_probed(p)]

            def grow(head: frozenset[Relation]) -> Iterator[tuple[SubJoin, ...]]:
                if head == join.relations:
                    yield ()
                    return
                for part in inside:
                    if not part.relations & head and any(self._adjacent(query, r, s) for r in head for s in part.relations):
                        for rest in grow(head | part.relations):
                            yield (part, *rest)

            self.order_lists[key] = sorted(grow(frozenset([origin])), key=str)
        return self.order_lists[key]

    def _may_be_probed(self, part: SubJoin) -> bool:
        """No intermediate result has a table."""
        return len(part.relations) == 1 or (self.mirs and len(self._origins(part.relations)) == len(part.relations))

    # ---- the path of one tuple ------------------------------------------------------------------------------
    def follow(self, join: SubJoin, origin: Relation, order: Order, own: Layout | None) -> Iterator[tuple[object, float, int, SubJoin]]:
        """(identity of the step, its cost, whether it is a hop, what it probes) for each step; the tuple starts where `own` places it."""
        model, placement = self.model, self._home(origin, own)
        bound = frozenset([origin])
        prefix: tuple[object, ...] = (join.sub(bound), origin)
        for i, (part, layout) in enumerate(order):
            head = join.sub(bound | part.relations)
            attribute = self._attribute(layout, part)
            known = any(attribute in c and any(a.relation in bound for a in c) for c in head.classes)
            stays = model.workers == 1 or self._stays(placement, layout, attribute, i, head)
            before = join.sub(bound)
            cost = model.step(
                layout, self.rows(before) / len(self._origins(bound)), known or layout.kind != "hash", stays, placement == "every"
            )
            if layout == ONE:
                placement = "one"
            elif layout != ALL:
                placement = attribute
            elif placement is None:
                placement = "somewhere"
            bound |= part.relations
            prefix = (*prefix, part, layout, head)
            yield prefix, cost, int(not stays and i > 0), part
        self.placement_after = placement

    def _home(self, origin: Relation, own: Layout | None) -> object:
        if own is None or not self.model.full or self.model.workers == 1:
            return None
        if own == ONE:
            return "one"
        if own == ALL:
            return "every"
        return Attribute(origin, own.column) if own.kind == "hash" and own.column is not None else None

    def _attribute(self, layout: Layout, part: SubJoin) -> Attribute | None:
        if layout.kind != "hash" or layout.column is None:
            return None
        return Attribute(layout.relation or min(part.relations), layout.column)

    def _stays(self, placement: object, layout: Layout, attribute: Attribute | None, i: int, head: SubJoin) -> bool:
        if placement == "every":
            return True
        if layout == ALL:
            return i > 0 or placement is not None
        if layout == ONE:
            return placement == "one"
        return isinstance(placement, Attribute) and any(placement in c and attribute in c and self.exact(c) for c in head.classes)

    # ---- all plans ------------------------------------------------------------------------------------------
    def best(self, below: float = math.inf) -> float:
        """The least cost of all plans; infinite if no plan costs less than `below`, which prunes most of the search."""
        streams = sorted({r.stream for q in self.queries for r in q.join.relations if self._stored(q, r)})
        needs = [(join, origin, False) for join in sorted(self.joins, key=str) for origin in self._origins(join.relations)]
        always = self.model.round_cost + self._ahead(needs, {})
        self.least = below
        for layouts, spent in self._base_layouts(streams, {}, always):
            self._assign(needs, {}, layouts, {}, spent - always + self.model.round_cost)
        return self.least if self.least < below else math.inf

    def _base_layouts(self, streams: list[str], chosen: StoreLayouts, spent: float) -> Iterator[tuple[StoreLayouts, float]]:
        """All layouts of all base stores, except those that cost too much whatever the rest of the plan is."""
        if not streams:
            yield chosen, spent
            return
        stream, *rest = streams
        least = sum(min(self._store_cost(other, layouts) for layouts in self._choices(other)) for other in rest)
        for cost, layouts in sorted(((self._store_cost(stream, c), c) for c in self._choices(stream)), key=itemgetter(0)):
            if spent + cost + least >= self.least:
                return
            yield from self._base_layouts(rest, {**chosen, stream: layouts}, spent + cost)

    def _ahead(self, needs, paid) -> float:  # type: ignore[no-untyped-def]
        """What must still be paid at least: a first step for every tuple that has none yet."""
        started = {key[0] for key, _ in paid}
        roots = {
            join.sub([origin]) for join, origin, feeds in needs if len(join.relations) > 1 and len(self._found(join, feeds)) == 1
        } - started
        return sum(self.rows(root) for root in roots) * (self.model.weights.probe if self.model.full else 1.0)

    def _choices(self, store: SubJoin | str) -> list[tuple[Layout, ...]]:
        candidates = self.layouts(store)
        if self.model.layouts == "one" or (self.model.full and not isinstance(store, str)):
            return [(layout,) for layout in candidates]  # a MIR is kept under one layout: further copies would have to be fed
        sets = itertools.chain.from_iterable(itertools.combinations(candidates, n) for n in range(1, len(candidates) + 1))
        return [tuple(candidates)] if not self.model.full else list(sets)

    def _store_cost(self, store: SubJoin | str, layouts: tuple[Layout, ...]) -> float:
        if store in self.tables:
            return sum(self.model.table(layout, self.store_rows(store)) for layout in layouts)
        width = 1 if isinstance(store, str) else len(store.relations)
        return sum(self.model.store(layout, self.store_rows(store), width, not isinstance(store, str)) for layout in layouts)

    def _assign(self, needs, chosen, layouts, paid, spent) -> None:  # type: ignore[no-untyped-def]
        """Give the next need an order, in every way; `paid` are the steps that the plan has already."""
        if spent + self._ahead(needs, paid) >= self.least:
            return
        if not needs:
            cost = spent
            if self.model.round_cost:
                cost += self.model.round_cost * (self._rounds(chosen) - 1)
            self.least = min(self.least, cost)
            return
        (join, origin, feeds), *rest = needs
        alternatives = [(whole, order) for whole in self._found(join, feeds) for order in self.orders(whole, origin)]
        for found, order in alternatives:
            check = 0.0 if found == join else self.model.check(self.rows(found) / len(self._origins(found.relations)))
            for decorated, own, more_layouts, more_spent in self._decorate(origin, order, layouts):
                steps = list(self.follow(found, origin, decorated, own))
                placement = self.placement_after
                if placement == "every" and not (feeds and ALL in more_layouts[join]):
                    continue  # every worker would answer
                new_paid = dict(paid)
                cost = spent + more_spent + check
                for key, step_cost, _, _ in steps:
                    if (key, own) not in new_paid:
                        new_paid[key, own] = step_cost
                        cost += step_cost
                extra = 0
                if feeds and self.model.full:
                    options = [
                        self._feed(placement, layout, join) for layout in more_layouts[join] if placement != "every" or layout == ALL
                    ]
                    feed, extra = min(options)
                    cost += feed
                more = [
                    (part, r, True)
                    for part, _ in decorated
                    if len(part.relations) > 1 and part not in layouts
                    for r in sorted(part.relations)
                ]
                hops = tuple((hop, part) for _, _, hop, part in steps)
                self._assign([*rest, *more], {**chosen, (join, origin, feeds): (hops, extra)}, more_layouts, new_paid, cost)

    def _feed(self, placement: object, layout: Layout, join: SubJoin) -> tuple[float, int]:
        stays = self.model.workers == 1 or (layout == ONE and placement == "one") or (layout == ALL and placement == "every")
        if layout.kind == "hash" and isinstance(placement, Attribute) and self.model.workers > 1:
            at = Attribute(layout.relation or min(join.relations), layout.column or "")
            stays = placement == at or any(placement in c and at in c and self.exact(c) for c in join.classes)
        return self.model.feed(layout, self.rows(join) / len(join.relations), stays), 0 if stays else 1

    def _decorate(self, origin, order, layouts):  # type: ignore[no-untyped-def]
        """All layouts for the order's steps; a MIR that is new is kept under any set of layouts."""
        new = [p for p in order if len(p.relations) > 1 and p not in layouts]
        for choice in itertools.product(*(self._choices(part) for part in new)):
            all_layouts = {**layouts, **dict(zip(new, choice, strict=True))}
            spent = sum(self._store_cost(part, chosen) for part, chosen in zip(new, choice, strict=True))
            pools = [all_layouts[part if len(part.relations) > 1 else min(part.relations).stream] for part in order]
            owns = all_layouts.get(origin.stream, (None,)) if self.model.full and order else (None,)
            owns = (*owns, None) if ALL in owns else owns  # a tuple of a replicated store need not start on every worker
            for own in owns:
                for decorated in itertools.product(*pools):
                    yield tuple(zip(order, decorated, strict=True)), own, all_layouts, spent

    def _rounds(self, chosen) -> int:  # type: ignore[no-untyped-def]
        @cache
        def arrive(need: tuple[SubJoin, Relation, bool]) -> int:
            hops, extra = chosen[need]
            at = 1
            for hop, part in hops:
                at += hop
                if len(part.relations) > 1:
                    at = max(at, *(arrive((part, r, True)) for r in part.relations))
            return at + extra

        return max(map(arrive, chosen))
