"""The search space of a set of queries: lattice and graph under one set of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from clash.model.query import EqualityClass, Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, exact
from clash.planner.cost_model import CostModel
from clash.planner.graph import Graph
from clash.planner.solver import Aside
from clash.planner.lattice import Lattice
from clash.planner.candidate_joins import candidates
from clash.planner.cardinalities import Sizes

StrategyName = Literal["independent", "shared", "global"]
FormulationName = Literal["published", "compact"]


MOST_WEIGHED = 4_000  # splits up to which every layout is weighed under `full`


@dataclass(frozen=True)
class Options:
    """`aside`: where the solver works, if not here."""

    model: CostModel
    strategy: StrategyName = "global"
    formulation: FormulationName = "compact"
    mirs: bool = True
    gap: float = 0.0
    aside: Aside | None = None


@dataclass(frozen=True)
class Space:
    """`complete`: does the graph hold every plan, so that its bound is a bound over all plans?"""

    queries: tuple[Query, ...]
    graph: Graph
    complete: bool
    _plain: Callable[[], Graph]

    @cached_property
    def plain(self) -> Graph:
        """The same lattice under probe costs with free copies: for bounds that hold under any layouts."""
        return self._plain()


def build_space(queries: tuple[Query, ...], statistics: Statistics, streams: Mapping[str, Stream], options: Options) -> Space:
    sizes = Sizes(statistics, dict(streams))
    lattice = Lattice(sizes)
    weight = 6 if options.model.full else 1  # places and layouts multiply the arcs of a step
    for query, masks in zip(queries, candidates(queries, sizes, weight, options.mirs), strict=True):
        lattice.add(query, masks)

    def comparable(equal: EqualityClass) -> bool:
        types = [_type(streams, member.relation.stream, member.column) for member in equal]
        return all(exact(types[0], other) for other in types)

    complete = all(target.complete for target in lattice.targets)
    lean = options.model.full and sum(1 for sub in lattice.subs for _ in sub.splits) > MOST_WEIGHED

    def build(model: CostModel) -> Graph:
        return Graph(lattice, sizes, model, options.mirs, comparable, lean and model.full)

    graph = build(options.model)
    plain = CostModel("probe", options.model.workers, "many")
    return Space(queries, graph, complete and not lean, lambda: graph if options.model.free_copies else build(plain))


def _type(streams: Mapping[str, Stream], stream: str, column: str) -> str:
    found = streams[stream].type_of(column) if stream in streams else None
    return found or UNKNOWN
