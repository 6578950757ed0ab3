"""The paper's six figures on the integer program: its plotted values, its model solved by us, and our own model.

Model `recipe` is the paper's model as in `paper_model`, over queries drawn in the same way. Model `own` is `clash.optimize`: for cost and
size under the cost model `full` and one layout per store, for run time under the paper's cost model, where layouts are free.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from clash_bench import our_planner
from clash_bench import paper_values as paper
from clash_bench.candidates import count_orders
from clash_bench.paper_model import Outcome, measure
from clash_bench.paper_plot import draw_figures
from clash_bench.tables import mean, note, write
from clash_bench.workloads import paper_schema, short_form, walks

Model = Literal["paper", "recipe", "own"]
SIZE = 3  # relations per query in all figures but the last
FIGURES = (("cost", ("individual", "shared")), ("size", ("variables", "orders")))


@dataclass(frozen=True)
class Settings:
    """How much is measured; fewer query sets per point where a set takes long. The CSV file holds the number of sets."""

    counts: tuple[int, ...] = paper.COUNTS
    sizes: tuple[int, ...] = (3, 4, 5)
    counts_by_size: tuple[int, ...] = (10, 20, 30)
    max_sets_by_size: tuple[tuple[int, int], ...] = ((4, 20), (5, 3))
    """Relations per query → query sets per point of the model `recipe`."""
    own_sets: int = 3
    """Query sets per point of the model `own`."""
    time_limit: float = 60.0
    own_limit: float = 10.0
    """Time limit for cost and size of the model `own`."""
    own_gap: float = 0.01
    """The gap for the same: a difference of 1 % is within the width of the plotted line."""


@dataclass(frozen=True)
class Point:
    """A line of the CSV file: a point of a figure."""

    figure: str
    model: Model
    line: str
    relations: int
    """Relations of the schema."""
    drawn: int
    """Queries that were drawn for a set."""
    size: int
    """Relations per query."""
    mean: float
    error: float | None
    """The standard error of the mean."""
    repetitions: int
    """The number of query sets."""
    unproven: int
    """Query sets that the time limit cut off."""


class SetOutcome(Protocol):
    """The outcome of one query set, under either model."""

    @property
    def proven(self) -> bool: ...


R = TypeVar("R", bound=SetOutcome)


@dataclass(frozen=True)
class OwnOutcome:
    """The outcome of one query set under our own model; fields are named as those of `Outcome`. `proven`: within the requested gap."""

    orders: int
    variables: int
    individual: float
    shared: float
    proven: bool


@dataclass(frozen=True)
class QuerySets:
    """The query sets of a point, each a function of its repetition."""

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
        average, error = mean([value(run) for run in runs])
        unproven = sum(not run.proven for run in runs)
        return Point(figure, model, line, self.relations, self.drawn, self.size, average, error, len(runs), unproven)


def run(repetitions: int, out: Path, settings: Settings | None = None) -> None:
    """The options are those of the command `paper-ilp`."""
    settings = settings or Settings()
    points = [*paper_points(), *recipe_points(repetitions, settings), *own_points(min(repetitions, settings.own_sets), settings)]
    write(out / "paper-ilp.csv", Point, points)
    draw_figures(points, out / "paper-ilp.png")
    note(f"wrote {out / 'paper-ilp.csv'} and {out / 'paper-ilp.png'}")


def paper_points() -> Iterator[Point]:
    """The points that the paper plots."""
    for figure, lines in (("cost", paper.COSTS), ("size", paper.SIZES)):
        for (relations, name), line in lines.items():
            for drawn, value in line.items():
                yield Point(f"{figure}-{relations}", "paper", name, relations, drawn, SIZE, value, None, 100, 0)
    for drawn, value in paper.SECONDS.items():
        yield Point("time-queries", "paper", "seconds", 100, drawn, SIZE, value, None, 100, 0)
    for drawn, line in paper.SECONDS_BY_SIZE.items():
        for size, value in line.items():
            yield Point("time-size", "paper", f"{drawn} queries", 100, drawn, size, value, None, 100, 0)


def solve_recipe(sets: QuerySets, repetitions: int, time_limit: float) -> list[Outcome]:
    note(f"the paper's model: {sets.relations} relations, {sets.drawn} queries of {sets.size}, {repetitions} sets")
    return [measure(paper_schema(sets.relations), sets.queries(i), time_limit) for i in range(repetitions)]


def recipe_points(repetitions: int, settings: Settings) -> Iterator[Point]:
    """The paper's model, solved by us."""
    for relations in (10, 100):
        for drawn in settings.counts:
            sets = QuerySets(relations, drawn, SIZE)
            runs = solve_recipe(sets, repetitions, settings.time_limit)
            yield from _costs_and_sizes(sets, "recipe", runs)
            if relations == 100:
                yield sets.point("time-queries", "recipe", "seconds", runs, lambda outcome: outcome.seconds)
    for size in settings.sizes:
        max_sets = min(repetitions, dict(settings.max_sets_by_size).get(size, repetitions))
        for drawn in settings.counts_by_size:
            sets = QuerySets(100, drawn, size)
            outcomes = solve_recipe(sets, max_sets, settings.time_limit)
            yield sets.point("time-size", "recipe", f"{drawn} queries", outcomes, lambda outcome: outcome.seconds)


def own_points(repetitions: int, settings: Settings) -> Iterator[Point]:
    """Our own model."""
    our_planner.warm_up()
    for relations in (10, 100):
        for drawn in settings.counts:
            sets = QuerySets(relations, drawn, SIZE)
            note(f"our own model: {relations} relations, {drawn} queries of {SIZE}, {repetitions} sets")
            yield from _costs_and_sizes(sets, "own", [solve_own(sets.texts(i), settings) for i in range(repetitions)])
    for figure, sizes, counts in (("time-queries", (SIZE,), settings.counts), ("time-size", settings.sizes, settings.counts_by_size)):
        for size in sizes:
            for drawn in counts:
                sets = QuerySets(100, drawn, size)
                note(f"our own model, run time: {drawn} queries of {size}, {repetitions} sets")
                timed = [
                    our_planner.plan(sets.texts(i), cost="probe", layouts="many", time_limit=settings.time_limit)
                    for i in range(repetitions)
                ]
                line = "seconds" if figure == "time-queries" else f"{drawn} queries"
                yield sets.point(figure, "own", line, timed, lambda outcome: outcome.seconds)


def solve_own(queries: dict[str, str], settings: Settings) -> OwnOutcome:
    independent, shared = (
        our_planner.plan(queries, cost="full", layouts="one", strategy=strategy, time_limit=settings.own_limit, gap=settings.own_gap)
        for strategy in ("independent", "global")
    )
    orders = count_orders(queries, our_planner.STATISTICS, our_planner.WORKERS, "full", "one")
    proven = max(independent.gap, shared.gap) <= settings.own_gap + our_planner.PROVEN
    return OwnOutcome(orders, shared.variables, independent.cost, shared.cost, proven)


def _costs_and_sizes(sets: QuerySets, model: Model, outcomes: Sequence[Outcome] | Sequence[OwnOutcome]) -> Iterator[Point]:
    for figure, lines in FIGURES:
        for line in lines:
            point = sets.point(f"{figure}-{sets.relations}", model, line, outcomes, attrgetter(line))
            yield point if figure == "cost" else replace(point, unproven=0)  # the size of a program does not depend on a proof
