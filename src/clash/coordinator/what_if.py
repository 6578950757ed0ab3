"""What one more query would mean: its cost beside the others, what it shares with them, what must be stored for it, when it is complete.

Planned as `add_query` plans, by the heuristic and with the statistics of now; nothing is recorded, and nothing of the run changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from clash.coordinator.control.job import QueryRequest
from clash.coordinator.control.setup import LiveQuery, Setup
from clash.coordinator.coordinator import Coordinator
from clash.coordinator.inspection import result_schema
from clash.coordinator.lifecycle.retention import UNKNOWN_TIME, is_complete, missing_event_times
from clash.explain import explain
from clash.explain.formats import Format
from clash.explain.shares import share_costs
from clash.model.query import Query, query_of
from clash.model.relation import Relation
from clash.model.statistics import Statistics
from clash.model.time_text import instant_text
from clash.plan.logical import LogicalPlan
from clash.plan.store_names import store_id
from clash.plan.topology import Topology
from clash.topology.build import build_topology


@dataclass(frozen=True)
class UsedStore:
    """A store that the query would read or feed."""

    id: str
    name: str
    is_new: bool
    """Whether no query stores this now."""
    rows: float
    """The estimated number of rows, over its window."""
    new_columns: tuple[str, ...]
    """Columns that are not stored now."""
    shared_with: tuple[str, ...]
    """Other queries that use it."""


@dataclass(frozen=True)
class UsedStep:
    """A step of a probe order of the query."""

    order: str
    """The probe order, as the plan's text has it."""
    store: str
    cost: float
    shared_with: tuple[str, ...]


@dataclass(frozen=True)
class Completeness:
    """From when on no result of the query would be missing for want of retained rows."""

    is_complete: bool
    """From its first batch on."""
    needed_watermarks: Mapping[str, str | None]
    """Otherwise, by stream: the event time that its watermark has to pass; None where that cannot be known: the stream has no watermark
    or the window is unbounded."""


@dataclass(frozen=True)
class WhatIf:
    """The answer of `run.what_if`; costs are in the units of the plan's cost model."""

    marginal: float
    """What the query adds to the cost of the plan."""
    alone: float
    """What the query would cost as the only one."""
    cost: float
    """Of the plan without it, and without the query that it replaces."""
    saved: float
    """What the query that it replaces adds to that; 0 where it replaces none."""
    stores: tuple[UsedStore, ...]
    steps: tuple[UsedStep, ...]
    completeness: Completeness
    columns: tuple[tuple[str, str], ...]
    """Names and types of the results."""
    plan: LogicalPlan
    """With the query, under the name that `name` says."""
    name: str

    def explain(self, format: Format = "text") -> str:
        """The plan with the query, as `run.explain` shows the one that runs."""
        return explain(self.plan, build_topology(self.plan), format)

    def to_data(self) -> dict[str, Any]:
        """As plain data that JSON can hold, without the plan."""
        return {
            "name": self.name,
            "marginal": self.marginal,
            "alone": self.alone,
            "cost": self.cost,
            "saved": self.saved,
            "stores": [asdict(store) for store in self.stores],
            "steps": [asdict(step) for step in self.steps],
            "completeness": asdict(self.completeness),
            "columns": [{"name": name, "type": kind} for name, kind in self.columns],
        }


