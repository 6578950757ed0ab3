"""A plan for programs: everything that the text holds, and the topology, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from clash.explain.computed import ComputedPart, computed_parts, result_rows
from clash.explain.formats import Alternative, StrategyCost
from clash.explain.shares import Shares, share_costs
from clash.model.layout import Layout
from clash.model.projection import Projection
from clash.plan.codecs import topology_to_data
from clash.plan.logical import LogicalPlan, ProbeOrder, Step, StorePlan
from clash.plan.store_names import store_id
from clash.plan.topology import Topology
from clash.planner.cardinalities import Sizes
from clash.topology.trees import Node


def explain_json(
    plan: LogicalPlan,
    topology: Topology,
    compared: Sequence[StrategyCost] | None = None,
    alternatives: Sequence[Alternative] | None = None,
) -> str:
    """A JSON object; `version` changes when a key changes its meaning or goes away."""
    shares = share_costs(plan)
    request, sizes = plan.request, Sizes(plan.request.statistics, dict(plan.streams))
    body: dict[str, Any] = {
        "format": "clash plan",
        "version": 2,
        "workers": plan.workers,
        "strategy": request.strategy,
        "formulation": request.formulation,
        "cost_model": request.cost,
        "layouts": request.layouts,
        "mirs": request.mirs,
        "cost": plan.cost,
        "bound": plan.bound,
        "bound_source": plan.bound_source,
        "optimal": plan.optimal,
        "gap": plan.gap,
        "complete": plan.complete,
        "seconds": plan.seconds,
        "rounds": topology.rounds,
        "parts": {
            "probes": shares.probes,
            "feeds": shares.feeds,
            "checks": shares.checks,
            "stores": shares.stores,
            "rounds": shares.rounds,
        },
        "queries": [
            {"name": q.name, "text": q.text, "join": str(q.join), "share": shares.own[q.name], "in_full": shares.full[q.name]}
            | ({} if q.outer is None else {"outer": q.outer.sql, "outer_final": q.outer.final, "outer_rows": result_rows(plan, q)})
            | ({} if q.projection is None else {"projection": _projection(q.projection), "joined_rows": sizes.rows(q.join)})
            for q in plan.queries
        ],
        "computed": [
            _computed(part) | {"rows": request.statistics.rate(part.stream)} for part in computed_parts(plan.streams.values(), plan.queries)
        ],
        "probe_orders": [_order(o, nodes, shares) for o, nodes in zip(plan.probe_orders, shares.forest.paths, strict=True)],
        "stores": [
            _store(store, shares) | ({"table": True} if store.key.stream is not None and plan.streams[store.key.stream].is_table else {})
            for store in plan.stores
        ],
        "topology": topology_to_data(topology),
    }
    if compared is not None:
        body["strategies"] = [
            {"strategy": c.strategy, "cost": c.cost, "bound": c.bound, "optimal": c.optimal, "stores": c.stores} for c in compared
        ]
    if alternatives is not None:
        body["worth"] = [{"plan": a.name, "cost": a.cost, "optimal": a.optimal} for a in alternatives]
    return json.dumps(body, indent=2, ensure_ascii=False)


def _computed(part: ComputedPart) -> dict[str, Any]:
    """`by`: `spark`, where it reads the stream, or `tasks`."""
    column = {"name": part.name, "type": part.type, "expression": part.expression}
    return {"stream": part.stream, **column, "by": part.place, "used_by": list(part.users)}


def _projection(projection: Projection) -> dict[str, Any]:
    columns = [{"name": column.name, "expression": column.expression, "type": column.type} for column in projection.columns]
    return {"columns": columns, "conditions": list(projection.conditions)}


def _order(order: ProbeOrder, nodes: tuple[Node, ...], shares: Shares) -> dict[str, Any]:
    return {
        "text": str(order),
        "origin": str(order.origin),
        "queries": list(order.queries),
        "feeds": None if order.feeds is None else store_id(order.feeds),
        "cost": order.cost,
        "feed_cost": order.feed_cost,
        "steps": [_step(step, shares.users[node]) for step, node in zip(order.steps, nodes, strict=True)],
    }


def _step(step: Step, users: tuple[str, ...]) -> dict[str, Any]:
    return {
        "store": store_id(step.store),
        "layout": _layout(step.layout),
        "adds": [str(relation) for relation in sorted(step.adds.relations)],
        "tuples": step.sends,
        "places": step.places,
        "stays": step.stays,
        "cost": step.cost,
        "used_by": list(users),
    }


def _store(store: StorePlan, shares: Shares) -> dict[str, Any]:
    return {
        "id": store_id(store.key),
        "name": str(store.key),
        "layouts": [_layout(layout) for layout in store.layouts],
        "rows": store.rows,
        "cost": store.cost,
        "used_by": list(shares.store_users[store.key]),
    }


def _layout(layout: Layout) -> list[Any]:
    relation = None if layout.relation is None else [*layout.relation]
    return [layout.kind, layout.column, relation, *([list(layout.hot)] if layout.hot else [])]
