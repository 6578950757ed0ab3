"""Which query uses which step and store, and which part of the plan's cost each query bears.

Invariant: every step, feed, store and round of the plan is counted once and divided evenly among the queries that use it, so the shares of
all queries add up to the cost of the plan. A query uses the steps that its orders pass through, the intermediate results that it probes
together with everything that feeds them, and the stores that it probes or whose streams it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.plan.logical import LogicalPlan, ProbeOrder, StoreKey
from clash.planner.cost_model import CostModel
from clash.topology.trees import Forest, Node, merge_orders, plain_branches


@dataclass(frozen=True)
class Shares:
    """The cost of a plan by query and by kind; tuples of query names are in the order of the plan's queries."""

    forest: Forest
    users: Mapping[Node, tuple[str, ...]]
    """The queries that use a step."""
    store_users: Mapping[StoreKey, tuple[str, ...]]
    """The queries that use a store."""
    full: Mapping[str, float]
    """By query: what it uses, with shared parts counted in full."""
    own: Mapping[str, float]
    """By query: what it uses, with shared parts divided among their users."""
    probes: float
    feeds: float
    checks: float
    stores: float
    rounds: float

    @property
    def total(self) -> float:
        return self.probes + self.feeds + self.checks + self.stores + self.rounds


def share_costs(plan: LogicalPlan) -> Shares:
    names = [query.name for query in plan.queries]
    forest = merge_orders(plan.queries, plain_branches(plan.probe_orders), {s.key: s.layouts for s in plan.stores}, plan.streams)
    mir_users = _mir_users(plan.probe_orders)
    step_users: dict[Node, set[str]] = {}
    step_costs: dict[Node, float] = {}
    store_users: dict[StoreKey, set[str]] = {store.key: set() for store in plan.stores}
    feeds: list[tuple[float, set[str]]] = []
    checks: list[tuple[float, set[str]]] = []
    for order, nodes in zip(plan.probe_orders, forest.paths, strict=True):
        users = _order_users(order, mir_users)
        for step, node in zip(order.steps, nodes, strict=True):
            step_users.setdefault(node, set()).update(users)
            step_costs[node] = step.cost
            store_users[step.store] |= users
        if order.feeds is not None:
            feeds.append((order.feed_cost, users))
            store_users[order.feeds] |= users
        if order.hull is not None:
            checks.append((order.feed_cost, users))
    _add_stored_streams(plan, store_users)
    rounds = CostModel(plan.request.cost, plan.workers, plan.request.layouts).round_cost * plan.rounds
    parts = [(cost, step_users[node]) for node, cost in step_costs.items()]
    parts += feeds + checks
    parts += [(store.cost, store_users[store.key]) for store in plan.stores]
    parts.append((rounds, set(names)))
    full, own = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for cost, users in parts:
        for name in users:
            full[name] += cost
            own[name] += cost / len(users)
    return Shares(
        forest,
        users={node: _in_order(users, names) for node, users in step_users.items()},
        store_users={key: _in_order(users, names) for key, users in store_users.items()},
        full=full,
        own=own,
        probes=sum(step_costs.values()),
        feeds=sum(cost for cost, _ in feeds),
        checks=sum(cost for cost, _ in checks),
        stores=sum(store.cost for store in plan.stores),
        rounds=rounds,
    )


def _add_stored_streams(plan: LogicalPlan, store_users: Mapping[StoreKey, set[str]]) -> None:
    """A stream's tuples are stored for every join with another stream, even where none of the query's own orders probes that store."""
    for query in plan.queries:
        if len(query.streams) > 1:
            for relation in query.streams:
                for owner in (None, query.name):
                    if (key := StoreKey(relation.stream, None, owner)) in store_users:
                        store_users[key].add(query.name)


def _mir_users(orders: Iterable[ProbeOrder]) -> dict[StoreKey, set[str]]:
    """Per intermediate result the queries that probe it, or that probe one which is built from it."""
    orders = list(orders)
    mir_users: dict[StoreKey, set[str]] = {order.feeds: set() for order in orders if order.feeds is not None}
    changed = True
    while changed:
        changed = False
        for order in orders:
            users = _order_users(order, mir_users)
            for step in order.steps:
                if step.store in mir_users and not users <= mir_users[step.store]:
                    mir_users[step.store] |= users
                    changed = True
    return mir_users


def _order_users(order: ProbeOrder, mir_users: Mapping[StoreKey, set[str]]) -> set[str]:
    return set(order.queries) | (mir_users[order.feeds] if order.feeds is not None else set())


def _in_order(users: set[str], names: list[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in users)
