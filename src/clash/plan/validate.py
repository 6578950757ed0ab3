"""What makes a plan valid, whoever made it.

Every result is produced once, by its last-arriving tuple: so each query has for each of its relations exactly one order that
reaches all the others, without a cross product that nobody asked for; each MIR used is fed from every one of its relations; each
step finds its store under a layout that the store has; and nothing is probed before it is filled or read before it travels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.planner.orders import ProbeOrder, StoreKey, StorePlan
from clash.plan.topology import Topology
from clash.plan.errors import PlanError
from clash.plan.validate_topology import validate_flow


class Planned(Protocol):
    """What of a plan is looked at."""

    @property
    def queries(self) -> tuple[Query, ...]: ...
    @property
    def probe_orders(self) -> tuple[ProbeOrder, ...]: ...
    @property
    def stores(self) -> tuple[StorePlan, ...]: ...
    @property
    def workers(self) -> int: ...
    @property
    def topology(self) -> Topology: ...


def validate(plan: Planned | Topology) -> None:
    """Raises `PlanError`, saying what is wrong, unless the plan can be run."""
    if isinstance(plan, Topology):
        validate_flow(plan)
        return
    layouts = {store.key: store.layouts for store in plan.stores}
    if len(layouts) != len(plan.stores):
        raise PlanError("a store is listed twice")
    joins = {query.name: query for query in plan.queries}
    owners = {store.key.owner for store in plan.stores}
    for query in plan.queries:
        mine = [order for order in plan.probe_orders if query.name in order.queries]
        _one_each(f"query {query.name}", query.join, mine)
        for order in mine:
            _order(order, query.join, [query], layouts, plan.workers)
    probed = {step.store for order in plan.probe_orders for step in order.steps if step.store.join is not None}
    for order in plan.probe_orders:
        unknown = [name for name in order.queries if name not in joins]
        if unknown:
            raise PlanError(f"{order} answers {unknown[0]}, which is not asked")
        if order.feeds is None and not order.queries:
            raise PlanError(f"{order} is for nothing")
    for key in sorted(probed | {o.feeds for o in plan.probe_orders if o.feeds is not None}, key=str):
        if key.join is None:
            raise PlanError(f"{key} is fed, but is no intermediate result")
        asking = [q for q in plan.queries if key.owner in (None, q.name) and q.contains(key.join)]
        if not asking:
            raise PlanError(f"no query contains {key}")
        feeding = [order for order in plan.probe_orders if order.feeds == key]
        _one_each(str(key), key.join, feeding)
        for order in feeding:
            _order(order, key.join, asking, layouts, plan.workers)
            if any(step.store.join is not None and len(step.store.join.relations) >= len(key.join.relations) for step in order.steps):
                raise PlanError(f"{order} feeds {key} from an intermediate result that is no smaller")
    for owner in owners - {None, *joins}:
        raise PlanError(f"a store belongs to {owner}, which is not asked")
    validate_flow(plan.topology)


def _one_each(what: str, join: SubJoin, orders: Sequence[ProbeOrder]) -> None:
    count = Counter(order.origin for order in orders)
    for relation in sorted(join.relations | set(count)):
        if count[relation] != (relation in join.relations):
            raise PlanError(f"{what} has {count[relation]} orders from {relation}")


def _order(order: ProbeOrder, join: SubJoin, queries: list[Query], layouts: dict[StoreKey, tuple[Layout, ...]], workers: int) -> None:
    bound = frozenset([order.origin])
    if order.start != join.sub(bound):
        raise PlanError(f"{order} starts with other filters or windows than {join}")
    for step in order.steps:
        added = step.adds.relations
        if not added or added & bound or not added <= join.relations:
            raise PlanError(f"{order} adds {step.adds}, which is there already or not asked")
        if step.adds != join.sub(added):
            raise PlanError(f"{order} adds {step.adds} under other predicates or windows than {join}")
        _store(order, step.store, step.adds)
        if step.layout not in layouts.get(step.store, ()):
            raise PlanError(f"{order} probes {step}, a layout that the store does not have")
        whole = join.sub(bound | added)
        keyed = [equal for equal in whole.classes if _touches(equal, bound) and _touches(equal, added)]
        if not keyed and not any(link & bound and link & added for query in queries for link in query.links):
            raise PlanError(f"{order} is a cross product at {step}")
        known = step.layout.kind != "hash" or any(
            a.column == step.layout.column and a.relation in (added if step.layout.relation is None else {step.layout.relation})
            for equal in keyed
            for a in equal
        )
        if step.places != (1 if known else workers):
            raise PlanError(f"{order} sends to {step.places} places at {step}")
        bound |= added
    if bound != join.relations:
        raise PlanError(f"{order} does not reach {', '.join(map(str, sorted(join.relations - bound)))}")


def _store(order: ProbeOrder, key: StoreKey, adds: SubJoin) -> None:
    if key.owner is not None and key.owner not in order.queries and (order.feeds is None or order.feeds.owner != key.owner):
        raise PlanError(f"{order} probes {key}, which is another query's")
    if key.join is not None:
        if key.join != adds:
            raise PlanError(f"{order} probes {key} for {adds}")
    elif {r.stream for r in adds.relations} != {key.stream} or len(adds.relations) != 1:
        raise PlanError(f"{order} probes the store of {key.stream} for {adds}")


def _touches(equal: Iterable[tuple[Relation, str]], relations: frozenset[Relation]) -> bool:
    return any(relation in relations for relation, _ in equal)
