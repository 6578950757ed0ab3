"""Query sets fall into components that have no step and no choice of layout in common: each is a smaller problem."""

from __future__ import annotations

from clash.planner.graph import Graph
from clash.planner.lattice import Target


def components(graph: Graph, targets: list[Target]) -> list[list[Target]]:
    """The targets, grouped so that plans of different groups do not meet. Rounds are one number for all: one group."""
    if graph.model.round_cost:
        return [list(targets)]
    parent = {target.sub: target.sub for target in targets}

    def find(sub: int) -> int:
        while parent[sub] != sub:
            parent[sub] = sub = parent[parent[sub]]
        return sub

    owner: dict[object, int] = {}
    for target in targets:
        for part in graph.parts(target):
            sub = graph.lattice.subs[part]
            key: object = part
            if sub.size == 1:
                store = graph.find_store(sub)
                if store is None or graph.model.free_copies or (len(store.layouts) == 1 and not graph.model.full):
                    continue
                key = ("store", store.id)
            parent[find(target.sub)] = find(owner.setdefault(key, target.sub))
    groups: dict[int, list[Target]] = {}
    for target in targets:
        groups.setdefault(find(target.sub), []).append(target)
    return list(groups.values())
