"""Plot of the throughput and latency of a job while queries are added and removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clash_bench.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, dress, figure, save, thousands

if TYPE_CHECKING:
    from clash_bench.changes import ChangesRun


def draw_changes(ran: ChangesRun, rate: int, path: Path) -> None:
    plot = figure(10.0, 9.6, f"{len(ran.queries)} queries added to a running job and removed again")
    live, throughput, latency = plot.subplots(3, 1, sharex=True, height_ratios=[0.7, 1, 1.1])
    xs = [line.second + 0.5 for line in ran.seconds]
    dress(live, "Queries that run", "", "queries")
    live.step([line.second for line in ran.seconds], [line.queries for line in ran.seconds], where="post", color=BLUE)
    live.set_ylim(bottom=0)
    dress(throughput, f"Throughput: four streams of {rate:,} tuples/s are fed", "", "tuples committed per second")
    throughput.plot(xs, [line.committed for line in ran.seconds], color=GREEN, label="tuples (left)")
    throughput.axhline(4 * rate, color=GREY, linestyle="--", linewidth=0.9, label="tuples fed (left)")
    throughput.set_ylim(bottom=0)
    thousands(throughput)
    right = throughput.twinx()
    right.plot(xs, [line.results for line in ran.seconds], color=ORANGE, label="results of all queries (right)")
    right.set_ylim(bottom=0)
    right.set_ylabel("results per second", fontsize=9)
    right.tick_params(labelsize=8)
    right.spines["top"].set_visible(False)
    thousands(right)
    lines = [*throughput.get_lines(), *right.get_lines()]
    throughput.set_ylim(top=1.25 * max([4.0 * rate, *(line.committed for line in ran.seconds)]))  # room for the legend
    throughput.legend(lines, [str(line.get_label()) for line in lines], fontsize=7.5, frameon=False, loc="upper left", ncols=3)
    dress(latency, "From a tuple's arrival to the commit of its results", "second", "latency, seconds")
    middle, high = ([(getattr(line, name) or 0) / 1000 for line in ran.seconds] for name in ("p50", "p95"))
    latency.plot(xs, middle, color=PURPLE, label="median")
    latency.fill_between(xs, middle, high, color=PURPLE, alpha=0.2, linewidth=0, label="up to the 95th percentile")
    latency.set_ylim(bottom=0)
    for axes in (live, latency):
        for seconds, colour, label in (
            ([query.asked for query in ran.queries], GREEN, "a query is added"),
            ([query.ended for query in ran.queries], RED, "a query is removed"),
        ):
            axes.plot(
                seconds, [0.02] * len(seconds), transform=axes.get_xaxis_transform(), ls="none", marker="|", markersize=9,
                color=colour, label=label, clip_on=False,
            )  # fmt: skip
    latency.legend(fontsize=7.5, frameon=False, loc="upper left", ncols=2)
    latency.set_xlim(0, len(ran.seconds))
    live.tick_params(labelbottom=True)
    throughput.tick_params(labelbottom=True)
    save(plot, path)
