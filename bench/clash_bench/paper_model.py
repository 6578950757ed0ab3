"""The integer program behind the paper's figures, reconstructed from the figures.

It differs from the one that the paper prints and from ours: there are no MIRs; a prefix costs the tuples that are sent, without 1/j; a
store may be probed under any layout in any order, at no cost; a step is a broadcast unless a store visited earlier in the same order has
the same partitioning attribute, so the first step always is one. With these rules, and one selectivity for every pair of relations whether
they join or not, its sizes and costs are those of the figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from clash.planner.integer_program import TOLERANCE, Milp
from clash_bench.workloads import Schema

RATE = 1000.0
SELECTIVITY = 0.001
WORKERS = 5


@dataclass(frozen=True)
class Outcome:
    """The outcome of one query set. Costs are NaN where no solution was found in time."""

    orders: int
    variables: int
    individual: float
    """The cost of the chosen orders if nothing were shared."""
    shared: float
    """Their cost with shared prefixes counted once: the objective."""
    proven: bool
    seconds: float


@dataclass(frozen=True)
class Order:
    """A decorated probe order: one with a layout for every step."""

    x: int
    """Its variable."""
    prefixes: tuple[int, ...]
    """The variables of its prefixes."""
    cost: float
    """Its cost if it shares no prefix."""


def partial_result(relations: int) -> float:
    """The rows of a join of that many relations, where every pair of relations has the selectivity."""
    return float(RATE**relations * SELECTIVITY ** (relations * (relations - 1) // 2))


class PaperModel:
    """Variables x per order and y per prefix; Σ x = 1 per query and start; an order needs the y of each of its prefixes.

    The paper has other rows, one cost row per order, with the same solutions. Ours are tighter, so that the solver reaches the optimum,
    which is what the figures show.
    """

    def __init__(self, schema: Schema, queries: Sequence[tuple[str, ...]]) -> None:
        self._attributes = {name: frozenset(attributes) for name, attributes in schema.relations.items()}
        self._layouts = self._candidates(queries)
        self._prefixes: dict[tuple[int | str, str, str], int] = {}  # (the prefix before or the start, target, its layout) → y
        self.milp = Milp()
        self.orders: list[Order] = []
        for query in queries:
            for start in query:
                self._add_orders(query, start)

    @property
    def variables(self) -> int:
        return len(self.milp.costs)

    def solve(self, seconds: float) -> tuple[float, float, bool]:
        """The individual cost, the shared cost, and whether the latter is proven optimal."""
        answer = self.milp.solve(seconds)
        if answer.values is None:
            return float("nan"), float("nan"), False
        proven = answer.bound >= answer.cost * (1 - TOLERANCE)
        return sum(order.cost for order in self.orders if answer.values[order.x] > 0.5), answer.cost, proven

    def _candidates(self, queries: Sequence[tuple[str, ...]]) -> dict[str, list[str]]:
        """By relation the attributes that it may be partitioned by: those that join it in any query. So sizes grow faster than n_Q."""
        joining: dict[str, set[str]] = {}
        for query in queries:
            for name in query:
                attributes = joining.setdefault(name, set())
                for other in query:
                    if other != name:
                        attributes |= self._attributes[name] & self._attributes[other]
        return {name: sorted(attributes) for name, attributes in joining.items()}

    def _add_orders(self, query: tuple[str, ...], start: str) -> None:
        """Adds all orders of the query from one start. Layouts of the start itself do not matter, because it is not probed."""
        orders: list[Order] = []
        users: dict[int, list[int]] = {}

        def extend(visited: tuple[str, ...], attributes: frozenset[str], layouts: tuple[str, ...], ys: tuple[int, ...]) -> None:
            """`attributes`: the attributes of the relations visited so far."""
            if len(visited) == len(query):
                x = self.milp.var()
                orders.append(Order(x, ys, sum(self.milp.costs[y] for y in ys)))
                for y in ys:
                    users.setdefault(y, []).append(x)
                return
            for target in query:
                if target not in visited and attributes & self._attributes[target]:
                    for layout in self._layouts[target]:
                        cost = partial_result(len(visited)) * (1 if layout in layouts else WORKERS)
                        y = self._prefix_variable(ys[-1] if ys else start, target, layout, cost)
                        extend((*visited, target), attributes | self._attributes[target], (*layouts, layout), (*ys, y))

        extend((start,), self._attributes[start], (), ())
        self.milp.exactly([order.x for order in orders], 1.0)
        for y, xs in users.items():
            self.milp.at_most(xs, [y])
        self.orders += orders

    def _prefix_variable(self, before: int | str, target: str, layout: str, cost: float) -> int:
        key = (before, target, layout)
        if key not in self._prefixes:
            self._prefixes[key] = self.milp.var(cost)
        return self._prefixes[key]


def measure(schema: Schema, queries: Sequence[tuple[str, ...]], time_limit: float) -> Outcome:
    """Builds and solves the program of one query set; `seconds` covers both."""
    began = time.perf_counter()
    model = PaperModel(schema, queries)
    individual, shared, proven = model.solve(time_limit)
    return Outcome(len(model.orders), model.variables, individual, shared, proven, time.perf_counter() - began)
