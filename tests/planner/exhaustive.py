"""The planner's oracle: every plan of a small query set, costed from the definitions.

It knows nothing of graphs, arcs or programs: it lists probe orders as sequences of (sub-join, layout), follows each one tuple's
way, adds up steps that are equal (same prefix), stores and rounds, and tries all combinations.
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
from clash.planner.cost_model import CostModel
from clash.planner.cardinalities import Sizes

Order = tuple[tuple[SubJoin, Layout], ...]
Kept = dict[SubJoin | str, tuple[Layout, ...]]


class Exhaustive:
    def __init__(
        self, queries: tuple[Query, ...], sizes: Sizes, model: CostModel, mirs: bool, exact: Callable[[EqualityClass], bool]
    ) -> None:
        """`exact`: does the class compare values of one kind, so that equal ones have one hash?"""
        self.queries, self.sizes, self.model, self.mirs, self.exact = queries, sizes, model, mirs, exact
        self.rows = cache(sizes.rows)
        self.joins = {query.join for query in queries}
        self.parts = {part for query in queries for part in self._connected(query)}
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
        return next(query for query in self.queries if query.contains(join))

    # ---- layouts --------------------------------------------------------------------------------------------
    def layouts(self, what: SubJoin | str) -> list[Layout]:
        """Hash by any attribute that joins something outside, in any query; under `full` also on one worker and on all."""
        hashes = set()
        for query in self.queries:
            if isinstance(what, str):
                roles = [frozenset([r]) for r in query.join.relations if r.stream == what]
            else:
                roles = [what.relations] if query.contains(what) else []
            for inside in roles:
                for equal in query.join.classes:
                    members = sorted(a for a in equal if a.relation in inside)
                    if members and len(members) < len(equal) and any(a.relation not in inside for a in equal):
                        hashes.add(Layout("hash", members[0].column, None if isinstance(what, str) else members[0].relation))
        found = sorted(hashes) or [Layout("hash")]
        if not self.model.full:
            return found
        return [*found, ONE, ALL] if self.model.workers > 1 else [ONE]

    def store_rows(self, what: SubJoin | str) -> float:
        if not isinstance(what, str):
            return self.rows(what)
        singles = {q.join.sub([r]) for q in self.queries if len(q.join.relations) > 1 for r in q.join.relations if r.stream == what}
        return self.sizes.kept(what, sorted(singles, key=str))

    # ---- orders ---------------------------------------------------------------------------------------------
    def orders(self, join: SubJoin, origin: Relation) -> list[tuple[SubJoin, ...]]:
        """The paper's algorithm: join any MIR that the head can be joined with, until the head is complete."""
        key = (join, origin)
        if key not in self.order_lists:
            query = self._owner(join)
            inside = [p for p in self.parts if p.relations <= join.relations and query.contains(p) and (self.mirs or len(p.relations) == 1)]

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

    # ---- one tuple's way ------------------------------------------------------------------------------------
    def follow(self, join: SubJoin, origin: Relation, order: Order, own: Layout | None) -> Iterator[tuple[object, float, int, SubJoin]]:
        """(identity of the step, its cost, whether it is a hop, what it probes) for each step, the tuple starting where `own` puts it."""
        model, place = self.model, self._home(origin, own)
        bound = frozenset([origin])
        prefix: tuple[object, ...] = (join.sub(bound), origin)
        for i, (part, layout) in enumerate(order):
            head = join.sub(bound | part.relations)
            attribute = self._attribute(layout, part)
            known = any(attribute in c and any(a.relation in bound for a in c) for c in head.classes)
            stays = model.workers == 1 or self._stays(place, layout, attribute, i, head)
            before = join.sub(bound)
            cost = model.step(layout, self.rows(before) / len(bound), known or layout.kind != "hash", stays, place == "every")
            if layout == ONE:
                place = "one"
            elif layout != ALL:
                place = attribute
            elif place is None:
                place = "somewhere"
            bound |= part.relations
            prefix = (*prefix, part, layout, head)
            yield prefix, cost, int(not stays and i > 0), part
        self.place_after = place

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

    def _stays(self, place: object, layout: Layout, attribute: Attribute | None, i: int, head: SubJoin) -> bool:
        if place == "every":
            return True
        if layout == ALL:
            return i > 0 or place is not None
        if layout == ONE:
            return place == "one"
        return isinstance(place, Attribute) and any(place in c and attribute in c and self.exact(c) for c in head.classes)

    # ---- all plans ------------------------------------------------------------------------------------------
    def best(self, below: float = math.inf) -> float:
        """The least cost of all plans; infinite if no plan costs less than `below`, which spares most of the looking."""
        streams = sorted({r.stream for q in self.queries if len(q.join.relations) > 1 for r in q.join.relations})
        needs = [(join, origin, False) for join in sorted(self.joins, key=str) for origin in sorted(join.relations)]
        always = self.model.round_cost + self._ahead(needs, {})
        self.least = below
        for layouts, spent in self._kept(streams, {}, always):
            self._assign(needs, {}, layouts, {}, spent - always + self.model.round_cost)
        return self.least if self.least < below else math.inf

    def _kept(self, streams: list[str], held: Kept, spent: float) -> Iterator[tuple[Kept, float]]:
        """All layouts of all base stores, but for those that cost too much whatever is made of them."""
        if not streams:
            yield held, spent
            return
        stream, *rest = streams
        least = sum(min(self._keep(other, chosen) for chosen in self._choices(other)) for other in rest)
        for cost, chosen in sorted(((self._keep(stream, c), c) for c in self._choices(stream)), key=itemgetter(0)):
            if spent + cost + least >= self.least:
                return
            yield from self._kept(rest, {**held, stream: chosen}, spent + cost)

    def _ahead(self, needs, paid) -> float:  # type: ignore[no-untyped-def]
        """What is still to be paid at least: a first step for every tuple that has none yet."""
        started = {key[0] for key, _ in paid}
        roots = {join.sub([origin]) for join, origin, _ in needs if len(join.relations) > 1} - started
        return sum(self.rows(root) for root in roots) * (self.model.weights.probe if self.model.full else 1.0)

    def _choices(self, what: SubJoin | str) -> list[tuple[Layout, ...]]:
        candidates = self.layouts(what)
        if self.model.layouts == "one" or (self.model.full and not isinstance(what, str)):
            return [(layout,) for layout in candidates]  # a MIR is kept under one layout: further copies would have to be fed
        sets = itertools.chain.from_iterable(itertools.combinations(candidates, n) for n in range(1, len(candidates) + 1))
        return [tuple(candidates)] if not self.model.full else list(sets)

    def _keep(self, what: SubJoin | str, held: tuple[Layout, ...]) -> float:
        width = 1 if isinstance(what, str) else len(what.relations)
        return sum(self.model.store(layout, self.store_rows(what), width, not isinstance(what, str)) for layout in held)

    def _assign(self, needs, chosen, layouts, paid, spent) -> None:  # type: ignore[no-untyped-def]
        """Give the next need an order, in every way; `paid` are the steps that run already."""
        if spent + self._ahead(needs, paid) >= self.least:
            return
        if not needs:
            cost = spent
            if self.model.round_cost:
                cost += self.model.round_cost * (self._rounds(chosen) - 1)
            self.least = min(self.least, cost)
            return
        (join, origin, feeds), *rest = needs
        for order in self.orders(join, origin):
            yield_from = self._decorate(join, origin, order, feeds, layouts)
            for decorated, own, more_layouts, more_spent in yield_from:
                steps = list(self.follow(join, origin, decorated, own))
                place = self.place_after
                if place == "every" and not (feeds and ALL in more_layouts[join]):
                    continue  # every worker would answer
                new_paid = dict(paid)
                cost = spent + more_spent
                for key, step_cost, _, _ in steps:
                    if (key, own) not in new_paid:
                        new_paid[key, own] = step_cost
                        cost += step_cost
                extra = 0
                if feeds and self.model.full:
                    options = [self._feed(place, layout, join) for layout in more_layouts[join] if place != "every" or layout == ALL]
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

    def _feed(self, place: object, layout: Layout, join: SubJoin) -> tuple[float, int]:
        stays = self.model.workers == 1 or (layout == ONE and place == "one") or (layout == ALL and place == "every")
        if layout.kind == "hash" and isinstance(place, Attribute) and self.model.workers > 1:
            at = Attribute(layout.relation or min(join.relations), layout.column or "")
            stays = place == at or any(place in c and at in c and self.exact(c) for c in join.classes)
        return self.model.feed(layout, self.rows(join) / len(join.relations), stays), 0 if stays else 1

    def _decorate(self, join, origin, order, feeds, layouts):  # type: ignore[no-untyped-def]
        """All layouts for the order's steps; a MIR that is new is kept under any set of layouts."""
        new = [p for p in order if len(p.relations) > 1 and p not in layouts]
        for kept in itertools.product(*(self._choices(part) for part in new)):
            held = {**layouts, **dict(zip(new, kept, strict=True))}
            spent = sum(self._keep(part, chosen) for part, chosen in zip(new, kept, strict=True))
            pools = [held[part if len(part.relations) > 1 else min(part.relations).stream] for part in order]
            owns = held.get(origin.stream, (None,)) if self.model.full and order else (None,)
            owns = (*owns, None) if ALL in owns else owns  # a tuple of a replicated store need not go along with its copies
            for own in owns:
                for decorated in itertools.product(*pools):
                    yield tuple(zip(order, decorated, strict=True)), own, held, spent

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
