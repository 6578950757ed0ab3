"""Lower bounds on what a query costs alone.

In any shared plan the steps inside a query's own part of the lattice are a plan for that query, so they cost at least what the query costs
alone. Rows that say so make the integer program's relaxation tight. The bound itself is proven by a case distinction on the largest MIR
that a plan keeps, which branching would find only late; in each case it is that of the relaxation's duals (`dual_bound`), so that it holds
whatever the solver's tolerances are. Broadcasts are left out (every probe goes to one worker), so the bound holds under any layouts.
Queries of the same shape and the same sizes share it.
"""

from __future__ import annotations

import itertools
import math

from clash.model.relation import Relation
from clash.planner.compact_program import CompactProgram
from clash.planner.deadline import Deadline
from clash.planner.graph import Graph
from clash.planner.lattice import Target

_NEAR = 1 - 1e-7  # the duals are exact only up to the solver's tolerances: a bound that is this near to a cost has proven all it can
_SAFE = 1 - 1e-12  # what is proven is a sum of a few rounded terms
_MAX_NUMBERINGS = 720  # relations are not renumbered in more ways than this to find queries of the same shape
Shape = tuple[tuple[int, float], ...]
"""(mask of relations, rows) of every connected part, under a canonical numbering of the relations."""


class IsolatedBounds:
    """Bounds over a graph, which must be one of `probe` costs with free copies on one worker."""

    def __init__(self, graph: Graph, deadline: Deadline) -> None:
        self.graph, self.deadline = graph, deadline
        self._bounds: dict[Shape, float] = {}
        self._tree_costs: dict[int, float] = {}

    def bound(self, sub: int) -> float:
        """No plan for the sub costs less."""
        size = self.graph.lattice.subs[sub].size
        if len(self.graph.lattice.subs[sub].origins) < size:
            return 0.0  # the proof counts a probe order from every relation
        if size <= 2:
            return self._tree_cost(sub)
        if not self.graph.mirs:
            return 0.0
        if self.deadline.passed:
            return 0.0
        shape = self._shape(sub)
        if shape not in self._bounds:
            self._bounds[shape] = self._prove(sub, size)
        return self._bounds[shape]

    def _tree_cost(self, sub: int) -> float:
        """The cost of the best plan that keeps every half of one bushy join tree: an upper bound, for almost every query the optimum."""
        if sub not in self._tree_costs:
            subs = self.graph.lattice.subs
            self._tree_costs[sub] = min(
                (self._tree_cost(a) + self._tree_cost(b) + subs[a].rows + subs[b].rows for a, b in subs[sub].splits), default=0.0
            )
        return self._tree_costs[sub]

    def _prove(self, sub: int, size: int) -> float:
        """The case distinction; the result is nearly the cost of the best tree where that is proven, else the best bound found."""
        tree_cost = best = self._tree_cost(sub)
        subs = self.graph.lattice.subs
        program = CompactProgram(self.graph, [Target.of_sub(sub)])
        relaxed = self._relaxed(program)
        if relaxed >= tree_cost * _NEAR:
            return relaxed * _SAFE
        largest = [mir for mir in program.m if subs[mir].size == size - 1]
        for mir in largest:  # it is kept: its own plan, a step out of it for each of its relations, the last relation's first step
            rest = next(r for r in subs[sub].relations if r not in subs[mir].relations)
            best = min(best, self.bound(mir) + self._cost_of_leaving(sub, mir) + self._first_step_cost(sub, rest))
        lower, upper = program.milp.lower, program.milp.upper
        for mir in largest:  # none of them is kept
            upper[program.m[mir]] = 0.0
        without = self._relaxed(program)
        if without < best * _NEAR:
            for mir in [m for m in program.m if subs[m].size == size - 2 and size > 3]:
                lower[program.m[mir]] = 1.0
                best = min(best, self._relaxed(program))
                lower[program.m[mir]] = upper[program.m[mir]] = 0.0  # in all later cases it is not kept
            without = self._relaxed(program)
        return max(relaxed, min(best, without)) * _SAFE

    def _relaxed(self, program: CompactProgram) -> float:
        return 0.0 if self.deadline.passed else max(0.0, program.milp.relaxed(self.deadline.left))

    def _cost_of_leaving(self, sub: int, mir: int) -> float:
        """What the steps out of the MIR cost at least: one for each of its relations."""
        graph, subs = self.graph, self.graph.lattice.subs
        inside = set(subs[mir].relations)
        parts = graph.parts(Target.of_sub(sub))
        total = 0.0
        for origin in subs[mir].relations:
            total += min(
                graph.arcs[at].cost
                for part in parts
                if not inside.issuperset(subs[part].relations)
                for node in graph.nodes_of(part)
                if graph.nodes[node].origin == origin
                for at in graph.into[node]
                if inside.issuperset(subs[graph.nodes[graph.arcs[at].tail].sub].relations)
            )
        return total

    def _first_step_cost(self, sub: int, relation: Relation) -> float:
        subs = self.graph.lattice.subs
        return next(subs[part].rows for part in self.graph.parts(Target.of_sub(sub)) if subs[part].relations == (relation,))

    def _shape(self, sub: int) -> Shape:
        """The sizes of all connected parts, under the numbering of relations that makes the result smallest.

        Where that would take too many numberings, the shape is one that no other sub has.
        """
        subs = self.graph.lattice.subs
        relations = subs[sub].relations
        number = {relation: i for i, relation in enumerate(relations)}
        parts = [(sum(1 << number[r] for r in subs[p].relations), subs[p].rows) for p in self.graph.parts(Target.of_sub(sub))]
        # Only relations that occur in parts of the same sizes can be exchanged for each other.
        signature = [tuple(sorted((mask.bit_count(), rows) for mask, rows in parts if mask >> i & 1)) for i in range(len(relations))]
        order = sorted(range(len(relations)), key=lambda i: signature[i])
        groups = [list(group) for _, group in itertools.groupby(order, key=lambda i: signature[i])]
        if math.prod(math.factorial(len(group)) for group in groups) > _MAX_NUMBERINGS:
            return (*sorted(parts), (-1, float(sub)))
        shapes = []
        for permuted in itertools.product(*(itertools.permutations(group) for group in groups)):
            position = {i: j for j, i in enumerate(itertools.chain(*permuted))}
            shapes.append(
                tuple(sorted((sum(1 << position[i] for i in range(len(relations)) if mask >> i & 1), rows) for mask, rows in parts))
            )
        return min(shapes)
