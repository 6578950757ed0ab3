"""A plan as the data of a picture that programs draw: streams, stores, and probe steps with who uses them.

Unlike the pictures of `drawing`, it is also of a topology with branches, as runs have it after a change: users are read off the topology
itself. Steps have the labels of their edges, which is what runs measure tuples by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clash.explain.computed import computed_parts
from clash.explain.drawing import EVERYWHERE, LOCAL, NETWORK
from clash.explain.shares import Shares, share_costs
from clash.model.layout import Layout
from clash.model.query import Query, query_of
from clash.plan.logical import LogicalPlan
from clash.plan.store_names import store_id
from clash.plan.topology import Edge, Origin, ProbeRule, Store, Topology

_MICROS = 1e6


def picture_data(plan: LogicalPlan, topology: Topology) -> dict[str, Any]:
    """`plan`: the plan that the topology was made of. Costs are in the planner's unit; those of branches are not known."""
    shares = share_costs(plan)
    users = step_users(topology)
    store_users = {store_id(key): names for key, names in shares.store_users.items()}
    planned = {store_id(store.key): store for store in plan.stores}
    costs = _step_costs(plan)
    paths = _paths(topology)
    return {
        "workers": topology.workers,
        "rounds": topology.rounds,
        "streams": [
            {
                "name": stream.name,
                "is_table": stream.is_table,
                "columns": [*map(list, stream.columns)],
                "time": stream.time,
                "window": _seconds(stream.window),
                "computed": [
                    {"name": part.name, "expression": part.expression, "by": part.place}
                    for part in computed_parts([stream], topology.queries)
                ],
            }
            for stream in topology.streams
        ],
        "stores": [
            {
                "id": store.id,
                "name": _store_name(store),
                "stream": store.stream,
                "parts": _parts(store),
                "owner": store.owner,
                "layouts": [layout_text(layout, topology.workers) for layout in store.layouts],
                "window": _seconds(store.horizon),
                "rows": planned[store.id].rows if store.id in planned else None,
                "cost": planned[store.id].cost if store.id in planned else None,
                "users": _queries(store_users.get(store.id, ())),
            }
            for store in topology.stores
        ],
        "origins": [_origin(origin) for origin in topology.origins],
        "steps": [
            _step(topology, edge, rule, users[edge.label], costs.get(paths[edge.label]))
            for edge in topology.edges
            if isinstance(rule := topology.rule[edge.store, edge.label], ProbeRule)
        ],
        "queries": _shown_queries(plan, shares),
        "cost": {
            "total": plan.cost,
            "probes": shares.probes,
            "feeds": shares.feeds,
            "checks": shares.checks,
            "stores": shares.stores,
            "rounds": shares.rounds,
        },
    }


def _shown_queries(plan: LogicalPlan, shares: Shares) -> list[dict[str, Any]]:
    """The branches of a query with UNION ALL, which are queries to the plan, are one."""
    shown: dict[str, dict[str, Any]] = {}
    for query in plan.queries:
        entry = shown.setdefault(query_of(query.name), _new_entry(query))
        entry["share"] += shares.own[query.name]
        entry["in_full"] += shares.full[query.name]
        entry["streams"] = sorted({*entry["streams"], *(relation.stream for relation in query.join.relations)})
    return list(shown.values())


def _new_entry(query: Query) -> dict[str, Any]:
    """`in_spark`: what Spark computes of the joined rows (`projection`), and of the results (`outer`)."""
    in_spark = [part for part, is_there in (("projection", query.projection), ("outer", query.outer)) if is_there is not None]
    return {"name": query_of(query.name), "share": 0.0, "in_full": 0.0, "streams": [], "in_spark": in_spark}


def _queries(names: Iterable[str]) -> list[str]:
    """The queries of branches, each once."""
    return _unique(query_of(name) for name in names)


