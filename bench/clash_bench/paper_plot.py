"""Plots of the paper's six figures: the paper's points dashed with hollow squares, ours solid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from clash_bench.plots import BLUE, GREEN, ORANGE, PURPLE, dress, figure, save, thousands

if TYPE_CHECKING:
    from clash_bench.paper_ilp import Model, Point

COLOURS = {
    "individual": BLUE, "shared": ORANGE, "variables": GREEN, "orders": PURPLE, "seconds": GREEN,
    "10 queries": GREEN, "20 queries": BLUE, "30 queries": ORANGE,
}  # fmt: skip
NAMES = {"variables": "variables", "orders": "probe orders", "individual": "individual", "shared": "shared (MQO)"}
SOLVED = {"paper": "paper, Gurobi", "recipe": "paper's program, HiGHS", "own": "ours, compact"}


def draw_figures(points: Sequence[Point], path: Path) -> None:
    plot = figure(15.5, 11.0, "The paper's figures on its integer program, and ours")
    grid = plot.add_gridspec(3, 4)
    for row, (kind, theirs, own) in enumerate((("cost", "average probe cost", "cost"), ("size", "count", "count"))):
        for column, relations in ((0, 10), (2, 100)):
            name, title = f"{kind}-{relations}", f"{relations} relations, "
            _draw_over_counts(plot.add_subplot(grid[row, column]), points, name, ("paper", "recipe"), title + "the paper's model", theirs)
            _draw_over_counts(plot.add_subplot(grid[row, column + 1]), points, name, ("own",), title + "our own model", own)
    _draw_seconds(plot.add_subplot(grid[2, :2]), points)
    _draw_seconds_by_size(plot.add_subplot(grid[2, 2:]), points)
    save(plot, path)


def _draw_line(axes: Axes, points: Sequence[Point], x: str, colour: str, label: str) -> None:
    """Draws the line of one model; bars are two standard errors, a white centre marks points with runs that were cut off."""
    points = sorted(points, key=lambda p: float(getattr(p, x)))
    if not points:
        return
    xs, ys = [float(getattr(p, x)) for p in points], [p.mean for p in points]
    if points[0].model == "paper":
        axes.plot(xs, ys, color=colour, linestyle="--", linewidth=1.0, marker="s", markersize=7, markerfacecolor="none", label=label)
        return
    bars = [2 * (p.error or 0.0) for p in points]
    low = [min(bar, y * 0.9) for bar, y in zip(bars, ys, strict=True)]  # a logarithmic axis cannot show zero
    marker, width = ("o", 3.5) if points[0].model == "recipe" else ("^", 5.5)
    dashes = ":" if points[0].model == "own" and x == "size" else "-"
    axes.errorbar(xs, ys, [low, bars], color=colour, ls=dashes, linewidth=1.5, marker=marker, markersize=width, capsize=2, label=label)
    cut_off = [i for i, point in enumerate(points) if point.unproven]
    axes.plot([xs[i] for i in cut_off], [ys[i] for i in cut_off], ls="none", marker=marker, markersize=width - 2, color="white", zorder=5)


def _draw_over_counts(axes: Axes, points: Sequence[Point], name: str, models: tuple[Model, ...], title: str, label: str) -> None:
    dress(axes, title, "$n_Q$: queries drawn, of 3 relations", label)
    for line in ("individual", "shared", "variables", "orders"):
        for model in models:
            chosen = [p for p in points if p.figure == name and p.model == model and p.line == line]
            text = NAMES[line] if model == "own" else f"{NAMES[line]}, {'paper' if model == 'paper' else 'ours'}"
            _draw_line(axes, chosen, "drawn", COLOURS[line], text)
    axes.set_ylim(bottom=0)
    thousands(axes)
    axes.legend(fontsize=7.5, frameon=False, loc="upper left")
    if models == ("own",):
        _note_sets(axes, [p for p in points if p.figure == name and p.model == "own"])


def _note_sets(axes: Axes, points: Sequence[Point]) -> None:
    sets = max((p.repetitions for p in points), default=0)
    text = f"{sets} query set{'s' if sets != 1 else ''} per point" + (
        "\nwhite: not proven within 1 %" if any(p.unproven for p in points) else ""
    )
    axes.text(0.98, 0.03, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=7.5, color="#555555")


def _draw_seconds(axes: Axes, points: Sequence[Point]) -> None:
    dress(axes, "Run time over the number of queries, 100 relations", "$n_Q$: queries drawn, of 3 relations", "seconds")
    for model, colour in (("paper", GREEN), ("recipe", GREEN), ("own", ORANGE)):
        chosen = [p for p in points if p.figure == "time-queries" and p.model == model]
        sets = f", {chosen[0].repetitions} per point" if chosen and model != "paper" else ""
        _draw_line(axes, chosen, "drawn", colour, SOLVED[model] + sets)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, loc="upper left")


def _draw_seconds_by_size(axes: Axes, points: Sequence[Point]) -> None:
    dress(axes, "Run time over the size of queries, 100 relations", "relations per query", "seconds")
    for model in ("paper", "recipe", "own"):
        for line in ("10 queries", "20 queries", "30 queries"):
            chosen = [p for p in points if p.figure == "time-size" and p.model == model and p.line == line]
            _draw_line(axes, chosen, "size", COLOURS[line], f"{line}, {SOLVED[model]}")
    axes.set_yscale("log")
    axes.set_xticks([3, 4, 5])
    axes.legend(fontsize=7.5, frameon=False, loc="upper left", ncols=3)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 20)  # room for the legend
