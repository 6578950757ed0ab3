"""The guard: two commits measured on one machine in alternation, and for each measure whether the second is faster, slower or neither.

A round is one run of each commit; the order changes from round to round (A B, B A, A B, …), so that a machine that gets slower or faster
does so for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from clash.errors import ClashError
from clash_bench.compare_runs import CLONE, checked_out, find_commits, run_benchmark
from clash_bench.compare_verdict import Measure, VerdictRow, compare
from clash_bench.tables import note, write

What = Literal["latency", "throughput"]
Lines = Sequence[Mapping[str, str]]
_COLOURS = {"faster": "green", "better": "green", "slower": "red", "worse": "red", "not told apart": "dim"}
_MEMORY = ("memory_driver", "memory_jvm", "memory_workers")


@dataclass(frozen=True)
class CompareRow:
    """A line of the CSV file: one measure of one run."""

    round: int
    position: int
    """1 for the first run of the round, 2 for the second."""
    arm: str
    """`a` or `b`."""
    commit: str
    measure: str
    value: float


def run(a: str, b: str, what: What, queries: int, scale: float, batches: int, rounds: int, data: Path, out: Path) -> None:
    """The options are those of the command `compare`."""
    commits = find_commits((a, b), CLONE)
    arguments, file, figures = _benchmark(what, queries, scale, batches, data)
    rows = []
    with checked_out(commits, CLONE) as folders:
        for number in range(1, rounds + 1):
            for position, arm in enumerate((0, 1) if number % 2 else (1, 0), start=1):
                measured = figures(run_benchmark(commits[arm], folders[arm], arguments, file))
                rows += [
                    CompareRow(number, position, "ab"[arm], commits[arm].identity, measure.name, value)
                    for measure, value in measured.items()
                ]
                first = next(iter(measured.items()), None)
                note(f"round {number}: {commits[arm]}" + (f": {first[0].name} {first[1]:,.6g}" if first else ""))
                write(out / "compare.csv", CompareRow, rows)  # what is measured is kept if a later run fails
    verdicts = judge(rows)
    if not verdicts:
        raise ClashError("the two commits have no measure in common", f"{commits[0]}, {commits[1]}", f"see {out / 'compare.csv'}")
    write(out / "compare-verdicts.csv", VerdictRow, verdicts)
    _show(f"{commits[1]} relative to {commits[0]}", verdicts)


def judge(rows: Sequence[CompareRow]) -> list[VerdictRow]:
    """One row per measure that every run has."""
    by_measure: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        by_measure.setdefault(row.measure, {"a": [], "b": []})[row.arm].append(row.value)
    runs = len({(row.round, row.position) for row in rows})
    measures = {measure.name: measure for measure in _MEASURES}
    return [compare(measures[name], arms["a"], arms["b"]) for name, arms in by_measure.items() if len(arms["a"]) + len(arms["b"]) == runs]


_LATENCY = {  # measure, column and the kind of row of tpch-latency.csv that it is in
    Measure("trigger, ms"): ("trigger", "clash", "several"),
    Measure("trigger of one batch in ten, ms"): ("tenth", "clash", "several"),
    Measure("time of tasks, ms"): ("tasks", "clash", "several"),
    Measure("over the floor"): ("floor_ratio", "clash", "several"),
    Measure("trigger from one source, ms"): ("trigger", "clash", "one"),
}
_RATE = Measure("tuples/s", more_is_better=True)
_BATCH_RATE = Measure("tuples/s of the batches alone", more_is_better=True)
_CPU = Measure("CPU µs per tuple")
_PRIVATE = Measure("private memory, MB", is_time=False)
_MEASURES = (*_LATENCY, _RATE, _BATCH_RATE, _CPU, _PRIVATE)


def latency_figures(lines: Lines) -> dict[Measure, float]:
    """A commit from before floor and one source were measured has one row, of a source per stream."""
    found = {}
    for measure, (column, what, sources) in _LATENCY.items():
        values = [
            line[column]
            for line in lines
            if (line.get("what", "clash"), line.get("sources", "several")) == (what, sources)
            if column in line
        ]
        if values:
            found[measure] = float(values[0])
    return found


def throughput_figures(lines: Lines) -> dict[Measure, float]:
    line = lines[0]
    return {
        _RATE: float(line["tuples_per_second"]),
        _BATCH_RATE: int(line["tuples"]) / float(line["batch_seconds"]),
        _CPU: float(line["microseconds_per_tuple"]),
        _PRIVATE: sum(float(line[name]) for name in _MEMORY),
    }


def _benchmark(
    what: What, queries: int, scale: float, batches: int, data: Path
) -> tuple[list[str], str, Callable[[Lines], dict[Measure, float]]]:
    """The arguments of a run, the CSV file that it writes, and what reads the figures from it."""
    arguments = ["tpch", "--queries", str(queries), "--data", str(data.absolute())]
    if what == "latency":
        return [*arguments, "--latency"], "tpch-latency.csv", latency_figures
    return [*arguments, "--scale", f"{scale:g}", "--batches", str(batches)], "tpch.csv", throughput_figures


def _show(title: str, verdicts: Sequence[VerdictRow]) -> None:
    console = Console(highlight=False)
    console.print(f"\n[bold]{title}[/]   medians of {verdicts[0].runs} runs each")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("measure", "A", "B", "B / A", "95 % interval", "verdict"):
        table.add_column(name, justify="left" if name in ("measure", "verdict") else "right")
    for row in verdicts:
        colour = _COLOURS[row.verdict]
        table.add_row(
            row.measure,
            f"{row.a:,.5g}",
            f"{row.b:,.5g}",
            f"{row.ratio:.3f}",
            f"{row.low:.3f} – {row.high:.3f}",
            f"[{colour}]{row.verdict}[/]",
        )
    console.print(table)
