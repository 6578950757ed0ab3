"""From a solution back to what people read: probe orders, stores and what each costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clash.model.layout import Layout
from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.planner.graph import Arc, Graph, Node
from clash.planner.solution import Solution


@dataclass(frozen=True, slots=True)
class StoreKey:
    """Which store: a stream's, or that of an intermediate result; `owner` is the query that has it alone (`independent`)."""

    stream: str | None
    join: SubJoin | None
    owner: str | None = None

    def __str__(self) -> str:
        name = self.stream if self.join is None else "(" + " ⋈ ".join(str(r) for r in sorted(self.join.relations)) + ")"
        return f"{name}" if self.owner is None else f"{self.owner}:{name}"


@dataclass(frozen=True, slots=True)
class Step:
    """A partial result probes a store. `sends` tuples go to `places` workers each; `stays`: without crossing the network."""

    store: StoreKey
    layout: Layout
    adds: SubJoin
    sends: float
    places: int
    stays: bool
    cost: float

    def __str__(self) -> str:
        return f"{self.store}[{self.layout}]"


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """What a tuple of `origin` does: probe, in this order. It answers `queries`, or feeds the store of `feeds`, or both."""

    origin: Relation
    start: SubJoin
    steps: tuple[Step, ...]
    queries: tuple[str, ...]
    feeds: StoreKey | None = None
    feed_cost: float = 0.0

    @property
    def cost(self) -> float:
        return sum(step.cost for step in self.steps) + self.feed_cost

    def __str__(self) -> str:
        return " » ".join([str(self.origin), *map(str, self.steps)])


@dataclass(frozen=True, slots=True)
class StorePlan:
    """A store, its layouts (one, unless copies are allowed) and what keeping it costs."""

    key: StoreKey
    layouts: tuple[Layout, ...]
    rows: float
    cost: float

    def __str__(self) -> str:
        return ", ".join(f"{self.key}[{layout}]" for layout in self.layouts)


def probe_orders(graph: Graph, solution: Solution, owner: str | None = None) -> tuple[ProbeOrder, ...]:
    """One order per query and relation, one per relation of every MIR that is kept."""
    subs = graph.lattice.subs
    orders = []
    steps = {at: _step(graph, solution.layouts, graph.arcs[at], owner) for at in solution.into.values() if graph.arcs[at].probes >= 0}
    for target in graph.lattice.targets:
        for goal in graph.goals(target):
            orders.append(_order(graph, solution, goal, tuple(target.queries), None, steps))
    for mir in used_mirs(graph, solution):
        for feeder in graph.feeders(mir):
            orders.append(_order(graph, solution, feeder, (), StoreKey(None, subs[mir].join, owner), steps))
    return tuple(orders)


def used_mirs(graph: Graph, solution: Solution) -> list[int]:
    probed = {graph.arcs[at].probes for at in solution.into.values()}
    return sorted(p for p in probed if p >= 0 and graph.lattice.subs[p].size > 1)


def store_plans(graph: Graph, solution: Solution, owner: str | None = None) -> tuple[StorePlan, ...]:
    plans = []
    for at, chosen in solution.layouts.items():
        store = graph.stores[at]
        join = None if store.sub is None else graph.lattice.subs[store.sub].join
        layouts = tuple(store.layouts[i] for i in chosen)
        plans.append(StorePlan(StoreKey(store.stream, join, owner), layouts, store.rows, sum(store.costs[i] for i in chosen)))
    return tuple(plans)


def _order(
    graph: Graph, solution: Solution, end: int, queries: tuple[str, ...], feeds: StoreKey | None, known: Mapping[int, Step]
) -> ProbeOrder:
    arcs: list[int] = []
    node = end
    while not graph.is_root(node):
        arcs.append(solution.into[node])
        node = graph.arcs[arcs[-1]].tail
    arcs.reverse()
    origin = graph.nodes[node]
    steps = tuple(known[at] for at in arcs if at in known)
    extra = sum(graph.arcs[at].cost for at in arcs if at not in known)
    return ProbeOrder(origin.origin, graph.lattice.subs[origin.sub].join, steps, queries, feeds, extra)


def _step(graph: Graph, layouts: Mapping[int, tuple[int, ...]], arc: Arc, owner: str | None) -> Step:
    store, probed = graph.stores[arc.store], graph.lattice.subs[arc.probes]
    tail: Node = graph.nodes[arc.tail]
    sub = graph.lattice.subs[tail.sub]
    i = next(i for i in layouts[arc.store] if not arc.layouts or i in arc.layouts)
    layout = store.layouts[i]
    key = StoreKey(store.stream, None if store.sub is None else probed.join, owner)
    known = graph.knows(layout, tail.sub, arc.probes, graph.nodes[arc.head].sub)
    places = 1 if layout.kind != "hash" or known else graph.model.workers
    stays = graph.model.workers == 1 or graph.stays(tail.place, layout, tail.sub, arc.probes, graph.nodes[arc.head].sub)
    return Step(key, layout, probed.join, sub.rows / sub.size, places, stays, arc.cost)


def query_cost(orders: tuple[ProbeOrder, ...], query: str) -> float:
    """What the query's own orders cost, shared steps counted in full."""
    return sum(order.cost for order in orders if query in order.queries)
