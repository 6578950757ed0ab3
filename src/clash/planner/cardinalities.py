"""How many rows a sub-join has, from rates, selectivities and known sizes.

An equivalence class of k relations takes k − 1 selectivities: those of a maximum spanning tree, which is what
1/max(distinct, distinct) gives for any order of joining. Known sizes correct every larger sub-join that contains
them: each has one factor, and an estimate is multiplied by the factors of all known joins inside it (`clash.planner.known_cardinalities`).
"""

from __future__ import annotations

import math
import re

from clash.model.expressions import Call, Expr
from clash.model.query import EqualityClass, SubJoin
from clash.model.relation import Relation
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.known_cardinalities import KnownSizes

MOST = 1e30  # rows beyond which it makes no difference, and products stay finite
_NUMBER = re.compile(r"#\d+")
# Shares of rows that pass a predicate nobody measured, by operator: the usual guesses of System R.
_GUESS = {"=": 0.1, "<": 1 / 3, "<=": 1 / 3, "<>": 0.9, "in": 0.2, "like": 0.25, "isnull": 0.1, "isnotnull": 0.9}


class Sizes:
    def __init__(self, statistics: Statistics, streams: dict[str, Stream]) -> None:
        self._statistics, self._streams = statistics, streams
        self._known = KnownSizes(statistics.sizes, self._own_windows) if statistics.sizes else None
        self._pairs: dict[tuple[str, str], float] = {}

    def rows(self, join: SubJoin) -> float:
        """The size of the sub-join over the tuples in its windows."""
        rows = self._independent(join)
        if self._known is not None and len(join.relations) > 1:
            rows *= self._known.factor(join)
        return min(rows, MOST)

    def kept(self, stream: str, singles: list[SubJoin]) -> float:
        """Rows of a base store: what any of its relations (one-relation sub-joins) can use."""
        most = max(self._base(*window) for single in singles for window in single.windows)
        return min(most, sum(self.rows(single) for single in singles))

    def _base(self, relation: Relation, window: int | None) -> float:
        stream = self._streams.get(relation.stream)
        rate = self._statistics.rate(relation.stream)
        if stream is None or not stream.window or window is None:
            return rate
        return rate * window / stream.window  # a rate is tuples in the stream's own window

    def _own_windows(self, join: SubJoin) -> float:
        """Known sizes are over the streams' own windows, as rates are."""
        return self._product(join, [self._statistics.rate(relation.stream) for relation in join.relations])

    def _independent(self, join: SubJoin) -> float:
        return self._product(join, [self._base(*window) for window in join.windows])

    def _product(self, join: SubJoin, factors: list[float]) -> float:
        factors += [self._spanning(equal) for equal in join.classes]
        factors += [self.selectivity(predicate) for predicate in (*join.filters, *join.residuals)]
        return math.prod(sorted(factors))  # in one order, whatever order the sets come in: near-ties must break the same way every time

    def _spanning(self, equal: EqualityClass) -> float:
        members = sorted(equal)
        if len(members) == 2:
            return self.equality(f"{members[0].relation.stream}.{members[0].column}", f"{members[1].relation.stream}.{members[1].column}")
        names = [f"{a.relation.stream}.{a.column}" for a in members]
        best = [self.equality(names[0], name) for name in names]
        todo, product = set(range(1, len(names))), 1.0
        while todo:  # Prim, for the largest product
            at = max(todo, key=lambda i: (best[i], -i))
            todo.remove(at)
            product *= best[at]
            for i in todo:
                best[i] = max(best[i], self.equality(names[at], names[i]))
        return product

    def equality(self, left: str, right: str) -> float:
        """The selectivity of `left = right`, both written `stream.column`."""
        key = (left, right)
        if key not in self._pairs:
            self._pairs[key] = self._statistics.equality(left, right)
        return self._pairs[key]

    def selectivity(self, predicate: Expr) -> float:
        """The share of rows that pass a filter or residual: as given, or guessed."""
        given = self._statistics.predicate(_NUMBER.sub("", str(predicate)))  # statistics are of streams, not of aliases
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
