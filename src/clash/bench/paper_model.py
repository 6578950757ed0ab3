"""The integer program behind the paper's figures, as far as the figures tell.

It is not quite the one that the paper prints, nor the one we plan with: no MIRs; a prefix costs what is sent, without 1/j;
a store may be probed under any layout in any order, at no cost; a step is a broadcast unless a store visited earlier in the same
order has the same partition attribute, so a first step always is. With these rules, and one selectivity for every pair of
relations whether they join or not, its sizes and costs are those of the figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from clash.bench.workloads import Schema
from clash.planner.integer_program import TOLERANCE, Milp

RATE = 1000.0
SELECTIVITY = 0.001
WORKERS = 5


@dataclass(frozen=True)
class Outcome:
    """`individual`: what the chosen orders cost if nothing is shared. Costs are NaN where no solution was found in time."""

    orders: int
    variables: int
    individual: float
    shared: float
    proven: bool
    seconds: float


@dataclass(frozen=True)
class Order:
    """A decorated probe order: its variable, the variables of its prefixes, and its cost if it shares none of them."""

    x: int
    prefixes: tuple[int, ...]
    cost: float


def partial_result(relations: int) -> float:
    """The rows of a join of so many relations: every pair is selective."""
    return float(RATE**relations * SELECTIVITY ** (relations * (relations - 1) // 2))


class PaperModel:
    """x per order and y per prefix; Σ x = 1 per query and start; of the orders of one start, those with a prefix need its y.

    The paper's rows, one cost row per order, allow the same solutions. Ours are tighter: it is the optimum that the figures show.
    """

    def __init__(self, schema: Schema, queries: Sequence[tuple[str, ...]]) -> None:
        self._attributes = {name: frozenset(attributes) for name, attributes in schema.relations.items()}
        self._layouts = self._candidates(queries)
        self._prefixes: dict[tuple[int | str, str, str], int] = {}  # (prefix before or start, target, its attribute) → y
        self.milp = Milp()
        self.orders: list[Order] = []
        for query in queries:
            for start in query:
                self._start(query, start)

    @property
    def variables(self) -> int:
        return len(self.milp.costs)

    def solve(self, seconds: float) -> tuple[float, float, bool]:
        """Individual cost, shared cost, and whether it is proven that none is cheaper."""
        answer = self.milp.solve(seconds)
        if answer.values is None:
            return float("nan"), float("nan"), False
        proven = answer.bound >= answer.cost * (1 - TOLERANCE)
        return sum(order.cost for order in self.orders if answer.values[order.x] > 0.5), answer.cost, proven

    def _candidates(self, queries: Sequence[tuple[str, ...]]) -> dict[str, list[str]]:
        """A relation may be partitioned by what joins it in any of the queries: this is why sizes grow faster than n_Q."""
        joining: dict[str, set[str]] = {}
        for query in queries:
            for name in query:
                held = joining.setdefault(name, set())
                for other in query:
                    if other != name:
                        held |= self._attributes[name] & self._attributes[other]
        return {name: sorted(attributes) for name, attributes in joining.items()}

    def _start(self, query: tuple[str, ...], start: str) -> None:
        """All orders of the query from one start. Layouts of the start itself do not matter: it is not probed."""
        found: list[Order] = []
        users: dict[int, list[int]] = {}

        def extend(met: tuple[str, ...], known: frozenset[str], visited: tuple[str, ...], ys: tuple[int, ...]) -> None:
            if len(met) == len(query):
                x = self.milp.var()
                found.append(Order(x, ys, sum(self.milp.costs[y] for y in ys)))
                for y in ys:
                    users.setdefault(y, []).append(x)
                return
            for target in query:
                if target not in met and known & self._attributes[target]:
                    for layout in self._layouts[target]:
                        cost = partial_result(len(met)) * (1 if layout in visited else WORKERS)
                        y = self._prefix(ys[-1] if ys else start, target, layout, cost)
                        extend((*met, target), known | self._attributes[target], (*visited, layout), (*ys, y))

        extend((start,), self._attributes[start], (), ())
        self.milp.exactly([order.x for order in found], 1.0)
        for y, xs in users.items():
            self.milp.at_most(xs, [y])
        self.orders += found

    def _prefix(self, before: int | str, target: str, layout: str, cost: float) -> int:
        key = (before, target, layout)
        if key not in self._prefixes:
            self._prefixes[key] = self.milp.var(cost)
        return self._prefixes[key]


def measure(schema: Schema, queries: Sequence[tuple[str, ...]], time_limit: float) -> Outcome:
    """`seconds` are those of building and solving."""
    began = time.perf_counter()
    model = PaperModel(schema, queries)
    individual, shared, proven = model.solve(time_limit)
    return Outcome(len(model.orders), model.variables, individual, shared, proven, time.perf_counter() - began)
