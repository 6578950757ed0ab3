"""What makes a logical plan valid, whichever planner made it.

Every result is produced once, by its last-arriving tuple: so each query has for each of its relations that are no tables exactly one order
that reaches all the others, without a cross product that the query does not ask for; each intermediate result that is used is fed from
every one of its relations, and has no table; and each step finds its store under a layout that the store has. `validate_topology` checks
what the plan becomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.plan.errors import PlanError
from clash.plan.logical import LogicalPlan, ProbeOrder, Step, StoreKey

Layouts = dict[StoreKey, tuple[Layout, ...]]


def validate_plan(plan: LogicalPlan) -> None:
    """Raises `PlanError`, saying what is wrong, unless the plan can be run."""
    layouts = {store.key: store.layouts for store in plan.stores}
    if len(layouts) != len(plan.stores):
        raise PlanError("a store is listed twice")
    queries = {query.name: query for query in plan.queries}
    for query in plan.queries:
        orders = [order for order in plan.probe_orders if query.name in order.queries]
        _one_order_per_relation(f"query {query.name}", query.streams, orders)
        for order in orders:
            if order.hull is not None and not query.join.is_within(order.hull):
                raise PlanError(f"{order} finds rows of which {query.name} is no part")
            _validate_order(order, order.hull or query.join, [query], layouts, plan.workers)
    for order in plan.probe_orders:
        unknown = [name for name in order.queries if name not in queries]
        if unknown:
            raise PlanError(f"{order} answers {unknown[0]}, which is not a query of the plan")
        if order.feeds is None and not order.queries:
            raise PlanError(f"{order} is for nothing")
    _validate_mirs(plan, layouts)
    for owner in {store.key.owner for store in plan.stores} - {None, *queries}:
        raise PlanError(f"a store belongs to {owner}, which is not a query of the plan")


def _validate_mirs(plan: LogicalPlan, layouts: Layouts) -> None:
    probed = {step.store for order in plan.probe_orders for step in order.steps if step.store.join is not None}
    for key in sorted(probed | {o.feeds for o in plan.probe_orders if o.feeds is not None}, key=str):
        if key.join is None:
            raise PlanError(f"{key} is fed, but is no intermediate result")
        readers = [q for q in plan.queries if key.owner in (None, q.name) and q.refines(key.join)]
        if not readers:
            raise PlanError(f"no query contains {key}")
        if any(key.join.relations & query.tables for query in readers):
            raise PlanError(f"{key} is an intermediate result with a table, whose rows may change")
        feeding = [order for order in plan.probe_orders if order.feeds == key]
        _one_order_per_relation(str(key), key.join.relations, feeding)
        for order in feeding:
            _validate_order(order, key.join, readers, layouts, plan.workers)
            if any(step.store.join is not None and len(step.store.join.relations) >= len(key.join.relations) for step in order.steps):
                raise PlanError(f"{order} feeds {key} from an intermediate result that is no smaller")


def _one_order_per_relation(what: str, relations: frozenset[Relation], orders: Sequence[ProbeOrder]) -> None:
    count = Counter(order.origin for order in orders)
    for relation in sorted(relations | set(count)):
        if count[relation] != (relation in relations):
            raise PlanError(f"{what} has {count[relation]} orders from {relation}")


def _validate_order(order: ProbeOrder, join: SubJoin, queries: list[Query], layouts: Layouts, workers: int) -> None:
    bound = frozenset([order.origin])
    if order.start != join.sub(bound):
        raise PlanError(f"{order} starts with other filters or windows than {join}")
    for step in order.steps:
        added = step.adds.relations
        if not added or added & bound or not added <= join.relations:
            raise PlanError(f"{order} adds {step.adds}, which is bound already or not part of {join}")
        if step.adds != join.sub(added):
            raise PlanError(f"{order} adds {step.adds} under other predicates or windows than {join}")
        _validate_store(order, step.store, step.adds)
        if step.layout not in layouts.get(step.store, ()):
            raise PlanError(f"{order} probes {step}, a layout that the store does not have")
        _validate_addressing(order, step, join, bound, queries, workers)
        bound |= added
    if bound != join.relations:
        raise PlanError(f"{order} does not reach {', '.join(map(str, sorted(join.relations - bound)))}")


def _validate_addressing(
    order: ProbeOrder, step: Step, join: SubJoin, bound: frozenset[Relation], queries: list[Query], workers: int
) -> None:
    """The step is joined by an equality or by a CROSS JOIN, and sent to as many workers as the layout requires."""
    added = step.adds.relations
    keyed = [equal for equal in join.sub(bound | added).classes if _touches(equal, bound) and _touches(equal, added)]
    if not keyed and not any(link & bound and link & added for query in queries for link in query.links):
        raise PlanError(f"{order} is a cross product at {step}")
    knows_target = step.layout.kind != "hash" or any(
        a.column == step.layout.column and a.relation in (added if step.layout.relation is None else {step.layout.relation})
        for equal in keyed
        for a in equal
    )
    if step.places != (1 if knows_target else workers):
        raise PlanError(f"{order} sends to {step.places} places at {step}")


def _validate_store(order: ProbeOrder, key: StoreKey, adds: SubJoin) -> None:
    if key.owner is not None and key.owner not in order.queries and (order.feeds is None or order.feeds.owner != key.owner):
        raise PlanError(f"{order} probes {key}, which belongs to another query")
    if key.join is not None:
        if key.join != adds:
            raise PlanError(f"{order} probes {key} for {adds}")
    elif {r.stream for r in adds.relations} != {key.stream} or len(adds.relations) != 1:
        raise PlanError(f"{order} probes the store of {key.stream} for {adds}")


def _touches(equal: Iterable[tuple[Relation, str]], relations: frozenset[Relation]) -> bool:
    return any(relation in relations for relation, _ in equal)
