"""A plan: what was asked, what was found, and how good it provably is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from clash.errors import OptionError
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.cost_model import CostName, LayoutRule
from clash.planner.orders import ProbeOrder, StorePlan
from clash.planner.search_space import FormulationName, StrategyName

if TYPE_CHECKING:
    from clash.plan.topology import Topology

Format = Literal["text", "json", "dot"]
STRATEGIES: tuple[StrategyName, ...] = ("independent", "shared", "global")


@dataclass(frozen=True)
class Asked:
    """What was asked of `optimize`, so that a plan can be made again, for other strategies or with one more query."""

    statistics: Statistics
    streams: Mapping[str, Stream]
    windows: Mapping[str, Mapping[str, str]]
    declared: bool  # were the streams declared, or read off the queries?
    workers: int
    strategy: StrategyName
    formulation: FormulationName
    cost: CostName
    layouts: LayoutRule
    mirs: bool
    time_limit: float
    gap: float


@dataclass(frozen=True)
class Compared:
    """One strategy beside the others."""

    strategy: StrategyName
    cost: float
    bound: float
    optimal: bool
    stores: int


@dataclass(frozen=True)
class WhatIf:
    """`marginal` is what the query adds to the cost of the plan; `alone` what it would cost on its own."""

    plan: Plan
    marginal: float
    alone: float


@dataclass(frozen=True)
class Plan:
    """`bound` is proven: no plan under this cost model costs less. `gap` is (cost − bound) / cost, 0 for a proven optimum.
    `complete` says whether all plans were looked at; for very large queries the bound is what every plan pays at least."""

    queries: tuple[Query, ...]
    asked: Asked
    probe_orders: tuple[ProbeOrder, ...]
    stores: tuple[StorePlan, ...]
    cost: float
    bound: float
    optimal: bool
    rounds: int
    complete: bool
    seconds: float = field(compare=False)
    variables: int = 0
    rows: int = 0

    @property
    def gap(self) -> float:
        return 0.0 if self.optimal or self.cost <= 0 else (self.cost - self.bound) / self.cost

    @property
    def workers(self) -> int:
        return self.asked.workers

    @property
    def strategy(self) -> StrategyName:
        return self.asked.strategy

    @property
    def streams(self) -> Mapping[str, Stream]:
        return self.asked.streams

    @cached_property
    def topology(self) -> Topology:
        from clash.topology import build

        return build(self.queries, dict(self.streams), self.probe_orders, self.stores, self.workers)

    def explain(self, format: Format = "text", *, compare: bool = True) -> str:
        """The plan for people (text), programs (json) or Graphviz (dot). `compare` plans for the other strategies, too."""
        from clash import explain

        if format not in get_args(Format):
            raise OptionError("unknown format", repr(format), "write text, json or dot")
        if format == "dot":
            return explain.explain_dot(self)
        return (explain.explain_text if format == "text" else explain.explain_json)(self, compare=compare)

    def compare(self) -> tuple[Compared, ...]:
        """This plan beside what the other strategies would make of the same queries."""
        return self._compared

    @cached_property
    def _compared(self) -> tuple[Compared, ...]:
        from clash.planner.optimize import replan

        plans = [self if name == self.strategy else replan(self, strategy=name) for name in STRATEGIES]
        return tuple(Compared(p.strategy, p.cost, p.bound, p.optimal, len(p.stores)) for p in plans)

    def what_if(self, query: str, name: str = "what_if") -> WhatIf:
        """The cost of one more query beside those that are planned; nothing changes."""
        from clash.planner.optimize import with_query

        return with_query(self, name, query)

    def _repr_html_(self) -> str:
        from clash import explain

        return explain.explain_html(self)
