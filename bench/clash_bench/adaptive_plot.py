"""Plots of the adaptive experiments: our latency over time above, and ours beside the paper's below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from clash_bench.adaptive_data import SelectivityChange, StoreIntroduced
from clash_bench.adaptive_paper import ARMS, LATENCY
from clash_bench.plots import GREEN, GREY, PURPLE, dress, figure, save

if TYPE_CHECKING:
    from clash_bench.adaptive import LatencyRow

COLOURS = {"adaptive": GREEN, "static": PURPLE}
TITLES = {
    "selectivity": "A sudden increase in join selectivity",
    "store": "A store for S ⋈ T ⋈ U is introduced",
}


def draw_latencies(
    name: str, lines: Sequence[LatencyRow], changes: Sequence[float], script: SelectivityChange | StoreIntroduced, path: Path
) -> None:
    """`changes`: the seconds at which a new plan was introduced, in all runs."""
    plot = figure(8.6, 8.8, TITLES[name])
    upper, lower = plot.subplots(2, 1, sharex=True, height_ratios=[1.35, 1])
    _draw_ours(upper, lines, changes, script)
    _draw_relative(lower, name, lines, script)
    save(plot, path)


def median_of_runs(lines: Sequence[LatencyRow], arm: str) -> list[LatencyRow]:
    """Per second the median over the runs of an arm."""
    by_second: dict[int, list[LatencyRow]] = {}
    for line in lines:
        if line.arm == arm and line.p50 is not None:
            by_second.setdefault(line.second, []).append(line)
    return [
        replace(runs[0], p50=median(r.p50 or 0 for r in runs), p95=median(r.p95 or 0 for r in runs), open=sum(r.open for r in runs))
        for _, runs in sorted(by_second.items())
    ]


def _draw_ours(axes: Axes, lines: Sequence[LatencyRow], changes: Sequence[float], script: SelectivityChange | StoreIntroduced) -> None:
    runs = sorted({line.run for line in lines})
    dress(axes, f"Ours on 2 cores, {len(runs)} runs each: {lines[0].rates}", "", "latency, seconds (log)")
    for arm in reversed(ARMS):
        chosen = median_of_runs(lines, arm)
        xs = [line.second + 0.5 for line in chosen]
        low, high = [(line.p50 or 0) / 1000 for line in chosen], [(line.p95 or 0) / 1000 for line in chosen]
        axes.plot(xs, low, color=COLOURS[arm], linewidth=1.6, marker="o", markersize=3, label=f"{arm}: median tuple, median run")
        axes.fill_between(xs, low, high, color=COLOURS[arm], alpha=0.18, linewidth=0, label=f"{arm}: up to the 95th percentile")
        for run in runs if len(runs) > 1 else ():
            own = [line for line in lines if (line.arm, line.run) == (arm, run) and line.p50 is not None]
            axes.plot([o.second + 0.5 for o in own], [(o.p50 or 0) / 1000 for o in own], color=COLOURS[arm], linewidth=0.6, alpha=0.5)
        unfinished = [at for at, line in enumerate(chosen) if line.open]
        if unfinished:
            axes.plot(
                [xs[at] for at in unfinished], [low[at] for at in unfinished], ls="none", marker="^", markersize=6,
                color=COLOURS[arm], label=f"{arm}: not committed when the run was ended: at least this",
            )  # fmt: skip
    axes.set_yscale("log")
    low_end, high_end = axes.get_ylim()
    marks = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if high_end > 4 * low_end else (0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 3, 4)
    ticks = [value for value in marks if low_end <= value <= high_end]
    axes.set_yticks(ticks, [f"{value:g}" for value in ticks])
    axes.minorticks_off()
    _mark_change(axes, script)
    for at, second in enumerate(second for second in changes if second >= 0):
        axes.axvline(
            second,
            color=COLOURS["adaptive"],
            linewidth=1.0,
            linestyle=":",
            label=None if at else "adaptive: first commit under another plan",
        )
    axes.legend(fontsize=7.5, frameon=False, loc="upper left")
    axes.tick_params(labelbottom=True)


def _draw_relative(axes: Axes, name: str, lines: Sequence[LatencyRow], script: SelectivityChange | StoreIntroduced) -> None:
    """Latencies relative to those before the change, because the absolute ones do not compare: 55 ms in the paper, a micro-batch here."""
    dress(axes, "Over its own mean before the change: ours (solid) and the paper's (dashed)", "second", "latency / latency before")
    change = round(script.timing.change)
    highest = 1.0
    for arm in ARMS:
        theirs = LATENCY[name, arm]
        before = sum(theirs[second] for second in range(1, change + 1)) / change
        values = [value / before for value in theirs.values()]
        axes.plot(
            list(theirs), values, color=COLOURS[arm], ls="--", linewidth=1.0, marker="s", markersize=4.5, markerfacecolor="none",
            label=f"{arm}, paper ({before:.0f} ms before)",
        )  # fmt: skip
        own = {line.second: line.p50 for line in median_of_runs(lines, arm) if line.p50 is not None}
        mean = sum(value for second, value in own.items() if second < change) / max(1, sum(second < change for second in own))
        ours = [value / mean for value in own.values()]
        # a static plan that cannot keep up may leave the picture
        highest = max(highest, *values, *(ours if arm == "adaptive" else ()))
        axes.plot(
            [second + 0.5 for second in own], ours, color=COLOURS[arm], linewidth=1.8,
            label=f"{arm}, ours ({mean:.0f} ms before)",
        )  # fmt: skip
    axes.set_ylim(0, max(1.8, 1.15 * highest))
    _mark_change(axes, script)
    axes.legend(fontsize=7.5, frameon=False, loc="upper left")


def _mark_change(axes: Axes, script: SelectivityChange | StoreIntroduced) -> None:
    axes.axvline(script.timing.change, color=GREY, linewidth=1.0)
    axes.annotate(
        "the data changes",
        (script.timing.change, 0.02),
        xycoords=("data", "axes fraction"),
        fontsize=7.5,
        color=GREY,
        xytext=(3, 0),
        textcoords="offset points",
    )
    axes.set_xlim(0, script.timing.seconds)
