"""The waterfall of the median micro-batch as a picture: one bar per part, each beginning where the one before it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from clash_bench.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, dress, figure, save
from clash_bench.waterfall import DRIVER, JOB, REST, TASK, TRIGGER, WaterfallRow

_COLOURS = {TRIGGER: ORANGE, DRIVER: BLUE, JOB: PURPLE, TASK: GREEN, REST: GREY}
_SOURCES = {"several": "a source per stream", "one": "one source for all streams"}
_BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # of a number, so that no line crosses it
_SHOWN = 0.05  # ms: a part that is shorter in all runs is left out


def draw_waterfall(by_sources: Mapping[str, Sequence[WaterfallRow]], floors: Mapping[str, float], path: Path) -> None:
    """One panel per kind of sources. `floors`: the median trigger of a function that does nothing, over the same sources."""
    plot = figure(6.2 * len(by_sources) + 1.2, 6.6, "Where the median micro-batch's time goes")
    shown = {row.part for rows in by_sources.values() for row in rows if abs(row.milliseconds) > _SHOWN}
    panels = plot.subplots(1, len(by_sources), sharey=True, squeeze=False)[0]
    for axes, (sources, rows) in zip(panels, by_sources.items(), strict=True):
        _draw(axes, sources, [row for row in rows if row.part in shown], floors[sources])
    groups = [Patch(color=colour, label=group) for group, colour in _COLOURS.items()]
    plot.legend(handles=groups, loc="outside lower center", ncols=len(groups), fontsize=9, frameon=False)
    save(plot, path)


def _draw(axes: Axes, sources: str, rows: Sequence[WaterfallRow], floor: float) -> None:
    trigger = sum(row.milliseconds for row in rows)
    dress(axes, f"{_SOURCES[sources]}: {trigger:.0f} ms, {trigger / floor:.1f} × the floor", "ms since the trigger", "")
    places = range(len(rows))
    lengths, starts = [row.milliseconds for row in rows], [row.start for row in rows]
    axes.barh(places, lengths, left=starts, color=[_COLOURS[row.group] for row in rows], height=0.72)
    for place, row in zip(places, rows, strict=True):
        end = row.start + max(row.milliseconds, 0.0)
        axes.text(end + 0.008 * trigger, place, f"{row.milliseconds:.1f}", va="center", fontsize=8, bbox=_BEHIND)
        if place:
            axes.plot([row.start, row.start], [place - 1, place], color=GREY, linewidth=0.5)
    axes.axvline(floor, color=RED, linestyle="--", linewidth=1.0, zorder=0.9)
    axes.text(floor, -0.75, f" floor: {floor:.0f} ms", color=RED, fontsize=8, va="center")
    axes.set_yticks(places, [row.part for row in rows], fontsize=8.5)
    axes.set_ylim(len(rows) - 0.4, -1.2)
    axes.set_xlim(0, 1.1 * max(trigger, floor))
