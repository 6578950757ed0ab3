"""What a solution of the linear relaxation suggests to the heuristic.

The relaxation decides on all queries at once, which inserting one query after the other does not. Rounded, its layouts are better than
those that queries vote for one by one; and a step that it uses in full is one that others are going to share, so the heuristic counts it
as nearly paid for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clash.planner.compact_program import CompactProgram
from clash.planner.integer_program import Values

_DISCOUNT = 0.9  # on a step that the relaxation uses in full


@dataclass(frozen=True)
class Guide:
    """Suggestions for one group of queries."""

    layouts: Mapping[int, int]
    """Base store → its layout, where it has a choice and may have only one."""
    costs: list[float]
    """Arc → its cost, less the discount on what the relaxation uses."""


def guide(program: CompactProgram, values: Values) -> Guide:
    graph = program.graph
    layouts: dict[int, int] = {}
    for store in graph.stores:
        if store.stream is not None and store.single_layout and len(store.layouts) > 1 and (store.id, 0) in program.z:
            layouts[store.id] = max(range(len(store.layouts)), key=lambda i: (values[program.z[store.id, i]], -i))
    costs = [arc.cost for arc in graph.arcs]
    for at, y in program.y.items():
        costs[at] *= 1.0 - _DISCOUNT * min(1.0, max(0.0, float(values[y])))
    return Guide(layouts, costs)
