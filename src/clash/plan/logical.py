"""The logical plan: probe orders and stores, what was requested, and how good the answer provably is.

The planner writes it, `clash.topology` turns it into a topology, `clash.explain` shows it, the checkpoint records it. It is frozen data
without behaviour of its own, so none of them needs to know another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.options import BoundSource, CostName, FormulationName, LayoutRule, StrategyName


@dataclass(frozen=True, slots=True)
class StoreKey:
    """Which store: that of a stream, or that of an intermediate result."""

    stream: str | None
    """The stream whose tuples a base store holds; None for an intermediate result."""
    join: SubJoin | None
    """The sub-join whose results an intermediate store holds; None for a base store."""
    owner: str | None = None
    """The only query that uses the store, under the strategy `independent`; None where queries share it."""

    def __str__(self) -> str:
        name = self.stream if self.join is None else "(" + " ⋈ ".join(str(r) for r in sorted(self.join.relations)) + ")"
        return f"{name}" if self.owner is None else f"{self.owner}:{name}"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a probe order: a partial result probes a store."""

    store: StoreKey
    layout: Layout
    """The layout of the store that the step probes."""
    adds: SubJoin
    """What the store adds to the partial result."""
    sends: float
    """The estimated number of tuples that are sent, per window."""
    places: int
    """The number of workers that each tuple is sent to: χ in the paper."""
    stays: bool
    """Whether the tuples are on the right worker already, so that nothing crosses the network."""
    cost: float

    def __str__(self) -> str:
        return f"{self.store}[{self.layout}]"


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """The stores that a tuple of one relation probes, in this order."""

    origin: Relation
    """The relation whose arriving tuples follow the order."""
    start: SubJoin
    """The origin alone, with its own filters and window."""
    steps: tuple[Step, ...]
    queries: tuple[str, ...]
    """The queries that the end of the order answers."""
    feeds: StoreKey | None = None
    """The intermediate store that the end of the order fills."""
    feed_cost: float = 0.0
    hull: SubJoin | None = None
    """The join whose rows the order finds, where it is weaker than those of its queries: each of them takes the rows that pass its own
    filters, residuals and windows. None where it is the queries' own."""

    @property
    def cost(self) -> float:
        return sum(step.cost for step in self.steps) + self.feed_cost

    def __str__(self) -> str:
        return " » ".join([str(self.origin), *map(str, self.steps)])


@dataclass(frozen=True, slots=True)
class StorePlan:
    """A store and its layouts; more than one layout means as many copies."""

    key: StoreKey
    layouts: tuple[Layout, ...]
    rows: float
    """The estimated number of rows, over its window."""
    cost: float
    """What inserting into it and keeping it costs."""

    def __str__(self) -> str:
        return ", ".join(f"{self.key}[{layout}]" for layout in self.layouts)


@dataclass(frozen=True)
class PlanRequest:
    """What was requested, so that a plan can be made again: for another strategy, or with one more query."""

    statistics: Statistics
    streams: Mapping[str, Stream]
    windows: Mapping[str, Mapping[str, str]]
    """Per query, the windows that it was given as an argument, by alias or stream."""
    declared: bool
    """Whether the streams were declared, or inferred from the queries."""
    workers: int
    strategy: StrategyName
    formulation: FormulationName
    cost: CostName
    layouts: LayoutRule
    mirs: bool
    """Whether intermediate results may be kept."""
    time_limit: float
    """Seconds; 0 asks for the heuristic alone."""
    gap: float
    """The search ends once the plan is provably within this share of the optimum."""


@dataclass(frozen=True)
class LogicalPlan:
    """The answer of the planner."""

    queries: tuple[Query, ...]
    request: PlanRequest
    probe_orders: tuple[ProbeOrder, ...]
    stores: tuple[StorePlan, ...]
    cost: float
    bound: float
    """Proven: no plan under this cost model costs less."""
    optimal: bool
    rounds: int
    complete: bool
    """Whether every plan was considered. For very large queries it is False, and the bound is what every plan pays at least."""
    seconds: float = field(compare=False)
    variables: int = 0
    """The size of the integer program; 0 where none was solved."""
    rows: int = 0
    bound_source: BoundSource = "floor"
    """Where the bound comes from; if it is the sum of several, the weakest of their sources."""

    @property
    def gap(self) -> float:
        """(cost − bound) / cost; 0 for a proven optimum."""
        return 0.0 if self.optimal or self.cost <= 0 else (self.cost - self.bound) / self.cost

    @property
    def workers(self) -> int:
        return self.request.workers

    @property
    def strategy(self) -> StrategyName:
        return self.request.strategy

    @property
    def streams(self) -> Mapping[str, Stream]:
        return self.request.streams