def assess_query(coordinator: Coordinator, request: QueryRequest, replaces: str | None = None) -> WhatIf:
    """What the request would mean beside all queries that run or wait for a boundary, without the one that it replaces."""
    before = coordinator.changes.setup
    stays = before if replaces is None else before.remove_query(replaces)
    after = stays.add_query(request)
    running, statistics = coordinator.generation.plan, coordinator.planning_statistics()
    added, base, plan, alone = plan_addition(stays, after, request.name, statistics, running)
    now = base if replaces is None else before.optimize(statistics, start=running)
    stores, steps = compare_plans(now, plan, request.name)  # what the replaced query stores is there already
    cost = 0.0 if base is None else base.cost
    manifest, is_independent = coordinator.manifest, before.strategy == "independent"
    missing = [
        (branch, missing_event_times(branch, manifest.retention, manifest.lost_until, branch.name if is_independent else None))
        for branch in added.query.branches
    ]
    watermarks = {name: clock.watermark for name, clock in manifest.clocks.items()}
    columns = tuple((field.name, str(field.type)) for field in result_schema(added.query))
    return WhatIf(
        marginal=plan.cost - cost,
        alone=alone.cost,
        cost=cost,
        saved=0.0 if now is None else now.cost - cost,
        stores=stores,
        steps=steps,
        completeness=_completeness(missing, watermarks),
        columns=columns,
        plan=plan,
        name=request.name,
    )


def plan_addition(
    before: Setup, after: Setup, name: str, statistics: Statistics | None, running: LogicalPlan | None
) -> tuple[LiveQuery, LogicalPlan | None, LogicalPlan, LogicalPlan]:
    """The added query; plans without it, with it and for it alone. There is none without it where it is the only one."""
    added = after.query(name)
    base = before.optimize(statistics, start=running) if before.queries else None
    plan = after.optimize(statistics, start=base)
    alone = replace(after, queries=(added,)).optimize(statistics)
    return added, base, plan, alone


def compare_plans(base: LogicalPlan | None, plan: LogicalPlan, name: str) -> tuple[tuple[UsedStore, ...], tuple[UsedStep, ...]]:
    """The stores and steps of the query in the plan that has it."""
    shares = share_costs(plan)
    stored = {} if base is None else _columns(build_topology(base))
    after = _columns(build_topology(plan))
    stores = []
    for store in plan.stores:
        users = shares.store_users[store.key]
        if name in map(query_of, users):
            key = store_id(store.key)
            new = tuple(sorted(after[key] - stored.get(key, set())))
            others = _others(users, name)
            stores.append(UsedStore(key, str(store.key), key not in stored, store.rows, new, others))
    steps: dict[int, UsedStep] = {}
    for order, nodes in zip(plan.probe_orders, shares.forest.paths, strict=True):
        for step, node in zip(order.steps, nodes, strict=True):
            if name in map(query_of, shares.users[node]):
                others = _others(shares.users[node], name)
                steps.setdefault(id(node), UsedStep(str(order), str(step.store), step.cost, others))
    return tuple(stores), tuple(steps.values())


def _others(users: Iterable[str], name: str) -> tuple[str, ...]:
    """The other queries, of whose branches some may be users."""
    return tuple(dict.fromkeys(query for query in map(query_of, users) if query != name))


def _columns(topology: Topology) -> dict[str, set[str]]:
    """By id of a store, its columns; those of an intermediate result with their relation."""
    return {s.id: {column.column if s.join is None else str(column) for column in s.columns} for s in topology.stores}


def _completeness(branches: Iterable[tuple[Query, Mapping[Relation, int]]], watermarks: Mapping[str, int | None]) -> Completeness:
    """Of all branches of a query, each with what may be missing for it."""
    lacking = [(query, missing) for query, missing in branches if not is_complete(query, missing, watermarks)]
    if not lacking:
        return Completeness(True, {})
    needed: dict[str, int | None] = {}
    for query, missing in lacking:
        reach = query.reach()
        for k, event_time in missing.items():
            for j in query.streams - {k}:
                span, watermark = reach[k, j], watermarks.get(j.stream)
                if span is None or event_time >= UNKNOWN_TIME or watermark is None:
                    needed[j.stream] = None
                elif event_time + span >= watermark and needed.get(j.stream, 0) is not None:
                    needed[j.stream] = max(event_time + span, needed.get(j.stream) or event_time + span)
    return Completeness(False, {stream: None if time is None else instant_text(time) for stream, time in sorted(needed.items())})