def step_users(topology: Topology) -> dict[str, tuple[str, ...]]:
    """By label of a probe step, the queries that it works for: those that it or a later step answers, directly or through an intermediate
    result that is filled on the way."""
    rules = {rule.edge: rule for rule in topology.rules if isinstance(rule, ProbeRule)}
    users: dict[str, set[str]] = {label: set(rule.emits) for label, rule in rules.items()}
    of_store: dict[str, set[str]] = {store.id: set() for store in topology.stores}
    children_first = [label for label in reversed([edge.label for edge in topology.edges]) if label in rules]
    changed = True
    while changed:  # an intermediate result may be built from another one
        changed = False
        for label in children_first:
            rule = rules[label]
            fed = (of_store[topology.edge[feed].store] for feed in rule.feeds)
            found = users[label].union(*(users[child] for child in rule.out), *fed)
            if found != users[label] or not found <= of_store[rule.store]:
                users[label] = found
                of_store[rule.store] |= found
                changed = True
    order = [query.name for query in topology.queries]
    return {label: tuple(name for name in order if name in found) for label, found in users.items()}


def layout_text(layout: Layout, workers: int) -> str:
    """How a store is partitioned, in words."""
    if layout.kind == "all":
        return "a copy on every worker" if workers > 1 else "on the one worker"
    if layout.kind == "one":
        return "on one worker"
    if layout.column is None:
        return "by arrival"
    by = f"by {layout._replace(hot=())}"
    return f"{by}, {len(layout.hot)} frequent {'value' if len(layout.hot) == 1 else 'values'} spread" if layout.hot else by


def _store_name(store: Store) -> str:
    return str(store.stream) if store.join is None else " ⋈ ".join(_parts(store))


def _parts(store: Store) -> list[str]:
    return [str(store.stream)] if store.join is None else [str(relation) for relation in sorted(store.join.relations)]


def _origin(origin: Origin) -> dict[str, Any]:
    return {
        "id": origin.label,
        "name": str(origin.relation),
        "stream": origin.relation.stream,
        "owner": origin.owner,
        "emits": _queries(origin.emits),
        "backfills": origin.backfills,
    }


def _step(topology: Topology, edge: Edge, rule: ProbeRule, users: tuple[str, ...], cost: float | None) -> dict[str, Any]:
    travels = EVERYWHERE if edge.address.kind == "all" and topology.workers > 1 else LOCAL if edge.stays else NETWORK
    return {
        "id": edge.label,
        "parent": edge.source.name,
        "store": edge.store,
        "layout": layout_text(edge.layout, topology.workers),
        "keys": [f"{key.bound} = {key.stored}" for key in rule.keys],
        "adds": [str(relation) for relation in sorted(rule.adds.relations)],
        "travels": travels,
        "round": edge.position.round,
        "users": _queries(users),
        "emits": _queries(rule.emits),
        "feeds": _unique(topology.edge[label].store for label in rule.feeds),
        "cost": cost,
        "is_branch": bool(rule.since) or rule.before is not None,
    }


def _unique(names: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(names)]


_Path = tuple[str, str | None, tuple[tuple[str, Layout], ...]]


def _step_costs(plan: LogicalPlan) -> dict[_Path, float]:
    """By path from the origin on, what its last step costs."""
    costs: dict[_Path, float] = {}
    for order in plan.probe_orders:
        taken: tuple[tuple[str, Layout], ...] = ()
        for step in order.steps:
            taken = (*taken, (store_id(step.store), step.layout))
            costs[str(order.origin), step.store.owner, taken] = step.cost
    return costs


def _paths(topology: Topology) -> Mapping[str, _Path]:
    """By label of an edge, the way to it."""
    found: dict[str, _Path] = {origin.label: (str(origin.relation), origin.owner, ()) for origin in topology.origins}
    for edge in topology.edges:  # parents come first
        if edge.source.kind != "stream" and edge.source.name in found:
            origin, owner, taken = found[edge.source.name]
            found[edge.label] = (origin, owner, (*taken, (edge.store, edge.layout)))
    return found


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / _MICROS
