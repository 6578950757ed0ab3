"""Timed calls of our own planner."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.options import CostName, FormulationName, LayoutRule, StrategyName

WORKERS = 5
STATISTICS = Statistics(default_rate=1000.0, default_selectivity=0.001)  # as in the paper: all rates equal, selectivity 1/rate
PROVEN = 1e-6  # a gap that counts as a proof, because the solver's tolerances allow no smaller one


Progress = tuple[float, float, float]
"""Seconds so far, cost, bound."""


@dataclass(frozen=True)
class TimedPlan:
    """The outcome of one call of `clash.optimize`."""

    seconds: float
    """From text to plan, including the time to build the integer program."""
    cost: float
    bound: float
    gap: float
    variables: int
    rows: int
    """Rows of the integer program."""
    cpu_seconds: float
    """Of all threads."""
    progress: list[Progress]
    """Whenever cost or bound of a large set improved, and at the end."""

    @property
    def proven(self) -> bool:
        return self.gap <= PROVEN


def plan(
    queries: Mapping[str, str],
    statistics: Statistics = STATISTICS,
    *,
    cost: CostName,
    layouts: LayoutRule,
    strategy: StrategyName = "global",
    formulation: FormulationName = "compact",
    time_limit: float = 60.0,
    gap: float = 0.0,
    streams: Iterable[Stream] | None = None,
) -> TimedPlan:
    """Plans under the paper's number of workers and, unless others are given, its statistics."""
    from clash.optimizer import optimize

    progress: list[Progress] = []
    cpu = time.process_time()
    answer = optimize(
        queries,
        statistics,
        streams=streams,
        workers=WORKERS,
        strategy=strategy,
        formulation=formulation,
        cost=cost,
        layouts=layouts,
        time_limit=time_limit,
        gap=gap,
        on_progress=lambda seconds, cost, bound: progress.append((seconds, cost, bound)),
    )
    cpu = time.process_time() - cpu
    progress.append((answer.seconds, answer.cost, answer.bound))
    # with a requested gap the solver reports everything within it as optimal; what is measured is the gap that was reached
    reached = answer.gap if gap == 0.0 else (answer.cost - answer.bound) / max(answer.cost, 1e-12)
    return TimedPlan(answer.seconds, answer.cost, answer.bound, reached, answer.variables, answer.rows, cpu, progress)


def warm_up() -> None:
    """Plans once, because imports and first calls cost tenths of a second per process, which are not to be measured."""
    plan({"q": "R(a), S(a,b), T(b)"}, cost="probe", layouts="many")
