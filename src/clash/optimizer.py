"""`clash.optimize` and `clash.Plan`: planning as users call it, without Spark.

This is the only module that puts parsing, planning, the topology and explaining together; none of these packages imports another for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

from clash import explain
from clash.errors import OptionError, UnknownNameError
from clash.explain.formats import Alternative, Format, StrategyCost
from clash.hints import did_you_mean, listed
from clash.model.query import Query, query_of
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan, PlanRequest
from clash.plan.options import STRATEGIES, CostName, FormulationName, LayoutRule, StrategyName, check_options
from clash.plan.topology import Topology
from clash.plan.validate_plan import validate_plan
from clash.plan.validate_topology import validate_topology
from clash.planner.optimize import OnProgress, plan_queries
from clash.sql import parse_queries
from clash.sql.statistics_text import normal_statistics
from clash.topology.build import build_topology


@dataclass(frozen=True)
class WhatIf:
    """The answer of `Plan.what_if`."""

    plan: Plan
    marginal: float
    """What the query adds to the cost of the plan."""
    alone: float
    """What the query would cost as the only query."""


@dataclass(frozen=True)
class Plan(LogicalPlan):
    """A logical plan, with the methods that users call on it."""

    @staticmethod
    def of(plan: LogicalPlan) -> Plan:
        """The same plan, as a `Plan`."""
        return Plan(**{field.name: getattr(plan, field.name) for field in fields(plan)})

    @cached_property
    def topology(self) -> Topology:
        """The physical plan: stores, edges and rules."""
        return build_topology(self)

    def explain(self, format: Format = "text", *, compare: bool = True, worth: bool = False) -> str:
        """The plan for people ("text"), programs ("json") or Graphviz ("dot").

        `compare`: whether text and JSON also show what the other strategies cost, which has to plan with each of them once.
        `worth`: whether they show what intermediate results, sharing and layouts are worth, which takes up to four plans.
        """
        if format == "dot":
            return explain.explain(self, self.topology, format)
        return explain.explain(self, self.topology, format, self.compare() if compare else None, self.alternatives() if worth else None)

    def compare(self) -> tuple[StrategyCost, ...]:
        """What every strategy costs for the same queries; this plan is one of them."""
        return self._strategy_costs

    @cached_property
    def _strategy_costs(self) -> tuple[StrategyCost, ...]:
        plans = [self if name == self.strategy else replan(self, strategy=name) for name in STRATEGIES]
        return tuple(StrategyCost(p.strategy, p.cost, p.bound, p.optimal, len(p.stores)) for p in plans)

    def alternatives(self) -> tuple[Alternative, ...]:
        """What each part of the plan is worth: plans for the same queries under one other option, each within the same time limit."""
        return self._alternatives

    @cached_property
    def _alternatives(self) -> tuple[Alternative, ...]:
        changes: list[tuple[str, dict[str, Any]]] = [
            *([("without intermediate results", {"mirs": False})] if self.request.mirs else []),
            *([("several layouts per store", {"layouts": "many"})] if self.request.layouts == "one" else []),
            *([("one layout per store", {"layouts": "one"})] if self.request.layouts == "many" else []),
        ]
        plans = [(name, plan_queries(self.queries, replace(self.request, **change), start=self)) for name, change in changes]
        found = [Alternative(name, plan.cost, plan.optimal) for name, plan in plans]
        strategies = {"independent": "without sharing", "shared": "sharing only equal parts of separate plans"}
        shared = [c for c in self.compare() if c.strategy in strategies] if len(self.queries) > 1 and self.strategy == "global" else []
        # Neither is the best plan of its kind: stores of single queries have layouts of their own, and plans are not made for each other.
        return (*found, *(Alternative(strategies[c.strategy], c.cost, False) for c in shared))

    def why(self, query: str, format: Literal["text", "json"] = "text") -> str:
        """What keeps a query expensive: its dearest parts, broadcasts, intermediate results that are not kept, steps that it nearly shares.

        It plans for the query alone and for all others, each within the time limit of the plan.
        """
        if format not in ("text", "json"):
            raise OptionError("unknown format", repr(format), "write text or json")
        own = tuple(planned for planned in self.queries if query_of(planned.name) == query)
        if not own:
            names = {query_of(planned.name) for planned in self.queries}
            raise UnknownNameError("unknown query", repr(query), did_you_mean(query, names, f"queries are {listed(sorted(names))}"))
        others = tuple(planned for planned in self.queries if planned not in own)
        alone, without = (plan_queries(queries, self.request, start=self).cost for queries in (own, others))
        answer = explain.explain_why(self, query, alone, without)
        return explain.why_text(answer) if format == "text" else explain.why_json(answer)

    def what_if(self, query: str, name: str = "what_if") -> WhatIf:
        """The cost of one more query beside the planned ones; this plan stays as it is."""
        if any(planned.name == name for planned in self.queries):
            raise OptionError("there is a query of that name already", repr(name), "give the new one another name")
        texts = {planned.name: planned.text for planned in self.queries if planned.name == query_of(planned.name)} | {name: query}
        request = self.request
        parsed, used = parse_queries(texts, dict(request.streams) if request.declared else None, request.windows)
        request = replace(request, streams=request.streams if request.declared else used)
        only_query = plan_queries(tuple(q for q in parsed if query_of(q.name) == name), request)
        all_queries = plan_queries(parsed, request, start=self)
        return WhatIf(Plan.of(all_queries), marginal=all_queries.cost - self.cost, alone=only_query.cost)

    def _repr_html_(self) -> str:
        return explain.explain_html(self, self.topology)


def optimize(
    queries: Mapping[str, str],
    statistics: Statistics | None = None,
    *,
    streams: Iterable[Stream] | None = None,
    windows: Mapping[str, Mapping[str, str]] | None = None,
    workers: int = 4,
    strategy: StrategyName = "global",
    formulation: FormulationName = "compact",
    cost: CostName = "full",
    layouts: LayoutRule = "one",
    mirs: bool = True,
    time_limit: float = 10.0,
    gap: float = 0.0,
    start: LogicalPlan | None = None,
    on_progress: OnProgress | None = None,
) -> Plan:
    """The cheapest plan for all queries together.

    `time_limit` bounds the search, in seconds: the answer is the best plan found by then, with the bound proven by then; 0 runs only the
    heuristic, which never waits for the solver. `gap` ends the search earlier, once the plan is provably within that share of the optimum.
    `on_progress` is called, for a large set, with the seconds so far, the cost of the best plan and its bound, when one of them improves.
    `start` is a plan to begin the search with. Without `streams`, schemas are inferred from the queries.
    """
    began = time.perf_counter()
    if start is not None and not isinstance(start, LogicalPlan):
        raise OptionError("start is not a plan", type(start).__name__, "give what clash.optimize returned")
    if windows is not None and not (isinstance(windows, Mapping) and all(isinstance(w, Mapping) for w in windows.values())):
        raise OptionError("windows are not a table", repr(windows), 'write windows={"q1": {"R": "5 seconds"}}')
    statistics = Statistics() if statistics is None else statistics
    check_options(
        statistics=statistics, workers=workers, strategy=strategy, formulation=formulation, cost=cost, layouts=layouts,
        time_limit=time_limit, gap=gap, mirs=mirs,
    )  # fmt: skip
    declared = None if streams is None else _by_name(streams)
    parsed, used = parse_queries(queries, declared, windows)
    schemas = {**(declared or {}), **used}  # those that are used have the columns that tasks compute
    request = PlanRequest(
        statistics=normal_statistics(statistics, schemas), streams=schemas, windows=windows or {}, declared=declared is not None,
        workers=workers, strategy=strategy, formulation=formulation, cost=cost, layouts=layouts, mirs=mirs,
        time_limit=float(min(time_limit, 1e9)), gap=float(gap),
    )  # fmt: skip
    return Plan.of(plan_queries(parsed, request, start=start, began=began, on_progress=on_progress))


def validate(plan: LogicalPlan | Topology) -> None:
    """Raises `PlanError`, saying what is wrong, unless the plan, and the topology that it becomes, can be run."""
    if isinstance(plan, LogicalPlan):
        validate_plan(plan)
        plan = build_topology(plan)
    validate_topology(plan)


def replan(plan: LogicalPlan, queries: tuple[Query, ...] | None = None, **changes: Any) -> Plan:
    """The same queries, or others, under other options of the request."""
    return Plan.of(plan_queries(plan.queries if queries is None else queries, replace(plan.request, **changes)))


def _by_name(streams: Iterable[Stream]) -> dict[str, Stream]:
    """Checks what the user passed as `streams`; a mapping counts by its values."""
    by_name: dict[str, Stream] = {}
    if not isinstance(streams, Iterable):
        raise OptionError("streams are not a list of streams", repr(streams), 'write streams=[clash.Stream.of("R", {"a": "bigint"})]')
    for stream in streams.values() if isinstance(streams, Mapping) else streams:
        if not isinstance(stream, Stream):
            raise OptionError("not a stream", repr(stream), 'write clash.Stream.of("R", {"a": "bigint"})')
        if stream.name in by_name:
            raise OptionError("two streams of one name", stream.name, "give one of them another name")
        by_name[stream.name] = stream
    return by_name
