"""Throughput and latency of a job to which queries are added, and from which they are removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clash.bench.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, dress, figure, save, thousands

if TYPE_CHECKING:
    from clash.bench.changes import Ran


def draw_changes(ran: Ran, rate: int, path: Path) -> None:
    made = figure(10.0, 9.6, f"{len(ran.asked)} queries added to a running job and removed again")
    live, flow, wait = made.subplots(3, 1, sharex=True, height_ratios=[0.7, 1, 1.1])
    xs = [line.second + 0.5 for line in ran.seconds]
    dress(live, "Queries that run", "", "queries")
    live.step([line.second for line in ran.seconds], [line.queries for line in ran.seconds], where="post", color=BLUE)
    live.set_ylim(bottom=0)
    dress(flow, f"Throughput: four streams of {rate:,} tuples/s are fed", "", "tuples committed per second")
    flow.plot(xs, [line.committed for line in ran.seconds], color=GREEN, label="tuples (left)")
    flow.axhline(4 * rate, color=GREY, linestyle="--", linewidth=0.9, label="tuples fed (left)")
    flow.set_ylim(bottom=0)
    thousands(flow)
    right = flow.twinx()
    right.plot(xs, [line.results for line in ran.seconds], color=ORANGE, label="results of all queries (right)")
    right.set_ylim(bottom=0)
    right.set_ylabel("results per second", fontsize=9)
    right.tick_params(labelsize=8)
    right.spines["top"].set_visible(False)
    thousands(right)
    lines = [*flow.get_lines(), *right.get_lines()]
    flow.set_ylim(top=1.25 * max([4.0 * rate, *(line.committed for line in ran.seconds)]))  # room for the legend
    flow.legend(lines, [str(line.get_label()) for line in lines], fontsize=7.5, frameon=False, loc="upper left", ncols=3)
    dress(wait, "From a tuple's arrival to the commit of its results", "second", "latency, seconds")
    middle, high = ([(getattr(line, name) or 0) / 1000 for line in ran.seconds] for name in ("p50", "p95"))
    wait.plot(xs, middle, color=PURPLE, label="median")
    wait.fill_between(xs, middle, high, color=PURPLE, alpha=0.2, linewidth=0, label="up to the 95th percentile")
    wait.set_ylim(bottom=0)
    for axes in (live, wait):
        for at, (colour, label) in enumerate(((GREEN, "a query is added"), (RED, "a query is removed"))):
            moments = [second for asked in ran.asked if (second := (asked.asked, asked.ended)[at]) is not None]
            axes.plot(
                moments, [0.02] * len(moments), transform=axes.get_xaxis_transform(), ls="none", marker="|", markersize=9,
                color=colour, label=label, clip_on=False,
            )  # fmt: skip
    wait.legend(fontsize=7.5, frameon=False, loc="upper left", ncols=2)
    wait.set_xlim(0, len(ran.seconds))
    live.tick_params(labelbottom=True)
    flow.tick_params(labelbottom=True)
    save(made, path)
