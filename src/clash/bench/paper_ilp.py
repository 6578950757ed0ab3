"""The paper's six figures on the integer program, again: its plotted values, its model solved by us, and our own model beside.

`recipe` is the paper's model as `paper_model` has it, over queries drawn the same way. `own` is `clash.optimize`: for cost and size
with all that a run on Spark pays for and one layout per store, for run time with the paper's cost and layouts for free.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from clash.bench import own
from clash.bench import paper_values as paper
from clash.bench.candidates import count_orders
from clash.bench.paper_model import Outcome, measure
from clash.bench.paper_plot import draw_figures
from clash.bench.tables import mean, note, write
from clash.bench.workloads import paper_schema, short_form, walks

Model = Literal["paper", "recipe", "own"]
SIZE = 3  # relations per query in all figures but the last
FIGURES = (("cost", ("individual", "shared")), ("size", ("variables", "orders")))


@dataclass(frozen=True)
class Settings:
    """Sets per point are fewer where a set takes long: `by_size` for the recipe, `own` for our model. The CSV says how many."""

    counts: tuple[int, ...] = paper.COUNTS
    sizes: tuple[int, ...] = (3, 4, 5)
    counts_by_size: tuple[int, ...] = (10, 20, 30)
    by_size: tuple[tuple[int, int], ...] = ((4, 20), (5, 3))  # relations per query → sets at most
    own: int = 3
    time_limit: float = 60.0
    own_limit: float = 10.0  # for cost and size, which need no proof: within 1 % is within the width of the line
    own_gap: float = 0.01


@dataclass(frozen=True)
class Point:
    """`mean` over `repetitions` query sets, `error` its standard error; `unproven`: sets that the time limit cut off."""

    figure: str
    model: Model
    line: str
    relations: int
    drawn: int
    size: int
    mean: float
    error: float | None
    repetitions: int
    unproven: int


class Run(Protocol):
    """What one query set came to, under either model."""

    @property
    def proven(self) -> bool: ...


R = TypeVar("R", bound=Run)


@dataclass(frozen=True)
class Own:
    """One query set under our own model; `proven` to the gap asked for. Fields are named as those of `Outcome`."""

    orders: int
    variables: int
    individual: float
    shared: float
    proven: bool


@dataclass(frozen=True)
class At:
    """Where a point is: a figure and how its query sets are drawn."""

    relations: int
    drawn: int
    size: int

    def queries(self, repetition: int) -> list[tuple[str, ...]]:
        rng = random.Random(f"paper/{self.relations}/{self.drawn}/{self.size}/{repetition}")
        return walks(paper_schema(self.relations), self.drawn, self.size, rng)

    def texts(self, repetition: int) -> dict[str, str]:
        schema = paper_schema(self.relations)
        return {f"q{i}": short_form(schema, query) for i, query in enumerate(self.queries(repetition), 1)}

    def point(self, figure: str, model: Model, line: str, runs: Sequence[R], value: Callable[[R], float]) -> Point:
        middle, error = mean([value(run) for run in runs])
        unproven = sum(not run.proven for run in runs)
        return Point(figure, model, line, self.relations, self.drawn, self.size, middle, error, len(runs), unproven)


def run(repetitions: int, out: Path, settings: Settings | None = None) -> None:
    settings = settings or Settings()
    points = [*published(), *recipe_points(repetitions, settings), *own_points(min(repetitions, settings.own), settings)]
    write(out / "paper-ilp.csv", Point, points)
    draw_figures(points, out / "paper-ilp.png")
    note(f"wrote {out / 'paper-ilp.csv'} and {out / 'paper-ilp.png'}")


def published() -> Iterator[Point]:
    """The paper's own points."""
    for figure, lines in (("cost", paper.COSTS), ("size", paper.SIZES)):
        for (relations, name), line in lines.items():
            for drawn, value in line.items():
                yield Point(f"{figure}-{relations}", "paper", name, relations, drawn, SIZE, value, None, 100, 0)
    for drawn, value in paper.SECONDS.items():
        yield Point("time-queries", "paper", "seconds", 100, drawn, SIZE, value, None, 100, 0)
    for drawn, line in paper.SECONDS_BY_SIZE.items():
        for size, value in line.items():
            yield Point("time-size", "paper", f"{drawn} queries", 100, drawn, size, value, None, 100, 0)


def recipe(at: At, repetitions: int, time_limit: float) -> list[Outcome]:
    note(f"the paper's model: {at.relations} relations, {at.drawn} queries of {at.size}, {repetitions} sets")
    return [measure(paper_schema(at.relations), at.queries(i), time_limit) for i in range(repetitions)]


def recipe_points(repetitions: int, settings: Settings) -> Iterator[Point]:
    for relations in (10, 100):
        for drawn in settings.counts:
            at = At(relations, drawn, SIZE)
            runs = recipe(at, repetitions, settings.time_limit)
            yield from _costs_and_sizes(at, "recipe", runs)
            if relations == 100:
                yield at.point("time-queries", "recipe", "seconds", runs, lambda r: r.seconds)
    for size in settings.sizes:
        most = min(repetitions, dict(settings.by_size).get(size, repetitions))
        for drawn in settings.counts_by_size:
            at = At(100, drawn, size)
            yield at.point("time-size", "recipe", f"{drawn} queries", recipe(at, most, settings.time_limit), lambda r: r.seconds)


def own_points(repetitions: int, settings: Settings) -> Iterator[Point]:
    own.warm_up()
    for relations in (10, 100):
        for drawn in settings.counts:
            at = At(relations, drawn, SIZE)
            note(f"our own model: {relations} relations, {drawn} queries of {SIZE}, {repetitions} sets")
            yield from _costs_and_sizes(at, "own", [own_run(at.texts(i), settings) for i in range(repetitions)])
    for figure, sizes, counts in (("time-queries", (SIZE,), settings.counts), ("time-size", settings.sizes, settings.counts_by_size)):
        for size in sizes:
            for drawn in counts:
                at = At(100, drawn, size)
                note(f"our own model, run time: {drawn} queries of {size}, {repetitions} sets")
                timed = [own.plan(at.texts(i), cost="probe", layouts="many", time_limit=settings.time_limit) for i in range(repetitions)]
                line = "seconds" if figure == "time-queries" else f"{drawn} queries"
                yield at.point(figure, "own", line, timed, lambda r: r.seconds)


def own_run(queries: dict[str, str], settings: Settings) -> Own:
    alone, shared = (
        own.plan(queries, cost="full", layouts="one", strategy=strategy, time_limit=settings.own_limit, gap=settings.own_gap)
        for strategy in ("independent", "global")
    )
    orders = count_orders(queries, own.STATISTICS, own.WORKERS, "full", "one")
    proven = max(alone.gap, shared.gap) <= settings.own_gap + own.PROVEN
    return Own(orders, shared.variables, alone.cost, shared.cost, proven)


def _costs_and_sizes(at: At, model: Model, runs: Sequence[Outcome] | Sequence[Own]) -> Iterator[Point]:
    for figure, lines in FIGURES:
        for line in lines:
            point = at.point(f"{figure}-{at.relations}", model, line, runs, attrgetter(line))
            yield point if figure == "cost" else replace(point, unproven=0)  # a program has its size before it is solved
