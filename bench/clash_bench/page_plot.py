"""The picture of `clash bench page`: each pair of runs with an open page and without, by throughput and by processor time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clash_bench.plots import BLUE, ORANGE, dress, figure, save, thousands

if TYPE_CHECKING:
    from clash_bench.page import PageRun

_PANELS = (
    ("tuples_per_second", "Throughput", "tuples per second"),
    ("driver_cpu", "Processor time of the driver", "seconds per run"),
)
_WIDTH = 0.38  # of a bar


def draw(rows: Sequence[PageRun], path: Path) -> None:
    plot = figure(9, 3.6, "A run with an open page and without")
    for axes, (part, title, unit) in zip(plot.subplots(1, 2), _PANELS, strict=True):
        for page, colour, label, shift in ((False, BLUE, "no page", -_WIDTH / 2), (True, ORANGE, "a page is open", _WIDTH / 2)):
            bars = [(row.repetition + 1 + shift, getattr(row, part)) for row in rows if row.page is page]
            axes.bar([at for at, _ in bars], [value for _, value in bars], _WIDTH, color=colour, label=label)
        dress(axes, title, "pair of runs, one after the other", unit)
        thousands(axes)
        axes.set_xticks(sorted({row.repetition + 1 for row in rows}))
        axes.legend(fontsize=8, loc="lower right", framealpha=0.9)
    save(plot, path)
