"""The search space of a set of queries: the lattice and the graph under one set of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from clash.model.query import EqualityClass, Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, exact
from clash.plan.options import FormulationName
from clash.planner.build_graph import build_graph
from clash.planner.candidate_joins import candidates
from clash.planner.cardinalities import Sizes
from clash.planner.cost_model import CostModel
from clash.planner.graph import Graph
from clash.planner.lattice import Lattice
from clash.planner.solver import SolverProcess

MAX_SPLITS_FOR_LAYOUT_CHOICE = 4_000  # under `full`; with more splits each store's layout is preset
FULL_ARCS_PER_STEP = 6  # roughly: under `full`, placements and layouts multiply the arcs of a step


@dataclass(frozen=True)
class Options:
    """How to plan: the cost model, and the planner's options as in `PlanRequest`."""

    model: CostModel
    formulation: FormulationName = "compact"
    mirs: bool = True
    gap: float = 0.0
    solver: SolverProcess | None = None
    """The process that solves integer programs; None solves them in this one."""


@dataclass(frozen=True)
class SearchSpace:
    """The plans that are considered for a set of queries."""

    queries: tuple[Query, ...]
    graph: Graph
    complete: bool
    """Whether the graph contains every plan, so that its bound is a bound over all plans."""
    _build_unrestricted: Callable[[], Graph]

    @cached_property
    def unrestricted(self) -> Graph:
        """The same lattice under probe costs with free copies: for bounds that hold under any layouts."""
        return self._build_unrestricted()


def build_space(queries: tuple[Query, ...], statistics: Statistics, streams: Mapping[str, Stream], options: Options) -> SearchSpace:
    """Runs the first passes: candidate sub-joins, lattice, graph."""
    sizes = Sizes(statistics, dict(streams))
    lattice = Lattice(sizes)
    weight = FULL_ARCS_PER_STEP if options.model.full else 1
    for query, masks in zip(queries, candidates(queries, sizes, weight, options.mirs), strict=True):
        lattice.add(query, masks)

    def equal_values_hash_equally(equal: EqualityClass) -> bool:
        types = [_column_type(streams, member.relation.stream, member.column) for member in equal]
        return all(exact(types[0], other) for other in types)

    complete = all(target.complete for target in lattice.targets)
    splits = sum(len(sub.splits) for sub in lattice.subs)
    preset_layouts = options.model.full and splits > MAX_SPLITS_FOR_LAYOUT_CHOICE

    def build(model: CostModel) -> Graph:
        return build_graph(lattice, sizes, model, options.mirs, equal_values_hash_equally, preset_layouts and model.full)

    graph = build(options.model)
    unrestricted = CostModel("probe", options.model.workers, "many")
    return SearchSpace(queries, graph, complete and not preset_layouts, lambda: graph if options.model.free_copies else build(unrestricted))


def _column_type(streams: Mapping[str, Stream], stream: str, column: str) -> str:
    column_type = streams[stream].type_of(column) if stream in streams else None
    return column_type or UNKNOWN
