"""The search space of a set of queries: lattice and graph under one set of options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from clash.model.query import EqualityClass, Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, exact
from clash.planner.costs import CostModel
from clash.planner.graph import Graph
from clash.planner.lattice import Lattice
from clash.planner.reduce import candidates
from clash.planner.sizes import Sizes

StrategyName = Literal["independent", "shared", "global"]
FormulationName = Literal["published", "compact"]


@dataclass(frozen=True)
class Options:
    model: CostModel
    strategy: StrategyName = "global"
    formulation: FormulationName = "compact"
    mirs: bool = True
    gap: float = 0.0


@dataclass(frozen=True)
class Space:
    """`complete`: does the graph hold every plan, so that its bound is a bound over all plans?"""

    queries: tuple[Query, ...]
    graph: Graph
    plain: Graph  # probe costs, free copies: for bounds
    complete: bool


def build_space(queries: tuple[Query, ...], statistics: Statistics, streams: Mapping[str, Stream], options: Options) -> Space:
    sizes = Sizes(statistics, dict(streams))
    lattice = Lattice(sizes)
    for query, masks in zip(queries, candidates(queries, sizes, options.mirs), strict=True):
        lattice.add(query, masks)

    def comparable(equal: EqualityClass) -> bool:
        types = [_type(streams, member.relation.stream, member.column) for member in equal]
        return all(exact(types[0], other) for other in types)

    graph = Graph(lattice, sizes, options.model, options.mirs, comparable)
    plain_model = CostModel("probe", options.model.workers, "many")
    plain = graph if options.model.free_copies else Graph(lattice, sizes, plain_model, options.mirs, comparable)
    return Space(queries, graph, plain, all(target.complete for target in lattice.targets))


def _type(streams: Mapping[str, Stream], stream: str, column: str) -> str:
    found = streams[stream].type_of(column) if stream in streams else None
    return found or UNKNOWN
