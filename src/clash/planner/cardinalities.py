"""Cardinality estimates: how many rows a sub-join has, from rates, selectivities and known sizes.

An equivalence class of k relations contributes k − 1 selectivities: those of a maximum spanning tree, which is what
1/max(distinct, distinct) gives for any join order. Known sizes correct every larger sub-join that contains them: each is turned into one
factor, and an estimate is multiplied by the factors of all known joins inside it (`clash.planner.known_cardinalities`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from clash.model.expressions import Call, Expr
from clash.model.query import EqualityClass, SubJoin
from clash.model.relation import Relation
from clash.model.statistics import Statistics, column_text
from clash.model.stream import Stream
from clash.planner.known_cardinalities import KnownSizes

MAX_ROWS = 1e30  # estimates are cut off here, so that products of them stay finite
_ALIAS_NUMBER = re.compile(r"#\d+")
# The share of rows that pass a predicate without measured selectivity, by operator: the usual guesses of System R.
_GUESS = {"=": 0.1, "<": 1 / 3, "<=": 1 / 3, "<>": 0.9, "in": 0.2, "like": 0.25, "isnull": 0.1, "isnotnull": 0.9}


class Sizes:
    """Estimates the sizes of sub-joins and base stores under one set of statistics."""

    def __init__(self, statistics: Statistics, streams: dict[str, Stream]) -> None:
        self.statistics, self._streams = statistics, streams
        self._known_sizes = KnownSizes(statistics.sizes, self._rows_in_stream_windows) if statistics.sizes else None
        self._equalities: dict[tuple[str, str], float] = {}

    def rows(self, join: SubJoin) -> float:
        """The size of the sub-join over the tuples in its windows."""
        rows = self._rows_if_independent(join)
        if self._known_sizes is not None and len(join.relations) > 1:
            rows *= self._known_sizes.factor(join)
        return min(rows, MAX_ROWS)

    def base_store_rows(self, singles: list[SubJoin], hulls: Sequence[SubJoin] = ()) -> float:
        """Rows of a stream's store: what any of its relations (one-relation sub-joins) can use, but no more than the longest window has,
        and of those inside a hull no more than the hull has."""
        longest = max(self._stream_rows(*window) for single in singles for window in single.windows)
        rows = {single: self.rows(single) for single in singles}
        total, largest = sum(rows.values()), max(rows.values())
        for hull in sorted(hulls, key=self.rows, reverse=True):
            inside = [single for single in rows if single.is_within(hull)]
            if inside and (own := self.rows(hull)) <= sum(rows[single] for single in inside):
                rows = {single: count for single, count in rows.items() if single not in inside} | {hull: own}
        return min(longest, total, max(largest, sum(rows.values())))

    def _stream_rows(self, relation: Relation, window: int | None) -> float:
        stream = self._streams.get(relation.stream)
        rate = self.statistics.rate(relation.stream)
        if stream is None or not stream.window or window is None:
            return rate
        return rate * window / stream.window  # a rate is the number of tuples in the stream's own window

    def _rows_in_stream_windows(self, join: SubJoin) -> float:
        """The estimate over the streams' own windows, which is what known sizes refer to, as rates do."""
        return self._product(join, [self.statistics.rate(relation.stream) for relation in join.relations])

    def _rows_if_independent(self, join: SubJoin) -> float:
        """The estimate from rates and selectivities alone, as if all predicates were independent."""
        return self._product(join, [self._stream_rows(*window) for window in join.windows])

    def _product(self, join: SubJoin, factors: list[float]) -> float:
        factors += [self._class_selectivity(equal) for equal in join.classes]
        factors += [self.selectivity(predicate) for predicate in (*join.filters, *join.residuals)]
        return math.prod(sorted(factors))  # sorted, so that rounding, and with it near-ties, do not depend on the order of sets

    def _class_selectivity(self, equal: EqualityClass) -> float:
        """The selectivity of all equalities of a class: the product over a maximum spanning tree of its attributes."""
        members = sorted(equal)
        if len(members) == 2:
            return self.equality(*(column_text(a.relation.stream, a.column) for a in members))
        names = [column_text(a.relation.stream, a.column) for a in members]
        best = [self.equality(names[0], name) for name in names]
        todo, product = set(range(1, len(names))), 1.0
        while todo:  # Prim's algorithm, for the largest product
            at = max(todo, key=lambda i: (best[i], -i))
            todo.remove(at)
            product *= best[at]
            for i in todo:
                best[i] = max(best[i], self.equality(names[at], names[i]))
        return product

    def equality(self, left: str, right: str) -> float:
        """The selectivity of `left = right`, both as `column_text` writes them."""
        key = (left, right)
        if key not in self._equalities:
            self._equalities[key] = self.statistics.equality(left, right)
        return self._equalities[key]

    def selectivity(self, predicate: Expr) -> float:
        """The share of rows that pass a filter or residual: as the statistics give it, or a guess by its operator."""
        given = self.statistics.predicate(_ALIAS_NUMBER.sub("", str(predicate)))  # statistics are of streams, not of aliases
        if given is not None:
            return given
        if not isinstance(predicate, Call):
            return 0.5
        if predicate.op == "and":
            product = 1.0
            for arg in predicate.args:
                product *= self.selectivity(arg)
            return product
        if predicate.op == "or":
            return min(1.0, sum(self.selectivity(arg) for arg in predicate.args))
        if predicate.op == "not":
            return 1.0 - self.selectivity(predicate.args[0])
        return _GUESS.get(predicate.op, 0.5)
