"""From a history to the statistics that the planner takes.

Sizes are of what windows have now. Where probes were counted, an estimate is corrected by the results that they found over the results that
the estimate would have expected of the same tuples; where it expects next to nothing and probes found many, the probes alone count. A
change in the newest epoch is followed at once (`clash.statistics.epoch_drift`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.model.statistics import MOST, Statistics, column_text
from clash.model.stream import Stream
from clash.plan.collection_spec import CollectionSpec, Column, build_collection_spec
from clash.statistics.collected import Collected
from clash.statistics.history import StatisticsHistory
from clash.statistics.join_shape import JoinShape, shape_of
from clash.statistics.join_sizes import Estimate, JoinSizes
from clash.statistics.key_pairs import pair_size
from clash.statistics.probe_feedback import size_key
from clash.statistics.stream_view import StreamView, build_view

NOTHING = Collected()
MAX_RELATIONS = 5  # of a sub-join whose size is estimated
MIN_COUNT = 8  # tuples of a frequent key: fewer may be chance
MIN_HOTTEST = 1 / 32  # of the tuples, for keys of a column to be listed: below that no worker has much more than others
MIN_ROWS = 0.1  # an estimate is never certain that a join is empty
PRIOR_RESULTS = 3.0  # results, both expected and found, that draw a correction towards none
MIN_RESULTS = 30  # by which probes alone are believed
MIN_EXPECTED = 10  # results; if an estimate expects fewer, it cannot be corrected by a factor


def estimate(
    history: StatisticsHistory, queries: Iterable[Query], streams: Mapping[str, Stream], max_sizes: int = 300, tables: Collected = NOTHING
) -> Statistics:
    """Rates, selectivities of predicates and equalities, and sizes of at most `max_sizes` sub-joins of the queries, small joins first.
    `tables`: what was counted of the rows that tables have now."""
    queries = tuple(queries)
    spec = build_collection_spec(queries, streams)
    of_tables = {name: build_view(name, [(tables, 1.0)]) for name in tables.streams}
    views = {**history.views(streams), **of_tables}
    selectivities = _predicate_selectivities(views, spec)
    for left, right in spec.links:
        share = _matching_share(history, views, spec, left, right)
        if share is not None:
            selectivities[f"{column_text(*left)} = {column_text(*right)}"] = share
    estimator = _SizeEstimator(history, spec, streams, views, {**history.newest(streams), **of_tables})
    sizes: dict[tuple[str, ...], float] = {}
    for relations in range(2, MAX_RELATIONS + 1):
        for query in queries:
            if len(sizes) < max_sizes:
                estimator.add_sizes(query, relations, sizes)
    sizes = dict(itertools.islice(sizes.items(), max_sizes))
    rates = {name: view.rows for name, view in views.items()}
    return Statistics(rates=rates, selectivities=selectivities, sizes=sizes, frequent=_frequent_keys(views, spec))


def _frequent_keys(views: Mapping[str, StreamView], spec: CollectionSpec) -> dict[str, dict[int, float]]:
    """By column, the share of tuples that have each of its frequent values. Columns whose most frequent value hardly matters have none."""
    found = {}
    for stream, of_stream in spec.streams.items():
        for column in sorted({key.column for key in of_stream.keys}):
            keys = views[stream].frequent.get(column) if stream in views else None
            if keys is None or not keys.rows:
                continue
            shares = {key: count / keys.rows for key, count in keys.counts.items() if count >= MIN_COUNT}
            if max(shares.values(), default=0.0) >= MIN_HOTTEST:
                found[column_text(stream, column)] = shares
    return found


def _predicate_selectivities(views: Mapping[str, StreamView], spec: CollectionSpec) -> dict[str, float]:
    selectivities = {}
    for stream, of_stream in spec.streams.items():
        for predicate in of_stream.predicates:
            share = views[stream].passing_share(str(predicate)) if stream in views else None
            if share is not None:
                selectivities[str(predicate)] = share
    return selectivities


def _matching_share(
    history: StatisticsHistory, views: Mapping[str, StreamView], spec: CollectionSpec, left: Column, right: Column
) -> float | None:
    """The share of pairs of tuples that match on two columns; None where one of them was not collected."""
    keys = spec.key(*left), spec.key(*right)
    if keys[0] is None or keys[1] is None or left[0] not in views or right[0] not in views:
        return None
    left_view, right_view = views[left[0]], views[right[0]]
    size = pair_size(left_view, str(keys[0]), right_view, str(keys[1]))
    if size is None or left_view.rows * right_view.rows == 0:
        return None
    return min(1.0, max(MIN_ROWS, size.rows * history.drift.factor(left, right)) / (left_view.rows * right_view.rows))


@dataclass
class _SizeEstimator:
    """Sizes of sub-joins at one moment."""

    history: StatisticsHistory
    spec: CollectionSpec
    streams: Mapping[str, Stream]
    views: Mapping[str, StreamView]
    newest: Mapping[str, StreamView]
    _shapes: dict[str, JoinShape | None] = field(default_factory=dict)
    """By query."""
    _join_sizes: dict[tuple[str, Relation | None], JoinSizes] = field(default_factory=dict)
    """By query and the relation of which only the newest epoch counts; None if windows count for all."""

    def add_sizes(self, query: Query, count: int, sizes: dict[tuple[str, ...], float]) -> None:
        """Adds the sub-joins of `count` relations that are missing; with residuals only where probes were counted."""
        if query.name not in self._shapes:
            self._shapes[query.name] = shape_of(query.join, self.spec, self.streams)
        shape = self._shapes[query.name]
        if shape is None or any(r.stream not in self.views for r in shape.relations):
            return
        for subset in map(frozenset, itertools.combinations(shape.relations, count)):
            if not shape.connected(subset):
                continue
            join = query.join.sub(subset)
            without_residuals = replace(join, residuals=frozenset())
            for variant, estimate_rows in ((without_residuals, self._rows), (join, self._measured_rows)):
                key = size_key(variant)
                if key not in sizes and (rows := estimate_rows(query.name, variant, subset, shape)) is not None:
                    sizes[key] = min(MOST, max(MIN_ROWS, rows))

    def _size(self, query: str, shape: JoinShape, subset: frozenset[Relation], newest: Relation | None = None) -> Estimate | None:
        """The size by what windows have; of the relation `newest` only the newest epoch counts."""
        if (query, newest) not in self._join_sizes:
            views = {r: (self.newest if r == newest else self.views)[r.stream] for r in shape.relations}
            self._join_sizes[query, newest] = JoinSizes(shape, views)
        return self._join_sizes[query, newest].size(subset)

    def _rows(self, query: str, join: SubJoin, subset: frozenset[Relation], shape: JoinShape) -> float | None:
        measured = self._measured_rows(query, join, subset, shape)
        if measured is not None:
            return measured
        size = self._size(query, shape, subset)
        return None if size is None else size.rows * self._drift_factor(join)

    def _drift_factor(self, join: SubJoin) -> float:
        factor = 1.0
        for equal in join.classes:
            first, *others = sorted(equal)
            for other in others:
                factor *= self.history.drift.factor((first.relation.stream, first.column), (other.relation.stream, other.column))
        return factor

    def _measured_rows(self, query: str, join: SubJoin, subset: frozenset[Relation], shape: JoinShape) -> float | None:
        """The size by the results of probes; None where none were counted, or only over other windows than the streams' own."""
        probes = self.history.probes.of(join)
        own_windows = all(r.stream not in self.streams or self.streams[r.stream].window == window for r, window in join.windows)
        if not probes or not own_windows:
            return None
        size = self._size(query, shape, subset)
        results, expected, by_probes = 0.0, 0.0, 0.0
        for relation in sorted(subset):
            probe = probes.get(str(relation))
            if probe is None or not probe.tuples:
                continue
            newest_size = self._size(query, shape, subset, relation)
            rows = self.views[relation.stream].rows
            results += probe.results
            expected += 0.0 if newest_size is None else newest_size.rows * probe.tuples / max(rows, 1e-9)
            by_probes = max(by_probes, probe.results * rows / probe.tuples)
        if size is None or (expected < MIN_EXPECTED and results >= MIN_RESULTS):
            return by_probes if results >= MIN_RESULTS else None
        if join.residuals and not math.isfinite(expected):
            return None
        return size.rows * self._drift_factor(join) * (results + PRIOR_RESULTS) / (expected + PRIOR_RESULTS)
