"""Who uses what, and what each query pays.

Invariant: every step, feed, store and round of the plan is counted once, and divided evenly among the queries that use it, so
the shares of all queries add up to the cost of the plan. A query uses what its orders pass through, the intermediate results it
probes with all that feeds them, and the stores that it probes or is stored in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.planner.cost_model import CostModel
from clash.planner.orders import ProbeOrder, StoreKey
from clash.planner.plan import Plan
from clash.topology.trees import Forest, Node, merge_orders, plain_branches


@dataclass(frozen=True)
class Shares:
    """Names are in the order of the plan's queries. `full` counts shared parts in full, `own` only the query's part of them."""

    forest: Forest
    users: Mapping[Node, tuple[str, ...]]
    store_users: Mapping[StoreKey, tuple[str, ...]]
    full: Mapping[str, float]
    own: Mapping[str, float]
    probes: float
    feeds: float
    stores: float
    rounds: float

    @property
    def total(self) -> float:
        return self.probes + self.feeds + self.stores + self.rounds


def share_costs(plan: Plan) -> Shares:
    names = [query.name for query in plan.queries]
    forest = merge_orders(plan.queries, plain_branches(plan.probe_orders), {s.key: s.layouts for s in plan.stores}, plan.streams)
    asking = _asking(plan.probe_orders)
    users: dict[Node, set[str]] = {}
    steps: dict[Node, float] = {}
    reading: dict[StoreKey, set[str]] = {store.key: set() for store in plan.stores}
    feeding: list[tuple[float, set[str]]] = []
    for order, nodes in zip(plan.probe_orders, forest.paths, strict=True):
        mine = _users(order, asking)
        for step, node in zip(order.steps, nodes, strict=True):
            users.setdefault(node, set()).update(mine)
            steps[node] = step.cost
            reading[step.store] |= mine
        if order.feeds is not None:
            feeding.append((order.feed_cost, mine))
            reading[order.feeds] |= mine
    for query in plan.queries:  # a tuple is stored for the query even where only other tuples of the query probe it
        if len(query.join.relations) > 1:
            for relation in query.join.relations:
                for owner in (None, query.name):
                    if (key := StoreKey(relation.stream, None, owner)) in reading:
                        reading[key].add(query.name)
    price = CostModel(plan.asked.cost, plan.workers, plan.asked.layouts).round_cost * plan.rounds
    parts = [(cost, users[node]) for node, cost in steps.items()]
    parts += feeding
    parts += [(store.cost, reading[store.key]) for store in plan.stores]
    parts.append((price, set(names)))
    full, own = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for cost, using in parts:
        for name in using:
            full[name] += cost
            own[name] += cost / len(using)
    return Shares(
        forest,
        {node: _in_order(using, names) for node, using in users.items()},
        {key: _in_order(using, names) for key, using in reading.items()},
        full,
        own,
        sum(steps.values()),
        sum(cost for cost, _ in feeding),
        sum(store.cost for store in plan.stores),
        price,
    )


def _asking(orders: Iterable[ProbeOrder]) -> dict[StoreKey, set[str]]:
    """Per intermediate result the queries that probe it, or probe one that is made of it."""
    orders = list(orders)
    asking: dict[StoreKey, set[str]] = {order.feeds: set() for order in orders if order.feeds is not None}
    changed = True
    while changed:
        changed = False
        for order in orders:
            mine = _users(order, asking)
            for step in order.steps:
                if step.store in asking and not mine <= asking[step.store]:
                    asking[step.store] |= mine
                    changed = True
    return asking


def _users(order: ProbeOrder, asking: Mapping[StoreKey, set[str]]) -> set[str]:
    return set(order.queries) | (asking[order.feeds] if order.feeds is not None else set())


def _in_order(using: set[str], names: list[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in using)
