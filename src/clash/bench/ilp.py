"""How long the planner takes: both formulations, both layout rules, `probe` cost, MIRs on, 5 workers, over 100 relations.

Each line is measured twice, once until the plan is provably within 1 % and once until it is proven optimal; times are from text to plan.
The paper's figures stand beside, though its models were smaller: without MIRs, and never with one layout per store.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clash.bench import own
from clash.bench.candidates import count_orders
from clash.bench.ilp_plot import draw_times
from clash.bench.paper_values import gurobi
from clash.bench.tables import note, write
from clash.bench.workloads import WORKLOADS, Workload, draw
from clash.errors import ClashError
from clash.planner.cost_model import LayoutRule
from clash.planner.published_program import MOST_ORDERS
from clash.planner.search_space import FormulationName

RELATIONS = 100
NEAR = 0.01
SISTER, LARGE = (100, 3), (1000, 3)  # the paper stops at 100 queries; ten times as many show how far it goes


@dataclass(frozen=True)
class Line:
    """Medians over the query sets, and the best of them. Times are empty where a set did not get there within the time limit.

    `drawn` queries have `queries` distinct ones among them; `candidates` are the probe orders of the published formulation;
    `near` and `proven` count the sets that came within 1 % and to a proof; `gap` is the median of what was left; `gurobi` the
    paper's seconds for as many queries of that size. `status` is ok, time limit or too large (to be built at all).
    """

    workload: Workload
    layouts: LayoutRule
    formulation: FormulationName
    drawn: int
    size: int
    sets: int
    queries: float
    candidates: float
    variables: float | None
    rows: float | None
    near: int
    near_median: float | None
    near_best: float | None
    proven: int
    proven_median: float | None
    proven_best: float | None
    gap: float | None
    cost: float | None
    bound: float | None
    time_limit: float
    gurobi: float | None
    status: str


@dataclass(frozen=True)
class Measured:
    """One query set; no runs where the program is too large."""

    queries: int
    candidates: int
    near: own.Timed | None
    full: own.Timed | None


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
    """`also` are further (queries, relations per query) besides all of `counts` × `sizes`; None adds `LARGE` to its smaller sister."""
    own.warm_up()
    shapes = {(count, size) for size in sizes for count in counts}
    shapes.update(also if also is not None else [LARGE] if SISTER in shapes else [])
    lines = []
    for workload in workloads:
        for count, size in sorted(shapes, key=lambda shape: (shape[1], shape[0])):
            sets = [draw(workload, RELATIONS, count, size, seed) for seed in range(1, repeat + 1)]
            for rule in layouts:
                for formulation in formulations:
                    line = measure(workload, sets, count, size, rule, formulation, time_limit)
                    note(_say(line))
                    lines.append(line)
                    write(out / "ilp.csv", Line, lines)  # after every line: a run takes long, and may be stopped
    draw_times(lines, out / "ilp.png")
    note(f"wrote {out / 'ilp.csv'} and {out / 'ilp.png'}")


def measure(
    workload: Workload,
    sets: Sequence[dict[str, str]],
    drawn: int,
    size: int,
    layouts: LayoutRule,
    formulation: FormulationName,
    time_limit: float,
) -> Line:
    measured = [_measure(queries, layouts, formulation, time_limit) for queries in sets]
    near = [m.near for m in measured if m.near is not None and m.near.gap <= NEAR + own.PROVEN]
    full = [m.full for m in measured if m.full is not None]
    proven = [timed for timed in full if timed.proven]
    status = "ok" if len(proven) == len(sets) else "time limit"
    if any(m.candidates > MOST_ORDERS for m in measured) and formulation == "published":
        status = "too large"
    return Line(
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
        near_median=_reached([timed.seconds for timed in near], len(sets)),
        near_best=min((timed.seconds for timed in near), default=None),
        proven=len(proven),
        proven_median=_reached([timed.seconds for timed in proven], len(sets)),
        proven_best=min((timed.seconds for timed in proven), default=None),
        gap=_median([timed.gap for timed in full]),
        cost=_median([timed.cost for timed in full]),
        bound=_median([timed.bound for timed in full]),
        time_limit=time_limit,
        gurobi=gurobi(drawn, size),
        status=status,
    )


def _measure(queries: dict[str, str], layouts: LayoutRule, formulation: FormulationName, time_limit: float) -> Measured:
    candidates = count_orders(queries, own.STATISTICS, own.WORKERS, "probe", layouts)
    near = full = None
    if formulation == "compact" or candidates <= MOST_ORDERS:
        near = _timed(queries, layouts, formulation, time_limit, NEAR)
    if near is not None:
        # what did not come within 1 % in time will not be proven in the same time
        full = _timed(queries, layouts, formulation, time_limit, 0.0) if near.gap <= NEAR + own.PROVEN else near
    return Measured(len(queries), candidates, near, full)


def _timed(queries: dict[str, str], layouts: LayoutRule, formulation: FormulationName, time_limit: float, gap: float) -> own.Timed | None:
    try:
        return own.plan(queries, cost="probe", layouts=layouts, formulation=formulation, time_limit=time_limit, gap=gap)
    except ClashError:
        if formulation == "published":  # not even built in time
            return None
        raise


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _reached(seconds: Sequence[float], sets: int) -> float | None:
    """The median over all sets, those that never got there counted as slowest; None if the median is one of those."""
    endless = [*sorted(seconds), *[float("inf")] * (sets - len(seconds))]
    middle = statistics.median(endless)
    return None if middle == float("inf") else middle


def _say(line: Line) -> str:
    def words() -> Iterator[str]:
        yield f"{line.workload} {line.drawn:>4} × {line.size}, layouts {line.layouts:<4}, {line.formulation:<9}"
        yield f"{line.candidates:>11,.0f} orders"
        if line.variables is not None:
            yield f"{line.variables:>7,.0f} variables"
        for label, seconds in (("1 %", line.near_median), ("proof", line.proven_median)):
            yield f"{label} {seconds:.2f} s" if seconds is not None else f"{label} –"
        if line.status != "ok":
            yield line.status + (f", gap {line.gap:.2%}" if line.gap is not None else "")

    return "  ".join(words())
