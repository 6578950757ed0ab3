"""The integer program as the paper prints it: every decorated probe order is a variable.

x per order, y per prefix (equal prefixes of different queries are one), Σ x = 1 per query and relation, `−PCost·x + Σ StepCost·y ≥ 0` per
order, and `x ≤ Σ x'` per input of a MIR that an order probes. It is kept to reproduce the paper's figures and as a check on the compact
program, which has the same optimum. It enumerates all permutations, so it refuses query sets that are too large for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clash.errors import OptionError
from clash.planner.deadline import NEVER, Deadline
from clash.planner.graph import Graph
from clash.planner.integer_program import Milp, Values
from clash.planner.lattice import Target
from clash.planner.solution import Solution, finish

MAX_ORDERS = 400_000


@dataclass(slots=True)
class Order:
    """A decorated probe order: a path from a root to an end."""

    path: tuple[tuple[int, int], ...]
    """(arc, layout of its store) of each step; the layout is −1 where the arc needs no store."""
    prefixes: tuple[int, ...]
    """The prefix that ends with each step."""
    x: int
    """Its variable."""


class PublishedProgram:
    """The program for some targets of a graph. It raises an OptionError where it would be too large, or not built by the deadline."""

    def __init__(self, graph: Graph, targets: list[Target], deadline: Deadline = NEVER) -> None:
        self.graph, self.targets, self.milp = graph, targets, Milp()
        self.goals = [goal for target in targets for goal in graph.goals(target)]
        self.prefixes: dict[tuple[int, int, int], int] = {}  # (prefix before, arc, layout) → prefix
        self.y: list[int] = []  # prefix → its variable
        self.step_cost: list[float] = []  # prefix → the cost of its last step
        self.orders: dict[int, list[Order]] = {}  # end node → the orders that reach it
        self.count, self._deadline = 0, deadline
        for target in targets:
            for goal in graph.goals(target):
                self._enumerate(goal)
                self.milp.exactly([order.x for order in self.orders[goal]], 1.0)
        self._add_mirs()
        self.z: dict[tuple[int, int], int] = {}  # (store, layout) → its variable
        if not graph.model.free_copies:
            self._add_layouts()
        self.fill: dict[int, int] = {}  # MIR → the variable of the round in which it is filled
        if graph.model.round_cost:
            self._add_rounds()

    def _enumerate(self, end: int) -> None:
        """Add all orders that reach the end, each step decorated with a layout of its store, and their cost rows."""
        self.orders[end] = []
        for path in self._paths(end):
            self.count += 1
            if self.count > MAX_ORDERS or (self.count % 1000 == 0 and self._deadline.passed):
                why = f"over {MAX_ORDERS:,} probe orders" if self.count > MAX_ORDERS else f"out of time after {self.count:,} probe orders"
                raise OptionError(
                    "the published formulation is too large for these queries",
                    why,
                    'use formulation="compact", which has the same optimum, or a longer time_limit',
                )
            before, prefixes = -1, []
            for at, layout in path:
                before = self._prefix(before, at, layout)
                prefixes.append(before)
            x = self.milp.var()
            self.orders[end].append(Order(tuple(path), tuple(prefixes), x))
            costs = [self.step_cost[prefix] for prefix in prefixes]
            self.milp.row([x, *(self.y[prefix] for prefix in prefixes)], [-sum(costs), *costs], lower=0.0)

    def _paths(self, end: int) -> Iterator[list[tuple[int, int]]]:
        graph = self.graph
        if graph.is_root(end):
            yield []
            return
        for at in graph.into[end]:
            arc = graph.arcs[at]
            layouts: Sequence[int] = arc.layouts or (range(len(graph.stores[arc.store].layouts)) if arc.store >= 0 else (-1,))
            for path in self._paths(arc.tail):
                for layout in layouts:
                    yield [*path, (at, layout)]

    def _prefix(self, before: int, at: int, layout: int) -> int:
        """The prefix that continues `before` (−1: a root) with one step; it is added if there is none yet."""
        key = (before, at, layout)
        if key not in self.prefixes:
            self.prefixes[key] = len(self.y)
            self.step_cost.append(self.graph.arcs[at].cost)
            self.y.append(self.milp.var(self.graph.arcs[at].cost))
        return self.prefixes[key]

    def _probed_mirs(self, order: Order) -> list[int]:
        return [mir for at, _ in order.path if (mir := self.graph.arcs[at].mir) >= 0]

    def _all_probed_mirs(self) -> set[int]:
        return {mir for orders in self.orders.values() for order in orders for mir in self._probed_mirs(order)}

    def _add_mirs(self) -> None:
        """An order that probes a MIR needs it fed from every input; the orders that feed it may probe smaller MIRs."""
        todo = [order for orders in self.orders.values() for order in orders]
        while todo:
            order = todo.pop()
            for mir in self._probed_mirs(order):
                for feeder in self.graph.feeders(mir):
                    if feeder not in self.orders:
                        self._enumerate(feeder)
                        todo += self.orders[feeder]
                    self.milp.at_most([order.x], [other.x for other in self.orders[feeder]])

    def _add_layouts(self) -> None:
        """An order needs every store it probes under the layout it is decorated with."""
        graph, milp = self.graph, self.milp
        singles = {part for target in self.targets for part in graph.parts(target)}
        mirs = self._all_probed_mirs()
        for store in graph.stores:
            is_base = store.stream is not None and bool(singles & set(store.singles))
            if is_base or store.sub in mirs:
                z = [milp.var(cost) for cost in store.costs]
                self.z.update({(store.id, i): variable for i, variable in enumerate(z)})
                milp.row(z, [1.0] * len(z), 1.0 if is_base else 0.0, 1.0 if store.single_layout else float(len(z)))
        for orders in self.orders.values():
            for order in orders:
                for at, layout in order.path:
                    if (store_id := graph.arcs[at].store) >= 0:
                        milp.at_most([order.x], [self.z[store_id, layout]])

    def _add_rounds(self) -> None:
        """The number of rounds is at least that of every chosen order; after probing a MIR an order goes on when the MIR is filled."""
        graph, milp = self.graph, self.milp
        max_rounds = 2.0 * max(graph.lattice.subs[target.sub].size for target in self.targets)
        rounds = milp.var(graph.model.round_cost, integral=False, upper=max_rounds)
        milp.at_least([rounds], 1.0)
        mirs = sorted(self._all_probed_mirs())
        self.fill = {mir: milp.var(integral=False, upper=max_rounds) for mir in mirs}
        ends = {feeder: [rounds, self.fill[mir]] for mir in mirs for feeder in graph.feeders(mir)}
        ends.update({goal: [rounds] for goal in self.goals})
        for end, not_before in ends.items():  # the variables that are at least the round in which the end is reached
            for order in self.orders[end]:
                hops = [graph.arcs[at].hop for at, _ in order.path]
                for variable in not_before:
                    milp.row([variable, order.x], [1.0, -1.0 - sum(hops)], lower=0.0)
                    for i, (at, _) in enumerate(order.path):
                        if graph.arcs[at].probes in self.fill:
                            fill, hops_after = self.fill[graph.arcs[at].probes], sum(hops[i + 1 :])
                            milp.row([variable, fill, order.x], [1.0, -1.0, -max_rounds - hops_after], lower=-max_rounds)

    def read(self, x: Values) -> Solution:
        """The plan that the solver's values stand for. Where two orders reach a node, either will do: the first is kept."""
        graph = self.graph
        chosen = {end: next((o for o in orders if x[o.x] > 0.5), None) for end, orders in self.orders.items()}
        into: dict[int, int] = {}
        for end in sorted(chosen, key=lambda e: (e not in self.goals, graph.lattice.subs[graph.nodes[e].sub].size)):
            order = chosen[end]
            for at, _ in order.path if order is not None else ():
                into.setdefault(graph.arcs[at].head, at)
        layouts: dict[int, list[int]] = {}
        for (store, i), z in self.z.items():
            if x[z] > 0.5:
                layouts.setdefault(store, []).append(i)
        return finish(graph, self.goals, into, layouts)
