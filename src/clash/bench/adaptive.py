"""The paper's two adaptive experiments on local Spark: the same streams under a plan that adapts and under one that stays.

Both arms start with the same plan in the same warm session. Results are checked against DuckDB: a run that adapts and answers wrongly is an
error. What adapting costs when nothing changes is measured apart, over files that are there, in runs that alternate.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clash.bench.adaptive_data import Selectivity, Small, Timing
from clash.bench.adaptive_paper import ARMS
from clash.bench.adaptive_plot import draw_latencies
from clash.bench.adaptive_run import PATIENCE, Ran, run_live, run_through, write_data
from clash.bench.monitor import load
from clash.bench.tables import note, write
from clash.bench.tpch_run import session
from clash.errors import ClashError

WARM = Timing(lead=0.0, change=4.0, seconds=8.0)
STABLE = Timing(lead=0.0, change=1e9, seconds=24.0)


@dataclass(frozen=True)
class Second:
    """Tuples that were due in this second: milliseconds until the commit of their batch, of all tuples and of those that completed a
    result (a result counts once, by its last part). `open`: tuples that were not committed when the run was ended."""

    experiment: str
    arm: str
    run: int
    rates: str
    second: int
    tuples: int
    open: int
    p50: float | None
    p95: float | None
    most: float | None
    results: int
    result_p50: float | None
    result_p95: float | None
    generation: int


@dataclass(frozen=True)
class Planned:
    """A generation of a run: since when, why, predicted and measured cost, what it keeps beside the streams, and its probe orders."""

    experiment: str
    arm: str
    run: int
    generation: int
    second: float | None
    batch: int
    batches: int
    reason: str
    predicted_old: float | None
    predicted_new: float | None
    measured_before: float | None
    measured: float | None
    intermediate: str
    orders: str


@dataclass(frozen=True)
class Cost:
    """One run over stable data; CPU as in TPC-H's lines: this Python, in which planning runs, the JVM, the Python workers. `ratio`: of the
    throughput with adapting to that without, over the four runs of the round."""

    round: int
    arm: str
    tuples: int
    generations: int
    seconds: float
    cpu_seconds: float
    cpu_driver: float
    cpu_jvm: float
    cpu_workers: float
    tuples_per_second: float
    ratio: float | None
    cpu_ratio: float | None
    load: float


def run(experiments: Sequence[str], rate: int, fast: int, slow: int, runs: int, stable: int, repeat: int, out: Path) -> None:
    with session() as spark:
        for name in experiments:
            if name == "cost":
                _cost(spark, stable, repeat, out)
            else:
                _compare(spark, name, Selectivity(rate) if name == "selectivity" else Small(fast, slow), runs, out)


def _compare(spark: Any, name: str, script: Selectivity | Small, runs: int, out: Path) -> None:
    note(f"{name}: warming up")
    run_live(spark, replace(script, timing=WARM), adaptive=True, patience=PATIENCE)
    rates = ", ".join(f"{stream} {held / 5:,.0f}/s" for stream, held in script.statistics().rates.items())
    lines: list[Second] = []
    plans: list[Planned] = []
    for number in range(1, runs + 1):
        for arm in ARMS if number % 2 else ARMS[::-1]:  # who comes second finds a warmer machine
            ran = run_live(spark, script, adaptive=arm == "adaptive")
            told = f"{len(ran.progress)} batches, {len(ran.plans)} plans, {ran.rows:,} results, feeder late by {ran.lag:.2f} s"
            note(f"{name}, {arm}, run {number}: {told}")
            for plan in ran.plans:
                note(f"  {plan['second'] or 0:6.1f} s  {plan['reason']}: {', '.join(plan['kept'])}")
            if not ran.equal:
                raise ClashError("results differ from DuckDB's", f"{name}, {arm}: {ran.rows} results", "this is a bug of ours")
            lines += seconds_of(name, arm, number, rates, ran, script.timing)
            plans += _plans(name, arm, number, ran)
            write(out / f"adaptive-{name}.csv", Second, lines)
            write(out / f"adaptive-{name}-plans.csv", Planned, plans)
    for arm in ARMS:
        note(f"{name}, {arm}: " + "; ".join(fall(lines, arm, number, script.timing) for number in range(1, runs + 1)))
    changes = [plan.second for plan in plans if plan.arm == "adaptive" and plan.generation and plan.second is not None]
    draw_latencies(name, lines, changes, script, out / f"adaptive-{name}.png")


def fall(lines: Sequence[Second], arm: str, run: int, timing: Timing) -> str:
    """The mean of the seconds' medians before the change, and of the last five."""
    own = {line.second: line.p50 for line in lines if (line.arm, line.run) == (arm, run) and line.p50 is not None}
    before = statistics.mean(p50 for second, p50 in own.items() if second < timing.change)
    after = statistics.mean(p50 for second, p50 in own.items() if second >= timing.seconds - 5)
    return f"{before:.0f} → {after:.0f} ms ({100 * (after / before - 1):+.0f} %)"


