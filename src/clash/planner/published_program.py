"""The integer program as the paper prints it: every decorated probe order is a variable.

x per order, y per prefix (equal prefixes of different queries are one), Σ x = 1 per query and relation,
`−PCost·x + Σ StepCost·y ≥ 0` per order, and `x ≤ Σ x'` per input of a MIR that an order probes. It is kept to reproduce the
paper's figures and as a check on the compact program, which has the same optimum. Its size is that of all
permutations, so it refuses what it cannot hold.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clash.errors import OptionError
from clash.planner.graph import Graph
from clash.planner.lattice import Target
from clash.planner.integer_program import Milp, Values
from clash.planner.solution import Solution, finish

MOST_ORDERS = 400_000


@dataclass(slots=True)
class Order:
    """A path of (arc, layout) pairs from a root to an end, and its variable."""

    path: tuple[tuple[int, int], ...]
    prefixes: tuple[int, ...]
    x: int


class Published:
    def __init__(self, graph: Graph, targets: list[Target], deadline: float = float("inf")) -> None:
        self.graph, self.targets, self.milp = graph, targets, Milp()
        self.goals = [goal for target in targets for goal in graph.goals(target)]
        self.prefixes: dict[tuple[int, int, int], int] = {}  # (prefix before, arc, layout) → prefix
        self.y: list[int] = []
        self.step_cost: list[float] = []
        self.orders: dict[int, list[Order]] = {}  # end node → the orders that reach it
        self.count, self._deadline = 0, deadline
        for target in targets:
            for goal in graph.goals(target):
                self._enumerate(goal)
                self.milp.exactly([order.x for order in self.orders[goal]], 1.0)
        self._mirs()
        self.z: dict[tuple[int, int], int] = {}
        if not graph.model.free_copies:
            self._layouts()
        self.fill: dict[int, int] = {}
        if graph.model.round_cost:
            self._rounds()

    def _enumerate(self, end: int) -> None:
        """All orders that reach the end, each step decorated with a layout of its store, and their cost rows."""
        self.orders[end] = []
        for path in self._paths(end):
            self.count += 1
            if self.count > MOST_ORDERS or (self.count % 1000 == 0 and time.perf_counter() > self._deadline):
                why = f"over {MOST_ORDERS:,} probe orders" if self.count > MOST_ORDERS else f"out of time after {self.count:,} probe orders"
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
            self.milp.row([x, *(self.y[prefix] for prefix in prefixes)], [-sum(costs), *costs], low=0.0)

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
        key = (before, at, layout)
        if key not in self.prefixes:
            self.prefixes[key] = len(self.y)
            self.step_cost.append(self.graph.arcs[at].cost)
            self.y.append(self.milp.var(self.graph.arcs[at].cost))
        return self.prefixes[key]

    def _probed(self, order: Order) -> list[int]:
        graph = self.graph
        probed = (graph.arcs[at].probes for at, _ in order.path)
        return [sub for sub in probed if sub >= 0 and graph.lattice.subs[sub].size > 1]

    def _mirs(self) -> None:
        """Whoever probes a MIR needs it fed from every input; the orders that feed it may probe smaller ones."""
        todo = [order for orders in self.orders.values() for order in orders]
        while todo:
            order = todo.pop()
            for sub in self._probed(order):
                for feeder in self.graph.feeders(sub):
                    if feeder not in self.orders:
                        self._enumerate(feeder)
                        todo += self.orders[feeder]
                    self.milp.at_most([order.x], [other.x for other in self.orders[feeder]])

    def _layouts(self) -> None:
        """An order needs every store it probes under the layout it is decorated with."""
        graph, milp = self.graph, self.milp
        singles = {part for target in self.targets for part in graph.parts(target)}
        probed = {sub for orders in self.orders.values() for order in orders for sub in self._probed(order)}
        for store in graph.stores:
            base = store.stream is not None and bool(singles & set(store.singles))
            if base or store.sub in probed:
                z = [milp.var(cost) for cost in store.costs]
                self.z.update({(store.id, i): variable for i, variable in enumerate(z)})
                milp.row(z, [1.0] * len(z), 1.0 if base else 0.0, 1.0 if store.alone else float(len(z)))
        for orders in self.orders.values():
            for order in orders:
                for at, layout in order.path:
                    if (store_id := graph.arcs[at].store) >= 0:
                        milp.at_most([order.x], [self.z[store_id, layout]])

    def _rounds(self) -> None:
        graph, milp = self.graph, self.milp
        far = 2.0 * max(graph.lattice.subs[target.sub].size for target in self.targets)
        rounds = milp.var(graph.model.round_cost, whole=False, most=far)
        milp.at_least([rounds], 1.0)
        probed = sorted({sub for orders in self.orders.values() for order in orders for sub in self._probed(order)})
        self.fill = {sub: milp.var(whole=False, most=far) for sub in probed}
        ends = {feeder: [rounds, self.fill[sub]] for sub in probed for feeder in graph.feeders(sub)}
        ends.update({goal: [rounds] for goal in self.goals})
        for end, later in ends.items():
            for order in self.orders[end]:
                hops = [graph.arcs[at].hop for at, _ in order.path]
                for variable in later:
                    milp.row([variable, order.x], [1.0, -1.0 - sum(hops)], low=0.0)
                    for i, (at, _) in enumerate(order.path):
                        if graph.arcs[at].probes in self.fill:  # the rest of the order waits until the MIR is filled
                            fill, after = self.fill[graph.arcs[at].probes], sum(hops[i + 1 :])
                            milp.row([variable, fill, order.x], [1.0, -1.0, -far - after], low=-far)

    def read(self, x: Values) -> Solution:
        """The plan that the solver's values stand for. Any order will do for a node that two orders reach: the first is kept."""
        graph = self.graph
        chosen = {end: next((o for o in orders if x[o.x] > 0.5), None) for end, orders in self.orders.items()}
        into: dict[int, int] = {}
        for end in sorted(chosen, key=lambda e: (e not in self.goals, graph.lattice.subs[graph.nodes[e].sub].size)):
            order = chosen[end]
            for at, _ in order.path if order is not None else ():
                into.setdefault(graph.arcs[at].head, at)
        wanted: dict[int, list[int]] = {}
        for (store, i), z in self.z.items():
            if x[z] > 0.5:
                wanted.setdefault(store, []).append(i)
        return finish(graph, self.goals, into, wanted)
