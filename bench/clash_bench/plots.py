"""The common style of all plots. Figures are made without pyplot, which would keep state between them.

Matplotlib is imported at the top, so that a missing package is reported before the minutes of measuring and not after.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

BLUE, ORANGE, GREEN, PURPLE, RED, GREY = "#1f5fa8", "#e07b00", "#2a8f4f", "#8a4fa8", "#c0392b", "#777777"


def figure(width: float, height: float, title: str) -> Figure:
    plot = Figure(figsize=(width, height))
    plot.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    plot.suptitle(title, fontsize=13, fontweight="bold")
    return plot


def dress(axes: Axes, title: str, x: str, y: str) -> None:
    """Sets title and labels, and draws a light grid."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def thousands(axes: Axes) -> None:
    """Labels the y axis with 1.5M and 400k instead of powers and zeros."""

    def short(value: float, _: int | None = None) -> str:
        for unit, name in ((1e6, "M"), (1e3, "k")):
            if abs(value) >= unit:
                return f"{value / unit:g}{name}"
        return f"{value:g}"

    axes.yaxis.set_major_formatter(FuncFormatter(short))


def save(plot: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    plot.savefig(path, dpi=130)
