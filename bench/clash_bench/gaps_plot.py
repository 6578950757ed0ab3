"""Plot of the proven gap over time, of one query set per line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from clash_bench.plots import dress, figure, save

COLUMNS = 4
LEAST = 1e-5  # gaps below are drawn there: a proven plan has none


def draw_gaps(curves: Mapping[str, tuple[float, Sequence[tuple[float, float, float]]]], path: Path) -> None:
    """`curves`: name → (time limit, (seconds, cost, bound) of each improvement)."""
    rows = max(1, -(-len(curves) // COLUMNS))
    plot = figure(4.2 * COLUMNS, 2.6 * rows + 0.4, "Proven gap over time")
    panels = [panel for row in plot.subplots(rows, COLUMNS, squeeze=False) for panel in row]
    for panel, (name, (limit, points)) in zip(panels, curves.items(), strict=False):
        dress(panel, name, "seconds", "gap")
        xs, ys = [0.0, *(x for x, _, _ in points), limit], [1.0, *(max(LEAST, (cost - bound) / cost) for _, cost, bound in points)]
        panel.step(xs, [*ys, ys[-1]], where="post")
        panel.set_yscale("log")
        panel.set_ylim(LEAST, 1.2)
    for panel in panels[len(curves) :]:
        panel.set_visible(False)
    save(plot, path)
