"""Plots of planning time and program size over (queries × relations per query).

There is a row of plots per workload; the first columns are the times per layout rule, with the paper's values, the last is the size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from clash_bench.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, dress, figure, save, thousands

if TYPE_CHECKING:
    from clash_bench.ilp import IlpRow

Shape = tuple[int, int]  # relations per query, queries
SHIFT = 0.15  # horizontal distance between series, so that equal times do not hide one another
TITLES = {"many": 'layouts="many" (as in the paper)', "one": 'layouts="one"'}
SERIES: tuple[tuple[str, str, Callable[[IlpRow], float | None], str, str, float], ...] = (
    ("published", "published, proof", lambda line: line.proven_median, RED, "o", -1.5),
    ("published", "published, 1 %", lambda line: line.near_median, RED, ".", -0.5),
    ("compact", "compact, proof", lambda line: line.proven_median, BLUE, "o", 0.5),
    ("compact", "compact, 1 %", lambda line: line.near_median, BLUE, ".", 1.5),
)


def draw_times(lines: Sequence[IlpRow], path: Path) -> None:
    workloads = list(dict.fromkeys(line.workload for line in lines))
    rules = sorted({line.layouts for line in lines})
    plot = figure(5.6 * (len(rules) + 1), 4.6 * len(workloads) + 0.4, "Planning time and size: probe cost, MIRs, 5 workers, 100 relations")
    panels = plot.subplots(len(workloads), len(rules) + 1, squeeze=False)
    for row, workload in enumerate(workloads):
        chosen = [line for line in lines if line.workload == workload]
        shapes = sorted({(line.size, line.drawn) for line in chosen})
        for column, rule in enumerate(rules):
            times = panels[row][column]
            dress(times, f"{workload} queries, {TITLES[rule]}", "queries × relations per query", "seconds (median)")
            _draw_times(times, [line for line in chosen if line.layouts == rule], shapes)
        sizes = panels[row][-1]
        dress(sizes, f"{workload} queries, size of the program", "queries × relations per query", "count (median)")
        _draw_sizes(sizes, chosen, shapes)
    time_panels = [panel for row in panels for panel in row[:-1]]  # one scale for all times
    low, high = min(panel.get_ylim()[0] for panel in time_panels), max(panel.get_ylim()[1] for panel in time_panels)
    for panel in time_panels:
        panel.set_ylim(low, high * 12)  # room for the legend
    save(plot, path)


def _draw_times(axes: Axes, lines: Sequence[IlpRow], shapes: Sequence[Shape]) -> None:
    _draw_shape_axis(axes, shapes)
    position = {shape: i for i, shape in enumerate(shapes)}
    for formulation, label, value, colour, marker, shift in SERIES:
        points = [(position[line.size, line.drawn] + shift * SHIFT, line, value(line)) for line in lines if line.formulation == formulation]
        if not points:
            continue
        reached = [(x, seconds) for x, _, seconds in points if seconds is not None]
        axes.plot([x for x, _ in reached], [y for _, y in reached], ls="none", marker=marker, markersize=7, color=colour, label=label)
        for x, line, seconds in points:
            if seconds is None and line.status == "too large":
                axes.plot([x], [line.time_limit], ls="none", marker="x", markersize=6, color=colour)
            elif seconds is None:
                axes.plot([x], [line.time_limit], ls="none", marker="^", markersize=6, markerfacecolor="none", color=colour)
    paper = {(line.size, line.drawn): line.gurobi for line in lines if line.gurobi is not None}
    xs = [position[shape] for shape in sorted(paper)]
    axes.plot(
        xs,
        [paper[shape] for shape in sorted(paper)],
        ls="none",
        marker="s",
        markersize=11,
        markerfacecolor="none",
        color="black",
        label="paper, Gurobi",
    )
    if lines:
        limit = lines[0].time_limit
        axes.axhline(limit, color=GREY, linewidth=0.8, linestyle=":")
        axes.plot([], [], ls="none", marker="^", markerfacecolor="none", color=GREY, label=f"not within {limit:g} s")
        axes.plot([], [], ls="none", marker="x", color=GREY, label="too large to build")
    axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False, loc="upper left", ncols=3)


def _draw_sizes(axes: Axes, lines: Sequence[IlpRow], shapes: Sequence[Shape]) -> None:
    _draw_shape_axis(axes, shapes)
    position = {shape: i for i, shape in enumerate(shapes)}
    for rule, fill in (("one", None), ("many", "none")):
        of_rule = [line for line in lines if line.layouts == rule]
        orders = {position[line.size, line.drawn]: line.candidates for line in of_rule}
        compact = [line for line in of_rule if line.formulation == "compact"]
        variables = {position[line.size, line.drawn]: line.variables for line in compact if line.variables}
        rows = {position[line.size, line.drawn]: line.rows for line in compact if line.rows}
        for values, name, colour, marker in (
            (orders, "probe orders", PURPLE, "D"),
            (variables, "compact: variables", GREEN, "o"),
            (rows, "compact: rows", ORANGE, "s"),
        ):
            if values:
                xs = sorted(values)
                ys = [float(values[x] or 0) for x in xs]
                axes.plot(
                    xs, ys, ls="none", marker=marker, markersize=6, markerfacecolor=fill or colour, color=colour, label=f"{name} ({rule})"
                )
    axes.set_yscale("log")
    thousands(axes)
    axes.set_ylim(top=axes.get_ylim()[1] * 12)
    axes.legend(fontsize=8, frameon=False, loc="upper left", ncols=2)


def _draw_shape_axis(axes: Axes, shapes: Sequence[Shape]) -> None:
    axes.set_xticks(range(len(shapes)), [f"{count:,}×{size}" for size, count in shapes], rotation=40, ha="right")
    axes.set_xlim(-0.6, len(shapes) - 0.4)
    for i in range(1, len(shapes)):
        if shapes[i][0] != shapes[i - 1][0]:  # a vertical line between sizes
            axes.axvline(i - 0.5, color="#bbbbbb", linewidth=0.8)
