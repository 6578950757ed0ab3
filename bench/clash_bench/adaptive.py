"""The paper's two adaptive experiments on local Spark: the same streams under an adaptive and under a static plan.

Both arms start with the same plan in the same warm session. Results are checked against DuckDB: a run with wrong results is an error. The
cost of adapting when nothing changes is measured separately, over existing files, in runs that alternate between the arms.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clash.errors import ClashError
from clash_bench.adaptive_data import WINDOW, SelectivityChange, StoreIntroduced, Timing
from clash_bench.adaptive_paper import ARMS
from clash_bench.adaptive_plot import draw_latencies
from clash_bench.adaptive_run import WARM_UP_DRAIN, LiveRun, run_live, run_over_files, write_data
from clash_bench.monitor import load
from clash_bench.tables import note, write
from clash_bench.tpch_run import session

WARM_UP = Timing(lead=0.0, change=4.0, seconds=8.0)
STABLE = Timing(lead=0.0, change=1e9, seconds=24.0)


@dataclass(frozen=True)
class LatencyRow:
    """A line of the CSV file: the tuples that were due in one second of a run. Latencies are milliseconds until the commit of the batch."""

    experiment: str
    arm: str
    run: int
    rates: str
    second: int
    tuples: int
    open: int
    """Tuples that were not committed when the run was ended."""
    p50: float | None
    p95: float | None
    most: float | None
    """The largest latency."""
    results: int
    """Results whose last part was due in this second."""
    result_p50: float | None
    result_p95: float | None
    generation: int


@dataclass(frozen=True)
class PlanRow:
    """A line of the CSV file: a generation of a run, with its predicted and measured costs."""

    experiment: str
    arm: str
    run: int
    generation: int
    second: float | None
    """The second of its first commit."""
    batch: int
    """Its first batch."""
    batches: int
    reason: str
    """Why it was introduced."""
    predicted_old: float | None
    predicted_new: float | None
    measured_before: float | None
    measured: float | None
    intermediate: str
    """The intermediate results that it stores."""
    orders: str
    """Its probe orders."""


@dataclass(frozen=True)
class CostRow:
    """A line of the CSV file: one run over stable data."""

    round: int
    arm: str
    tuples: int
    generations: int
    seconds: float
    cpu_seconds: float
    """Of all processes; the next three fields are its parts."""
    cpu_driver: float
    """This Python process, in which planning runs."""
    cpu_jvm: float
    cpu_workers: float
    """Spark's Python workers."""
    tuples_per_second: float
    ratio: float | None
    """The throughput of the adaptive arm over that of the static arm, in the four runs of the round."""
    cpu_ratio: float | None
    """Likewise for CPU seconds."""
    load: float
    """The load of the machine before the run."""


def run(experiments: Sequence[str], rate: int, fast: int, slow: int, runs: int, stable: int, repeat: int, out: Path) -> None:
    """The options are those of the command `adaptive`."""
    with session() as spark:
        for name in experiments:
            if name == "cost":
                _measure_cost(spark, stable, repeat, out)
            else:
                _compare_arms(spark, name, SelectivityChange(rate) if name == "selectivity" else StoreIntroduced(fast, slow), runs, out)


def _compare_arms(spark: Any, name: str, script: SelectivityChange | StoreIntroduced, runs: int, out: Path) -> None:
    note(f"{name}: warming up")
    run_live(spark, replace(script, timing=WARM_UP), adaptive=True, max_drain=WARM_UP_DRAIN)
    rates = ", ".join(f"{stream} {in_window / WINDOW:,.0f}/s" for stream, in_window in script.statistics().rates.items())
    lines: list[LatencyRow] = []
    plans: list[PlanRow] = []
    for number in range(1, runs + 1):
        for arm in ARMS if number % 2 else ARMS[::-1]:  # alternately, because the second arm runs on a warmer machine
            ran = run_live(spark, script, adaptive=arm == "adaptive")
            counts = f"{len(ran.progress)} batches, {len(ran.plans)} plans, {ran.rows:,} results, feeder late by {ran.lag:.2f} s"
            note(f"{name}, {arm}, run {number}: {counts}")
            for plan in ran.plans:
                note(f"  {plan['second'] or 0:6.1f} s  {plan['reason']}: {', '.join(plan['stores'])}")
            if not ran.equal:
                raise ClashError("results differ from DuckDB's", f"{name}, {arm}: {ran.rows} results", "this is a bug of ours")
            lines += latency_rows(name, arm, number, rates, ran, script.timing)
            plans += _plan_rows(name, arm, number, ran)
            write(out / f"adaptive-{name}.csv", LatencyRow, lines)
            write(out / f"adaptive-{name}-plans.csv", PlanRow, plans)
    for arm in ARMS:
        note(f"{name}, {arm}: " + "; ".join(latency_change(lines, arm, number, script.timing) for number in range(1, runs + 1)))
    changes = [plan.second for plan in plans if plan.arm == "adaptive" and plan.generation and plan.second is not None]
    draw_latencies(name, lines, changes, script, out / f"adaptive-{name}.png")


