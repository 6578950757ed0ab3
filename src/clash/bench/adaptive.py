"""The paper's two adaptive experiments on local Spark: the same streams under a plan that adapts and under one that stays.

Both arms start with the same plan in the same warm session. Results are checked against DuckDB: a run that adapts and answers wrongly is an
error. What adapting costs when nothing changes is measured apart, over files that are there, in runs that alternate.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
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
STABLE = Timing(lead=0.0, change=1e9, seconds=8.0)


@dataclass(frozen=True)
class Second:
    """Tuples that were due in this second: milliseconds until the commit of their batch, of all tuples and of those that completed a
    result (a result counts once, by its last part). `open`: tuples that were not committed when the run was ended."""

    experiment: str
    arm: str
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
    throughput with adapting to that of the static run of the same round."""

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


def run(experiments: Sequence[str], rate: int, fast: int, slow: int, stable: int, repeat: int, out: Path) -> None:
    with session() as spark:
        for name in experiments:
            if name == "cost":
                _cost(spark, stable, repeat, out)
            else:
                _compare(spark, name, Selectivity(rate) if name == "selectivity" else Small(fast, slow), out)


def _compare(spark: Any, name: str, script: Selectivity | Small, out: Path) -> None:
    note(f"{name}: warming up")
    run_live(spark, replace(script, timing=WARM), adaptive=True, patience=PATIENCE)
    runs: dict[str, Ran] = {}
    for arm in ARMS:
        runs[arm] = ran = run_live(spark, script, adaptive=arm == "adaptive")
        note(f"{name}, {arm}: {len(ran.progress)} batches, {len(ran.plans)} plans, {ran.rows:,} results, feeder late by {ran.lag:.2f} s")
        for plan in ran.plans:
            note(f"  {plan['second'] or 0:6.1f} s  {plan['reason']}: {', '.join(plan['kept'])}")
        if not ran.equal:
            raise ClashError("results differ from DuckDB's", f"{name}, {arm}: {ran.rows} results", "this is a bug of ours")
    rates = ", ".join(f"{stream} {held / 5:,.0f}/s" for stream, held in script.statistics().rates.items())
    lines = [line for arm, ran in runs.items() for line in seconds_of(name, arm, rates, ran, script.timing)]
    write(out / f"adaptive-{name}.csv", Second, lines)
    write(out / f"adaptive-{name}-plans.csv", Planned, [plan for arm, ran in runs.items() for plan in _plans(name, arm, ran)])
    draw_latencies(
        name, lines, {arm: [p["second"] for p in ran.plans[1:]] for arm, ran in runs.items()}, script, out / f"adaptive-{name}.png"
    )


def seconds_of(experiment: str, arm: str, rates: str, ran: Ran, timing: Timing) -> list[Second]:
    found = []
    for second in range(round(timing.seconds)):
        tuples, results = ran.tuples.of_second(second), ran.results.of_second(second)
        generation = sum((plan["second"] or 1e9) <= second for plan in ran.plans[1:])
        found.append(
            Second(
                experiment, arm, rates, second, len(tuples.due), int(tuples.open.sum()), tuples.quantile(0.5), tuples.quantile(0.95),
                tuples.quantile(1.0), len(results.due), results.quantile(0.5), results.quantile(0.95), generation,
            )
        )  # fmt: skip
    return found


def _plans(experiment: str, arm: str, ran: Ran) -> list[Planned]:
    return [
        Planned(
            experiment, arm, plan["generation"], plan["second"], plan["batch"], plan["batches"], plan["reason"], plan["predicted_old"],
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
            arms = ARMS if number % 2 else ARMS[::-1]  # who comes second finds a warmer machine
            measured = {arm: _measure(spark, script, data, number, arm) for arm in arms}
            lines += compared(measured)
            note(f"round {number}: adaptive {lines[-2].ratio:.3f} of the static throughput, {lines[-2].cpu_ratio:.3f} of its CPU")
    write(out / "adaptive-cost.csv", Cost, lines)
    note(summary(lines))


def _measure(spark: Any, script: Selectivity, data: Path, number: int, arm: str) -> Cost:
    busy = load()
    ran = run_through(spark, script, data, adaptive=arm == "adaptive")
    return Cost(
        number, arm, ran.tuples, ran.generations, ran.seconds, sum(ran.cpu.values()), ran.cpu["driver"], ran.cpu["jvm"], ran.cpu["workers"],
        ran.tuples / ran.seconds, None, None, busy,
    )  # fmt: skip


def compared(measured: Mapping[str, Cost]) -> list[Cost]:
    """The two runs of a round, the adaptive one first, with its ratios."""
    adaptive, static = measured["adaptive"], measured["static"]
    ratio, cpu_ratio = adaptive.tuples_per_second / static.tuples_per_second, adaptive.cpu_seconds / static.cpu_seconds
    return [replace(adaptive, ratio=ratio, cpu_ratio=cpu_ratio), static]


def summary(lines: Sequence[Cost]) -> str:
    best = {arm: max(line.tuples_per_second for line in lines if line.arm == arm) for arm in ARMS}
    cpu = {arm: min(line.cpu_seconds for line in lines if line.arm == arm) for arm in ARMS}
    median = statistics.median(line.ratio for line in lines if line.ratio is not None)
    return (
        f"adaptive {best['adaptive']:,.0f} tuples/s, static {best['static']:,.0f} (best of {len(lines) // 2}): "
        f"{100 * (1 - best['adaptive'] / best['static']):.1f} % less; median of the rounds {100 * (1 - median):.1f} %; "
        f"CPU {100 * (cpu['adaptive'] / cpu['static'] - 1):.1f} % more"
    )
