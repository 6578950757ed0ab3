"""How far from the optimum large sets are planned in a given time: the gap that is proven, and what it takes in wall and CPU seconds.

A line is a shape of query sets, drawn from several seeds, under one time limit. What is reported per set counts from text to plan.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clash.model.statistics import Statistics
from clash.plan.options import CostName, LayoutRule
from clash_bench import job_like, our_planner
from clash_bench.gaps_plot import draw_gaps
from clash_bench.tables import note, write
from clash_bench.workloads import WORKLOADS, draw, paper_schema

RELATIONS = 100
StatisticsName = Literal["uniform", "varied"]
RATES = (100.0, 300.0, 1_000.0, 3_000.0, 10_000.0)  # of streams, where statistics vary


@dataclass(frozen=True)
class Line:
    """A shape of query sets under a time limit."""

    queries: int
    size: int
    """Relations per query."""
    layouts: LayoutRule
    time_limit: float


LINES = (
    Line(10, 5, "many", 3.0), Line(100, 3, "many", 3.0), Line(30, 5, "one", 3.0), Line(30, 5, "one", 15.0), Line(100, 4, "one", 3.0),
    Line(100, 5, "many", 6.0), Line(100, 5, "one", 6.0), Line(100, 5, "one", 12.0), Line(1000, 3, "many", 6.0), Line(1000, 3, "one", 10.0),
)  # fmt: skip
JOB_LIMITS = (3.0, 24.0)


@dataclass(frozen=True)
class GapRow:
    """A line of the CSV file: medians over several query sets, and the worst."""

    workload: str
    queries: int
    size: int
    """Relations per query; for `job` the most."""
    layouts: LayoutRule
    cost_model: CostName
    statistics: StatisticsName
    time_limit: float
    sets: int
    proven: int
    """Sets whose plan was proven optimal."""
    gap: float
    worst_gap: float
    seconds: float
    worst_seconds: float
    cpu_seconds: float
    worst_cpu_seconds: float
    cost: float
    bound: float


def run(
    cost: CostName, statistics_name: StatisticsName, lines: Sequence[Line], job_limits: Sequence[float], repeat: int, out: Path
) -> None:
    """The options are those of the command `gaps`."""
    our_planner.warm_up()
    rows: list[GapRow] = []
    curves: dict[str, tuple[float, list[our_planner.Progress]]] = {}
    name = f"gaps-{cost}-{statistics_name}"
    for line in lines:
        for workload in WORKLOADS:
            sets = [draw(workload, RELATIONS, line.queries, line.size, seed) for seed in range(1, repeat + 1)]
            plans = [_plan(queries, _statistics(statistics_name, workload, seed), cost, line) for seed, queries in enumerate(sets, 1)]
            rows.append(_row(workload, line, cost, statistics_name, plans))
            curves[f"{workload} {line.queries:,}×{line.size} {line.layouts}, {line.time_limit:g} s"] = (line.time_limit, plans[0].progress)
            _record(rows, out / f"{name}.csv")
    for limit in job_limits:
        line = Line(sum(count for _, count in job_like.FAMILIES), max(size for size, _ in job_like.FAMILIES), "one", limit)
        given = job_like.varied() if statistics_name == "varied" else our_planner.STATISTICS
        plans = [_plan(job_like.draw(seed), given, cost, line, is_job=True) for seed in range(1, repeat + 1)]
        rows.append(_row("job", line, cost, statistics_name, plans))
        _record(rows, out / f"{name}.csv")
    draw_gaps(curves, out / f"{name}.png")
    note(f"wrote {out / name}.csv and .png")


def _statistics(name: StatisticsName, workload: str, seed: int) -> Statistics:
    """Uniform as in the paper, or a rate per stream, from which selectivities do not follow."""
    if name == "uniform":
        return our_planner.STATISTICS
    rng = random.Random(f"rates/{workload}/{seed}")
    names: Iterable[str] = paper_schema(RELATIONS).relations if workload == "walk" else (f"R{i}" for i in range(RELATIONS))
    return Statistics(rates={stream: rng.choice(RATES) for stream in names}, default_selectivity=0.001)


def _plan(queries: Mapping[str, str], given: Statistics, cost: CostName, line: Line, is_job: bool = False) -> our_planner.TimedPlan:
    streams = job_like.streams() if is_job else None
    return our_planner.plan(queries, given, cost=cost, layouts=line.layouts, time_limit=line.time_limit, streams=streams)


def _row(workload: str, line: Line, cost: CostName, name: StatisticsName, plans: Sequence[our_planner.TimedPlan]) -> GapRow:
    def median(values: Iterable[float]) -> float:
        return statistics.median(values)

    return GapRow(
        workload, line.queries, line.size, line.layouts, cost, name, line.time_limit, len(plans), sum(plan.proven for plan in plans),
        median(plan.gap for plan in plans), max(plan.gap for plan in plans),
        median(plan.seconds for plan in plans), max(plan.seconds for plan in plans),
        median(plan.cpu_seconds for plan in plans), max(plan.cpu_seconds for plan in plans),
        median(plan.cost for plan in plans), median(plan.bound for plan in plans),
    )  # fmt: skip


def _record(rows: Sequence[GapRow], path: Path) -> None:
    write(path, GapRow, rows)  # after every row, because a run takes long and may be stopped
    row = rows[-1]
    note(
        f"{row.workload} {row.queries:>5,} × {row.size}, layouts {row.layouts:<4}, limit {row.time_limit:>4g} s: "
        f"gap {row.gap:.2%} (worst {row.worst_gap:.2%}), {row.seconds:.2f} s (worst {row.worst_seconds:.2f}), "
        f"CPU {row.cpu_seconds:.2f} s, {row.proven} of {row.sets} proven"
    )