def seconds_of(experiment: str, arm: str, run: int, rates: str, ran: Ran, timing: Timing) -> list[Second]:
    found = []
    for second in range(round(timing.seconds)):
        tuples, results = ran.tuples.of_second(second), ran.results.of_second(second)
        generation = sum((plan["second"] or 1e9) <= second for plan in ran.plans[1:])
        found.append(
            Second(
                experiment, arm, run, rates, second, len(tuples.due), int(tuples.open.sum()), tuples.quantile(0.5), tuples.quantile(0.95),
                tuples.quantile(1.0), len(results.due), results.quantile(0.5), results.quantile(0.95), generation,
            )
        )  # fmt: skip
    return found


def _plans(experiment: str, arm: str, run: int, ran: Ran) -> list[Planned]:
    return [
        Planned(
            experiment, arm, run, plan["generation"], plan["second"], plan["batch"], plan["batches"], plan["reason"], plan["predicted_old"],
            plan["predicted_new"], plan["measured_before"], plan["measured"], "; ".join(k for k in plan["kept"] if "⋈" in k),
            "; ".join(plan["orders"]),
        )
        for plan in ran.plans
    ]  # fmt: skip


def _cost(spark: Any, rate: int, repeat: int, out: Path) -> None:
    script = Selectivity(rate, timing=STABLE)
    with TemporaryDirectory(prefix="clash-stable-") as name:
        data = Path(name)
        write_data(script, data)
        note("cost of adapting: warming up")
        run_through(spark, script, data, adaptive=True)
        lines: list[Cost] = []
        for number in range(1, repeat + 1):
            # there and back: who comes later finds a warmer machine
            lines += compared([_measure(spark, script, data, number, arm) for arm in (*ARMS, *reversed(ARMS))])
            note(f"round {number}: adaptive {lines[-1].ratio:.3f} of the static throughput, {lines[-1].cpu_ratio:.3f} of its CPU")
            write(out / "adaptive-cost.csv", Cost, lines)
    note(summary(lines))


def _measure(spark: Any, script: Selectivity, data: Path, number: int, arm: str) -> Cost:
    busy = load()
    ran = run_through(spark, script, data, adaptive=arm == "adaptive")
    return Cost(
        number, arm, ran.tuples, ran.generations, ran.seconds, sum(ran.cpu.values()), ran.cpu["driver"], ran.cpu["jvm"], ran.cpu["workers"],
        ran.tuples / ran.seconds, None, None, busy,
    )  # fmt: skip


def compared(measured: Sequence[Cost]) -> list[Cost]:
    """The runs of a round, with the ratios of the arms' sums."""

    def both(what: str) -> float:
        sums = {arm: sum(getattr(cost, what) for cost in measured if cost.arm == arm) for arm in ARMS}
        return float(sums["adaptive"] / sums["static"])

    return [replace(cost, ratio=1 / both("seconds"), cpu_ratio=both("cpu_seconds")) for cost in measured]


def summary(lines: Sequence[Cost]) -> str:
    best = {arm: max(line.tuples_per_second for line in lines if line.arm == arm) for arm in ARMS}
    ratio = statistics.median(line.ratio for line in lines if line.ratio is not None)
    cpu = statistics.median(line.cpu_ratio for line in lines if line.cpu_ratio is not None)
    return (
        f"adaptive {best['adaptive']:,.0f} tuples/s, static {best['static']:,.0f} (best of {len(lines) // 2}): "
        f"{100 * (1 - best['adaptive'] / best['static']):.1f} % less; median of the rounds {100 * (1 - ratio):.1f} % less, "
        f"with {100 * (cpu - 1):.1f} % more CPU"
    )
