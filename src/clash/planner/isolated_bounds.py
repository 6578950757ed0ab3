"""What a query costs alone, from below.

In any shared plan the steps inside a query's own part of the lattice are a plan for that query, so they cost at least what the
query costs alone. Rows that say so make the integer program's relaxation tight. The bound itself is found by a case
distinction on the largest MIR that a plan keeps, which is what branching would find late. Broadcasts are left out
(every probe goes to one place), so the bound holds under any layouts. Queries of one shape and the same sizes share it.
"""

from __future__ import annotations

import itertools
import math
import time

from clash.planner.compact_program import Compact
from clash.planner.graph import Graph
from clash.planner.lattice import Target

_SAFE = 1 - 1e-7  # what the solver calls a bound is one up to its tolerances
Shape = tuple[tuple[int, float], ...]


class Isolated:
    """`graph` must be one of `probe` costs with free copies."""

    def __init__(self, graph: Graph, deadline: float) -> None:
        self.graph, self.deadline = graph, deadline
        self._found: dict[Shape, float] = {}
        self._tree: dict[int, float] = {}

    def tree(self, sub: int) -> float:
        """The cost of the best bushy tree: an upper bound, met by almost every query."""
        if sub not in self._tree:
            subs = self.graph.lattice.subs
            self._tree[sub] = min((self.tree(a) + self.tree(b) + subs[a].rows + subs[b].rows for a, b in subs[sub].splits), default=0.0)
        return self._tree[sub]

    def bound(self, sub: int) -> float:
        size = self.graph.lattice.subs[sub].size
        if size <= 2 or not self.graph.mirs:
            return self.tree(sub) if size <= 2 else 0.0
        shape = self._shape(sub)
        if shape not in self._found:
            self._found[shape] = self._prove(sub, size)
        return self._found[shape]

    def _prove(self, sub: int, size: int) -> float:
        enough = best = self.tree(sub)
        subs = self.graph.lattice.subs
        compact = Compact(self.graph, [Target(sub, [sub], [], True)])
        if self._relaxed(compact) >= enough * _SAFE:
            return enough
        largest = [m for m in compact.m if subs[m].size == size - 1]
        for mir in largest:  # it is kept: its own plan, a step out of it for each of its relations, the last relation's first step
            rest = next(r for r in subs[sub].relations if r not in subs[mir].relations)
            best = min(best, self.bound(mir) + self._leave(sub, mir) + self._first(sub, rest))
        most = compact.milp.most
        for mir in largest:  # none of them is kept
            most[compact.m[mir]] = 0.0
        if self._relaxed(compact) < best * _SAFE:
            for mir in [m for m in compact.m if subs[m].size == size - 2 and size > 3]:
                compact.milp.least[compact.m[mir]] = 1.0
                best = min(best, self._case(compact, best))
                compact.milp.least[compact.m[mir]] = most[compact.m[mir]] = 0.0  # from here on it is not kept
            best = min(best, self._case(compact, best))
        return enough if best >= enough * _SAFE else best * _SAFE

    def _case(self, compact: Compact, enough: float) -> float:
        """A bound of at least `enough`, or as good as a short solve makes it."""
        bound = self._relaxed(compact)
        left = self.deadline - time.perf_counter()
        if bound < enough * _SAFE and left > 0:
            answer = compact.milp.solve(min(2.0, left), options={"objective_bound": enough * compact.milp.scale})
            bound = max(bound, min(answer.bound, enough))
        return bound

    def _relaxed(self, compact: Compact) -> float:
        return max(0.0, compact.milp.relaxed(max(0.1, self.deadline - time.perf_counter())))

    def _leave(self, sub: int, mir: int) -> float:
        graph, subs = self.graph, self.graph.lattice.subs
        inside = set(subs[mir].relations)
        parts = graph.parts(Target(sub, [sub], [], True))
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

    def _first(self, sub: int, relation: object) -> float:
        subs = self.graph.lattice.subs
        return next(subs[p].rows for p in self.graph.parts(Target(sub, [sub], [], True)) if subs[p].relations == (relation,))

    def _shape(self, sub: int) -> Shape:
        """The sizes of all connected parts, under the numbering of relations that makes them smallest."""
        subs = self.graph.lattice.subs
        relations = subs[sub].relations
        number = {relation: i for i, relation in enumerate(relations)}
        parts = [(sum(1 << number[r] for r in subs[p].relations), subs[p].rows) for p in self.graph.parts(Target(sub, [sub], [], True))]
        colour = [tuple(sorted((mask.bit_count(), rows) for mask, rows in parts if mask >> i & 1)) for i in range(len(relations))]
        order = sorted(range(len(relations)), key=lambda i: colour[i])
        groups = [list(group) for _, group in itertools.groupby(order, key=lambda i: colour[i])]
        if math.prod(math.factorial(len(group)) for group in groups) > 720:
            return (*sorted(parts), (-1, float(sub)))
        shapes = []
        for permuted in itertools.product(*(itertools.permutations(group) for group in groups)):
            place = {i: j for j, i in enumerate(itertools.chain(*permuted))}
            shapes.append(tuple(sorted((sum(1 << place[i] for i in range(len(relations)) if mask >> i & 1), rows) for mask, rows in parts)))
        return min(shapes)
