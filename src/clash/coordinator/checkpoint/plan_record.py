"""A plan as JSON and back, without loss: what a generation remembers of it.

Queries are written as they were understood, so a plan fits its queries whatever becomes of the parser. A sub-join is written once and
named by its number elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clash.model.layout import Layout
from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.orders import ProbeOrder, Step, StoreKey, StorePlan
from clash.planner.plan import Asked, Plan
from clash.plan.json_codecs import join_from_json, join_to_json, query_from_json, query_to_json

MOST_NUMBERS = 2_000  # of one kind of statistics: a record stays small


class _Joins(dict[SubJoin, int]):
    """Numbers sub-joins as they are met."""

    def __missing__(self, join: SubJoin) -> int:
        self[join] = len(self)
        return self[join]


def plan_to_json(plan: Plan) -> dict[str, Any]:
    joins = _Joins()
    asked = plan.asked
    body = {
        "queries": [query_to_json(query) for query in plan.queries],
        "orders": [_order(order, joins) for order in plan.probe_orders],
        "stores": [[_key(s.key, joins), [layout.to_json() for layout in s.layouts], s.rows, s.cost] for s in plan.stores],
        "asked": {
            "statistics": _cut(asked.statistics).to_json(),
            "windows": {query: dict(windows) for query, windows in asked.windows.items()},
            "workers": asked.workers,
            "strategy": asked.strategy,
            "formulation": asked.formulation,
            "cost": asked.cost,
            "layouts": asked.layouts,
            "mirs": asked.mirs,
            "time_limit": asked.time_limit,
            "gap": asked.gap,
        },
        "cost": plan.cost,
        "bound": plan.bound,
        "optimal": plan.optimal,
        "rounds": plan.rounds,
        "complete": plan.complete,
        "seconds": plan.seconds,
        "variables": plan.variables,
        "rows": plan.rows,
    }
    return {**body, "joins": [join_to_json(join) for join in joins]}


def plan_from_json(data: Mapping[str, Any], streams: Mapping[str, Stream]) -> Plan:
    joins = [join_from_json(join) for join in data["joins"]]
    asked = {**data["asked"], "statistics": Statistics.from_json(data["asked"]["statistics"])}
    numbers = {name: data[name] for name in ("cost", "bound", "optimal", "rounds", "complete", "seconds", "variables", "rows")}
    return Plan(
        queries=tuple(query_from_json(query) for query in data["queries"]),
        asked=Asked(streams=streams, declared=True, **asked),
        probe_orders=tuple(_read_order(order, joins) for order in data["orders"]),
        stores=tuple(
            StorePlan(_read_key(key, joins), tuple(map(Layout.from_json, all_)), rows, cost) for key, all_, rows, cost in data["stores"]
        ),
        **numbers,
    )


def _cut(statistics: Statistics) -> Statistics:
    """What a workload of any sensible size has; more would be copied with every generation."""
    told = statistics.to_json()
    some = {name: dict(list(told[name].items())[:MOST_NUMBERS]) for name in ("rates", "selectivities")}
    return Statistics.from_json({**told, **some, "sizes": told["sizes"][:MOST_NUMBERS]})


def _key(key: StoreKey, joins: _Joins) -> list[Any]:
    return [key.stream, None if key.join is None else joins[key.join], key.owner]


def _read_key(data: list[Any], joins: list[SubJoin]) -> StoreKey:
    stream, join, owner = data
    return StoreKey(stream, None if join is None else joins[join], owner)


def _order(order: ProbeOrder, joins: _Joins) -> dict[str, Any]:
    return {
        "origin": [*order.origin],
        "start": joins[order.start],
        "steps": [[_key(s.store, joins), s.layout.to_json(), joins[s.adds], s.sends, s.places, s.stays, s.cost] for s in order.steps],
        "queries": [*order.queries],
        "feeds": None if order.feeds is None else _key(order.feeds, joins),
        "feed_cost": order.feed_cost,
    }


def _read_order(data: Mapping[str, Any], joins: list[SubJoin]) -> ProbeOrder:
    steps = tuple(
        Step(_read_key(key, joins), Layout.from_json(layout), joins[adds], *numbers) for key, layout, adds, *numbers in data["steps"]
    )
    feeds = None if data["feeds"] is None else _read_key(data["feeds"], joins)
    return ProbeOrder(Relation(*data["origin"]), joins[data["start"]], steps, tuple(data["queries"]), feeds, data["feed_cost"])
