"""Splits a query set into components that share no step and no choice of layout, so that each is a smaller problem of its own."""

from __future__ import annotations

from clash.planner.graph import Graph
from clash.planner.lattice import Target


def components(graph: Graph, targets: list[Target]) -> list[list[Target]]:
    """The targets, grouped so that the plans of different groups do not interact.

    Where rounds cost something there is one group: the number of rounds is the maximum over all queries.
    """
    if graph.model.round_cost:
        return [list(targets)]
    parent = {target.sub: target.sub for target in targets}

    def find(sub: int) -> int:
        """The representative of the group (union-find with path halving)."""
        while parent[sub] != sub:
            parent[sub] = sub = parent[parent[sub]]
        return sub

    first_user: dict[object, int] = {}  # shared sub, or store with a choice of layouts → the first target that uses it
    for target in targets:
        for part in graph.parts(target):
            sub = graph.lattice.subs[part]
            key: object = part
            if sub.size == 1:
                store = graph.find_store(sub)
                if store is None or graph.model.free_copies or (len(store.layouts) == 1 and not graph.model.full):
                    continue
                key = ("store", store.id)
            parent[find(target.sub)] = find(first_user.setdefault(key, target.sub))
    groups: dict[int, list[Target]] = {}
    for target in targets:
        groups.setdefault(find(target.sub), []).append(target)
    return list(groups.values())
