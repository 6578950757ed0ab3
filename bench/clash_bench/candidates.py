"""The number of probe orders that the published formulation has as variables, counted along the graph without enumerating them."""

from __future__ import annotations

from collections.abc import Mapping

from clash.model.statistics import Statistics
from clash.plan.options import CostName, LayoutRule
from clash.planner.cost_model import CostModel
from clash.planner.search_space import Options, build_space
from clash.sql import parse_queries


def count_orders(queries: Mapping[str, str], statistics: Statistics, workers: int, cost: CostName, layouts: LayoutRule) -> int:
    """The number of orders with layouts (decorated orders) of all queries, and of all MIRs that any of them can probe."""
    parsed, streams = parse_queries(queries)
    graph = build_space(parsed, statistics, streams, Options(CostModel(cost, workers, layouts))).graph
    lattice = graph.lattice
    paths: dict[int, int] = {}
    probed: set[int] = set()

    def count(node: int) -> int:
        """The number of orders that lead to the node; adds the MIRs that they probe to `probed`.

        The recursion is as deep as a query has relations.
        """
        if node not in paths:
            paths[node] = 1 if graph.is_root(node) else 0
            for index in graph.into[node]:
                arc = graph.arcs[index]
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
            new_ends = [feeder for feeder in graph.feeders(sub) if feeder not in ends]
            ends.update(dict.fromkeys(new_ends))
            todo += new_ends
    return sum(paths[end] for end in ends)
