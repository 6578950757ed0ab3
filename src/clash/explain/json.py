"""A plan for programs: everything that the text says, and the topology, as JSON."""

from __future__ import annotations

import json
from typing import Any

from clash.explain.shares import Shares, share_costs
from clash.planner.orders import ProbeOrder, Step, StorePlan
from clash.planner.plan import Plan
from clash.plan.store_names import store_id
from clash.plan.topology_json import to_json
from clash.topology.trees import Node


def explain_json(plan: Plan, *, compare: bool = True) -> str:
    """`compare` plans for the other strategies too."""
    shares = share_costs(plan)
    asked = plan.asked
    body: dict[str, Any] = {
        "format": "clash plan",
        "version": 1,
        "workers": plan.workers,
        "strategy": asked.strategy,
        "formulation": asked.formulation,
        "cost_model": asked.cost,
        "layouts": asked.layouts,
        "mirs": asked.mirs,
        "cost": plan.cost,
        "bound": plan.bound,
        "optimal": plan.optimal,
        "gap": plan.gap,
        "complete": plan.complete,
        "seconds": plan.seconds,
        "rounds": plan.topology.rounds,
        "parts": {"probes": shares.probes, "feeds": shares.feeds, "stores": shares.stores, "rounds": shares.rounds},
        "queries": [
            {"name": q.name, "text": q.text, "join": str(q.join), "share": shares.own[q.name], "in_full": shares.full[q.name]}
            for q in plan.queries
        ],
        "probe_orders": [_order(o, nodes, shares) for o, nodes in zip(plan.probe_orders, shares.forest.paths, strict=True)],
        "stores": [_store(store, shares) for store in plan.stores],
        "topology": json.loads(to_json(plan.topology)),
    }
    if compare:
        body["strategies"] = [
            {"strategy": c.strategy, "cost": c.cost, "bound": c.bound, "optimal": c.optimal, "stores": c.stores} for c in plan.compare()
        ]
    return json.dumps(body, indent=2, ensure_ascii=False)


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
        "layout": step.layout.to_json(),
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
        "layouts": [layout.to_json() for layout in store.layouts],
        "rows": store.rows,
        "cost": store.cost,
        "used_by": list(shares.store_users[store.key]),
    }
