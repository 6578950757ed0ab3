"""Planning time: both formulations, both layout rules, cost model `probe`, with MIRs, 5 workers, 100 relations.

Each query set is planned twice, once until the plan is provably within 1 % and once until it is proven optimal; times are from text to
plan. The paper's times are shown beside them, although its models were smaller: without MIRs, and never with one layout per store.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clash.errors import ClashError
from clash.plan.options import FormulationName, LayoutRule
from clash.planner.published_program import MAX_ORDERS
from clash_bench import our_planner
from clash_bench.candidates import count_orders
from clash_bench.ilp_plot import draw_times
from clash_bench.paper_values import gurobi
from clash_bench.tables import note, write
from clash_bench.workloads import WORKLOADS, Workload, draw

RELATIONS = 100
NEAR = 0.01  # the gap that counts as near the optimum
LARGEST_OF_PAPER, LARGE = (100, 3), (1000, 3)  # (queries, relations per query): ten times the paper's largest set shows how it scales


@dataclass(frozen=True)
class IlpRow:
    """A line of the CSV file: medians over several query sets. Times are empty where the goal was not reached within the time limit."""

    workload: Workload
    layouts: LayoutRule
    formulation: FormulationName
    drawn: int
    """Queries that were drawn for a set."""
    size: int
    """Relations per query."""
    sets: int
    queries: float
    """Distinct queries among those drawn."""
    candidates: float
    """Probe orders of the published formulation."""
    variables: float | None
    rows: float | None
    near: int
    """Sets whose plan came within 1 %."""
    near_median: float | None
    near_best: float | None
    proven: int
    """Sets whose plan was proven optimal."""
    proven_median: float | None
    proven_best: float | None
    gap: float | None
    """The gap that was left."""
    cost: float | None
    bound: float | None
    time_limit: float
    gurobi: float | None
    """The paper's seconds for as many queries of that size."""
    status: str
    """`ok`, `time limit`, or `too large` to be built at all."""


@dataclass(frozen=True)
class SetResult:
    """The measurements of one query set; None where the program is too large."""

    queries: int
    candidates: int
    near: our_planner.TimedPlan | None
    full: our_planner.TimedPlan | None


def run(
    sizes: Sequence[int],
    counts: Sequence[int],
    formulations: Sequence[FormulationName],
    layouts: Sequence[LayoutRule],
    time_limit: float,
    repeat: int,
    out: Path,
    also: Sequence[tuple[int, int]] | None = None,
    workloads: Sequence[Workload] = WORKLOADS,
) -> None:
    """The options are those of the command `ilp`.

    `also`: further (queries, relations per query) besides all of `counts` × `sizes`; None adds `LARGE` if the paper's largest is measured.
    """
    our_planner.warm_up()
    shapes = {(count, size) for size in sizes for count in counts}
    shapes.update(also if also is not None else [LARGE] if LARGEST_OF_PAPER in shapes else [])
    rows = []
    for workload in workloads:
        for count, size in sorted(shapes, key=lambda shape: (shape[1], shape[0])):
            sets = [draw(workload, RELATIONS, count, size, seed) for seed in range(1, repeat + 1)]
            for rule in layouts:
                for formulation in formulations:
                    row = measure_sets(workload, sets, count, size, rule, formulation, time_limit)
                    note(_describe(row))
                    rows.append(row)
                    write(out / "ilp.csv", IlpRow, rows)  # after every row, because a run takes long and may be stopped
    draw_times(rows, out / "ilp.png")
    note(f"wrote {out / 'ilp.csv'} and {out / 'ilp.png'}")


def measure_sets(
    workload: Workload,
    sets: Sequence[dict[str, str]],
    drawn: int,
    size: int,
    layouts: LayoutRule,
    formulation: FormulationName,
    time_limit: float,
) -> IlpRow:
    measured = [_measure_set(queries, layouts, formulation, time_limit) for queries in sets]
    near = [m.near for m in measured if m.near is not None and m.near.gap <= NEAR + our_planner.PROVEN]
    full = [m.full for m in measured if m.full is not None]
    proven = [timed for timed in full if timed.proven]
    status = "ok" if len(proven) == len(sets) else "time limit"
    if any(m.candidates > MAX_ORDERS for m in measured) and formulation == "published":
        status = "too large"
    return IlpRow(
        workload=workload,
        layouts=layouts,
        formulation=formulation,
        drawn=drawn,
        size=size,
        sets=len(sets),
        queries=statistics.median(m.queries for m in measured),
        candidates=statistics.median(m.candidates for m in measured),
        variables=_median([float(timed.variables) for timed in full]),
        rows=_median([float(timed.rows) for timed in full]),
        near=len(near),
        near_median=_median_reached([timed.seconds for timed in near], len(sets)),
        near_best=min((timed.seconds for timed in near), default=None),
        proven=len(proven),
        proven_median=_median_reached([timed.seconds for timed in proven], len(sets)),
        proven_best=min((timed.seconds for timed in proven), default=None),
        gap=_median([timed.gap for timed in full]),
        cost=_median([timed.cost for timed in full]),
        bound=_median([timed.bound for timed in full]),
        time_limit=time_limit,
        gurobi=gurobi(drawn, size),
        status=status,
    )


def _measure_set(queries: dict[str, str], layouts: LayoutRule, formulation: FormulationName, time_limit: float) -> SetResult:
    candidates = count_orders(queries, our_planner.STATISTICS, our_planner.WORKERS, "probe", layouts)
    near = full = None
    if formulation == "compact" or candidates <= MAX_ORDERS:
        near = _timed(queries, layouts, formulation, time_limit, NEAR)
    if near is not None:
        # a plan that does not come within 1 % in time will not be proven optimal in the same time
        full = _timed(queries, layouts, formulation, time_limit, 0.0) if near.gap <= NEAR + our_planner.PROVEN else near
    return SetResult(len(queries), candidates, near, full)


def _timed(
    queries: dict[str, str], layouts: LayoutRule, formulation: FormulationName, time_limit: float, gap: float
) -> our_planner.TimedPlan | None:
    try:
        return our_planner.plan(queries, cost="probe", layouts=layouts, formulation=formulation, time_limit=time_limit, gap=gap)
    except ClashError:
        if formulation == "published":  # it could not be built in time
            return None
        raise


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _median_reached(seconds: Sequence[float], sets: int) -> float | None:
    """The median over all sets, where sets that did not reach the goal count as slowest; None if the median is one of those."""
    all_seconds = [*sorted(seconds), *[float("inf")] * (sets - len(seconds))]
    median = statistics.median(all_seconds)
    return None if median == float("inf") else median


def _describe(row: IlpRow) -> str:
    def words() -> Iterator[str]:
        yield f"{row.workload} {row.drawn:>4} × {row.size}, layouts {row.layouts:<4}, {row.formulation:<9}"
        yield f"{row.candidates:>11,.0f} orders"
        if row.variables is not None:
            yield f"{row.variables:>7,.0f} variables"
        for label, seconds in (("1 %", row.near_median), ("proof", row.proven_median)):
            yield f"{label} {seconds:.2f} s" if seconds is not None else f"{label} –"
        if row.status != "ok":
            yield row.status + (f", gap {row.gap:.2%}" if row.gap is not None else "")

    return "  ".join(words())
