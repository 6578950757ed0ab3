"""From a history to what the planner takes.

Sizes are of what windows hold now. Where real probes were counted, an estimate is corrected by what they found over what it would have
had the same tuples find; where it says next to nothing and probes found many, these alone count. A change in the newest epoch is
followed at once (`clash.statistics.epoch_drift`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.model.statistics import MOST, Statistics
from clash.model.stream import Stream
from clash.statistics.history import History
from clash.statistics.join_sizes import Estimate, Joins
from clash.statistics.probe_feedback import size_key
from clash.statistics.key_pairs import pair
from clash.statistics.join_shape import Shape, shape_of
from clash.statistics.stream_view import View
from clash.statistics.collection_spec import Column, Wanted, wanted

LARGEST = 5  # relations of a sub-join whose size is told
LEAST = 0.1  # rows: an estimate is never sure of nothing
SMOOTH = 3.0  # results that weigh as much as what was found
ENOUGH = 30  # results by which probes alone are believed


def estimate(history: History, queries: Iterable[Query], streams: Mapping[str, Stream], most: int = 300) -> Statistics:
    """Rates, shares of predicates and of equalities, and sizes of the queries' sub-joins, at most `most` of them, small ones first."""
    queries = tuple(queries)
    want = wanted(queries, streams)
    views = history.views(streams)
    selectivities = _predicates(views, want)
    for left, right in want.links:
        share = _share(history, views, want, left, right)
        if share is not None:
            selectivities[f"{'.'.join(left)} = {'.'.join(right)}"] = share
    now = _Now(history, want, streams, views, history.newest(streams))
    sizes: dict[tuple[str, ...], float] = {}
    for count in range(2, LARGEST + 1):
        for query in queries:
            if len(sizes) < most:
                now.sizes(query, count, sizes)
    sizes = dict(itertools.islice(sizes.items(), most))
    return Statistics(rates={name: view.rows for name, view in views.items()}, selectivities=selectivities, sizes=sizes)


def _predicates(views: Mapping[str, View], want: Wanted) -> dict[str, float]:
    found = {}
    for stream, of in want.streams.items():
        for predicate in of.predicates:
            share = views[stream].share(str(predicate)) if stream in views else None
            if share is not None:
                found[str(predicate)] = share
    return found


def _share(history: History, views: Mapping[str, View], want: Wanted, left: Column, right: Column) -> float | None:
    """The share of pairs that match."""
    keys = want.key(*left), want.key(*right)
    if keys[0] is None or keys[1] is None or left[0] not in views or right[0] not in views:
        return None
    one, other = views[left[0]], views[right[0]]
    size = pair(one, str(keys[0]), other, str(keys[1]))
    if size is None or one.rows * other.rows == 0:
        return None
    return min(1.0, max(LEAST, size.rows * history.drift.factor(left, right)) / (one.rows * other.rows))


@dataclass
class _Now:
    history: History
    want: Wanted
    streams: Mapping[str, Stream]
    views: Mapping[str, View]
    newest: Mapping[str, View]
    _shapes: dict[str, Shape | None] = field(default_factory=dict)
    _joins: dict[tuple[str, Relation | None], Joins] = field(default_factory=dict)  # None: of what the windows hold

    def sizes(self, query: Query, count: int, found: dict[tuple[str, ...], float]) -> None:
        """Adds the sub-joins of so many relations that are not there yet; with residuals only where probes tell."""
        if query.name not in self._shapes:
            self._shapes[query.name] = shape_of(query.join, self.want, self.streams)
        shape = self._shapes[query.name]
        if shape is None or any(r.stream not in self.views for r in shape.relations):
            return
        for some in itertools.combinations(shape.relations, count):
            part = frozenset(some)
            if not shape.connected(part):
                continue
            join = query.join.sub(part)
            plain = replace(join, residuals=frozenset())
            for one, estimated in ((plain, self._rows), (join, self._measured)):
                key = size_key(one)
                if key not in found and (rows := estimated(query.name, one, part, shape)) is not None:
                    found[key] = min(MOST, max(LEAST, rows))

    def _size(self, query: str, shape: Shape, part: frozenset[Relation], newest: Relation | None = None) -> Estimate | None:
        """Of what the windows hold; of one relation perhaps the newest epoch alone."""
        if (query, newest) not in self._joins:
            views = {r: (self.newest if r == newest else self.views)[r.stream] for r in shape.relations}
            self._joins[query, newest] = Joins(shape, views)
        return self._joins[query, newest].size(part)

    def _rows(self, query: str, join: SubJoin, part: frozenset[Relation], shape: Shape) -> float | None:
        measured = self._measured(query, join, part, shape)
        if measured is not None:
            return measured
        found = self._size(query, shape, part)
        return None if found is None else found.rows * self._drift(join)

    def _drift(self, join: SubJoin) -> float:
        factor = 1.0
        for equal in join.classes:
            first, *others = sorted(equal)
            for other in others:
                factor *= self.history.drift.factor((first.relation.stream, first.column), (other.relation.stream, other.column))
        return factor

    def _measured(self, query: str, join: SubJoin, part: frozenset[Relation], shape: Shape) -> float | None:
        """By what probes found; None where none were counted, or over other windows than the streams' own."""
        probes = self.history.probes.of(join)
        own = all(r.stream not in self.streams or self.streams[r.stream].window == window for r, window in join.windows)
        if not probes or not own:
            return None
        found = self._size(query, shape, part)
        results, expected, alone = 0.0, 0.0, 0.0
        for relation in part:
            probe = probes.get(str(relation))
            if probe is None or not probe.tuples:
                continue
            of_newest = self._size(query, shape, part, relation)
            whole = self.views[relation.stream].rows
            results += probe.results
            expected += 0.0 if of_newest is None else of_newest.rows * probe.tuples / max(whole, 1e-9)
            alone = max(alone, probe.results * whole / probe.tuples)
        if found is None or (expected < ENOUGH / 3 and results >= ENOUGH):
            return alone if results >= ENOUGH else None
        if join.residuals and not math.isfinite(expected):
            return None
        return found.rows * self._drift(join) * (results + SMOOTH) / (expected + SMOOTH)
