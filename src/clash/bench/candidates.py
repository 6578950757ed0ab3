"""How many probe orders the published formulation would have as variables, counted along the graph instead of one by one."""

from __future__ import annotations

from collections.abc import Mapping

from clash.model.statistics import Statistics
from clash.planner.cost_model import CostModel, CostName, LayoutRule
from clash.planner.search_space import Options, build_space
from clash.sql import parse_queries


def count_orders(queries: Mapping[str, str], statistics: Statistics, workers: int, cost: CostName, layouts: LayoutRule) -> int:
    """Decorated orders of all queries, and of all MIRs that any of them can probe."""
    parsed, streams = parse_queries(queries)
    graph = build_space(parsed, statistics, streams, Options(CostModel(cost, workers, layouts))).graph
    lattice = graph.lattice
    paths: dict[int, int] = {}
    probed: set[int] = set()

    def count(node: int) -> int:
        """Orders that lead to the node; notes the MIRs they probe. As deep as a query has relations, so it may recurse."""
        if node not in paths:
            paths[node] = 1 if graph.is_root(node) else 0
            for at in graph.into[node]:
                arc = graph.arcs[at]
                decorations = len(arc.layouts) or (len(graph.stores[arc.store].layouts) if arc.store >= 0 else 1)
                paths[node] += count(arc.tail) * decorations
                if arc.probes >= 0 and lattice.subs[arc.probes].size > 1:
                    probed.add(arc.probes)
        return paths[node]

    ends = dict.fromkeys(goal for target in lattice.targets for goal in graph.goals(target))
    todo = list(ends)
    counted: set[int] = set()
    while todo:
        count(todo.pop())
        for sub in sorted(probed - counted):
            counted.add(sub)
            fresh = [feeder for feeder in graph.feeders(sub) if feeder not in ends]
            ends.update(dict.fromkeys(fresh))
            todo += fresh
    return sum(paths[end] for end in ends)