def latency_change(lines: Sequence[LatencyRow], arm: str, run: int, timing: Timing) -> str:
    """The mean of the medians per second, before the change and in the last five seconds, as text."""
    medians = {line.second: line.p50 for line in lines if (line.arm, line.run) == (arm, run) and line.p50 is not None}
    before = statistics.mean(p50 for second, p50 in medians.items() if second < timing.change)
    after = statistics.mean(p50 for second, p50 in medians.items() if second >= timing.seconds - 5)
    return f"{before:.0f} → {after:.0f} ms ({100 * (after / before - 1):+.0f} %)"


def latency_rows(experiment: str, arm: str, run: int, rates: str, ran: LiveRun, timing: Timing) -> list[LatencyRow]:
    rows = []
    for second in range(round(timing.seconds)):
        tuples, results = ran.tuples.of_second(second), ran.results.of_second(second)
        generation = sum((plan["second"] or 1e9) <= second for plan in ran.plans[1:])
        rows.append(
            LatencyRow(
                experiment, arm, run, rates, second, len(tuples.due), int(tuples.open.sum()), tuples.quantile(0.5), tuples.quantile(0.95),
                tuples.quantile(1.0), len(results.due), results.quantile(0.5), results.quantile(0.95), generation,
            )
        )  # fmt: skip
    return rows


def _plan_rows(experiment: str, arm: str, run: int, ran: LiveRun) -> list[PlanRow]:
    return [
        PlanRow(
            experiment, arm, run, plan["generation"], plan["second"], plan["batch"], plan["batches"], plan["reason"], plan["predicted_old"],
            plan["predicted_new"], plan["measured_before"], plan["measured"], "; ".join(store for store in plan["stores"] if "⋈" in store),
            "; ".join(plan["orders"]),
        )
        for plan in ran.plans
    ]  # fmt: skip


def _measure_cost(spark: Any, rate: int, repeat: int, out: Path) -> None:
    script = SelectivityChange(rate, timing=STABLE)
    with TemporaryDirectory(prefix="clash-stable-") as name:
        data = Path(name)
        write_data(script, data)
        note("cost of adapting: warming up")
        run_over_files(spark, script, data, adaptive=True)
        lines: list[CostRow] = []
        for number in range(1, repeat + 1):
            # both orders within a round, because the second arm runs on a warmer machine
            lines += with_ratios([_measure_run(spark, script, data, number, arm) for arm in (*ARMS, *reversed(ARMS))])
            note(f"round {number}: adaptive {lines[-1].ratio:.3f} of the static throughput, {lines[-1].cpu_ratio:.3f} of its CPU")
            write(out / "adaptive-cost.csv", CostRow, lines)
    note(summarize(lines))


def _measure_run(spark: Any, script: SelectivityChange, data: Path, number: int, arm: str) -> CostRow:
    load_before = load()
    ran = run_over_files(spark, script, data, adaptive=arm == "adaptive")
    return CostRow(
        number, arm, ran.tuples, ran.generations, ran.seconds, sum(ran.cpu.values()), ran.cpu["driver"], ran.cpu["jvm"], ran.cpu["workers"],
        ran.tuples / ran.seconds, None, None, load_before,
    )  # fmt: skip


def with_ratios(measured: Sequence[CostRow]) -> list[CostRow]:
    """The runs of a round, completed by the ratios between the sums of the arms."""

    def ratio(field: str) -> float:
        sums = {arm: sum(getattr(cost, field) for cost in measured if cost.arm == arm) for arm in ARMS}
        return float(sums["adaptive"] / sums["static"])

    return [replace(cost, ratio=1 / ratio("seconds"), cpu_ratio=ratio("cpu_seconds")) for cost in measured]


def summarize(lines: Sequence[CostRow]) -> str:
    best = {arm: max(line.tuples_per_second for line in lines if line.arm == arm) for arm in ARMS}
    ratio = statistics.median(line.ratio for line in lines if line.ratio is not None)
    cpu = statistics.median(line.cpu_ratio for line in lines if line.cpu_ratio is not None)
    return (
        f"adaptive {best['adaptive']:,.0f} tuples/s, static {best['static']:,.0f} (best of {len(lines) // 2}): "
        f"{100 * (1 - best['adaptive'] / best['static']):.1f} % less; median of the rounds {100 * (1 - ratio):.1f} % less, "
        f"with {100 * (cpu - 1):.1f} % more CPU"
    )
