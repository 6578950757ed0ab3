"""The search space of a set of queries: the lattice and the graph under one set of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from clash.model.layout import Layout
from clash.model.query import EqualityClass, Query
from clash.model.relation import Relation
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, exact
from clash.plan.options import FormulationName
from clash.planner.build_graph import build_graph
from clash.planner.candidate_joins import candidates, enumerable
from clash.planner.cardinalities import Sizes
from clash.planner.cost_model import CostModel
from clash.planner.deadline import NEVER, Deadline
from clash.planner.graph import Graph
from clash.planner.lattice import Lattice
from clash.planner.skew import Skew
from clash.planner.solver import SolverProcess

MAX_SPLITS_FOR_LAYOUT_CHOICE = 4_000  # under `full`; with more splits each store's layout is preset
FULL_ARCS_PER_STEP = 6  # roughly: under `full`, placements and layouts multiply the arcs of a step
MAX_UNPLACED_STEPS = 20_000  # of a graph without placements, where it is one for some of the queries
UNPLACED_STEPS_PER_SECOND = 1_200  # roughly: until a first relaxation is solved
BUILD_SHARE = 0.4  # of the time, at most, until the search begins


@dataclass(frozen=True)
class Options:
    """How to plan: the cost model, and the planner's options as in `PlanRequest`."""

    model: CostModel
    formulation: FormulationName = "compact"
    mirs: bool = True
    gap: float = 0.0
    solver: SolverProcess | None = None
    """The process that solves integer programs; None solves them in this one."""
    on_progress: Callable[[float, float], None] | None = None
    """Called with the cost of the best plan so far and its bound, whenever one of them improves in the search of a large set."""
    running_layouts: tuple[tuple[str, Layout], ...] = ()
    """The layouts with hot keys that stores of streams have, in the plan that the search begins with or that is priced: they are considered
    whether or not the statistics suggest them."""
    hulls: bool = True
    """Whether queries may take their results from weaker joins, under the strategy `global` and the cost `full`."""


@dataclass(frozen=True)
class SearchSpace:
    """The plans that are considered for a set of queries."""

    queries: tuple[Query, ...]
    graph: Graph
    complete: bool
    """Whether the graph contains every plan, so that its bound is a bound over all plans."""
    left_out: tuple[Query, ...]
    """Hulls that the graph does not contain: it was not built in time with them, or the strategy has no use for them. Bounds over all plans
    count nothing that a plan over them might do without."""
    _build_under: Callable[[CostModel, Deadline], Graph | None]
    _build_unplaced: Callable[[Deadline], Graph | None]

    @property
    def replaceable(self) -> set[frozenset[Relation]]:
        """The relations of queries that hulls which are left out may replace."""
        return {hull.join.relations for hull in self.left_out}

    def unrestricted(self, deadline: Deadline) -> Graph | None:
        """The same lattice under probe costs with free copies, on one worker, so that not even a cross join broadcasts: for bounds
        that hold under any layouts. None if not built in time."""
        return self._build_under(CostModel("probe", 1, "many"), deadline)

    def unplaced(self, deadline: Deadline) -> Graph | None:
        """A graph without placements, for bounds under `full` (`unplaced_bound`): of all plans for all queries or, where these are too
        many, of all plans for some of the queries. None if not built in time, and where there are hulls, which may replace what it has of
        a query."""
        return None if self.graph.lattice.hulls or self.left_out else self._build_unplaced(deadline)


def build_space(
    queries: tuple[Query, ...],
    statistics: Statistics,
    streams: Mapping[str, Stream],
    options: Options,
    deadline: Deadline = NEVER,
    hulls: Sequence[Query] = (),
) -> SearchSpace:
    """Runs the first passes: candidate sub-joins, lattice, graph. `hulls`: joins that queries may take their results from.

    They take a share of the time until the deadline. Where the space is not complete by then, it is the smallest one: what a plan needs,
    without hulls.
    """
    sizes = Sizes(statistics, dict(streams))
    due = deadline.share(BUILD_SHARE)
    space = _build(queries, sizes, streams, options, hulls, due.left, due)
    if space is None:
        smallest = _build(queries, sizes, streams, options, (), 0.0, NEVER)
        space = None if smallest is None else replace(smallest, left_out=tuple(hulls))
    if space is None:
        raise AssertionError("without a deadline nothing is given up")
    return space


def _build(
    queries: tuple[Query, ...],
    sizes: Sizes,
    streams: Mapping[str, Stream],
    options: Options,
    hulls: Sequence[Query],
    seconds: float,
    deadline: Deadline,
) -> SearchSpace | None:
    """None where it is not done at the deadline. `seconds`: how long the graph may take to build."""
    lattice = Lattice(sizes)
    weight = FULL_ARCS_PER_STEP if options.model.full else 1
    chosen = candidates((*queries, *hulls), sizes, weight, options.mirs, seconds, deadline)
    if chosen is None:
        return None
    for query, masks in zip(queries, chosen, strict=False):
        if deadline.passed:
            return None
        lattice.add(query, masks)
    for hull, masks in zip(hulls, chosen[len(queries) :], strict=True):
        if deadline.passed:
            return None
        lattice.add_hull(hull, queries, masks)

    def equal_values_hash_equally(equal: EqualityClass) -> bool:
        types = [_column_type(streams, member.relation.stream, member.column) for member in equal]
        return all(exact(types[0], other) for other in types)

    complete = all(target.complete for target in (*lattice.targets, *lattice.hulls))
    splits = sum(len(sub.splits) for sub in lattice.subs)
    preset_layouts = options.model.full and splits > MAX_SPLITS_FOR_LAYOUT_CHOICE

    def build(model: CostModel, deadline: Deadline) -> Graph | None:
        skew, preset = Skew(sizes.statistics, model.workers, options.running_layouts), preset_layouts and model.full
        return build_graph(lattice, sizes, model, options.mirs, equal_values_hash_equally, preset, skew, deadline)

    def build_unplaced(deadline: Deadline) -> Graph | None:
        model, small = replace(options.model, unplaced=True), lattice
        if not complete:
            small = Lattice(sizes)
            steps = int(min(MAX_UNPLACED_STEPS, UNPLACED_STEPS_PER_SECOND * deadline.left))
            for query in enumerable(queries, steps):
                if deadline.passed:
                    return None
                small.add(query)
        return build_graph(small, sizes, model, options.mirs, equal_values_hash_equally, deadline=deadline)

    graph = build(options.model, deadline)
    if graph is None:
        return None
    return SearchSpace(queries, graph, complete and not preset_layouts, (), build, build_unplaced)


def _column_type(streams: Mapping[str, Stream], stream: str, column: str) -> str:
    column_type = streams[stream].type_of(column) if stream in streams else None
    return column_type or UNKNOWN
