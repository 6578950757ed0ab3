"""A plan in the making: one arc into every needed node, counted by how many need it.

Invariant: what is held is exactly what the goals held so far need, so its cost is that of a plan. Letting go of a goal lets go of
what only it needed: steps, MIRs with all their feeders, copies of stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from clash.planner.graph import Graph
from clash.planner.lattice import Target
from clash.planner.solution import Solution, count_rounds, finish, settle


@dataclass(slots=True)
class Routes:
    """What the dynamic program found: the best arc into each node alone, and per sub the arcs of the best split."""

    via: dict[int, int] = field(default_factory=dict)
    fit: list[float | None] = field(default_factory=list)  # per demand for layouts: what meeting it costs
    trees: dict[int, tuple[int, int, list[int]]] = field(default_factory=dict)


class _Saved(NamedTuple):
    """A plan to come back to."""

    into: dict[int, int]
    need: dict[int, int]
    mirs: dict[int, int]
    layout: dict[int, int]
    copies: dict[tuple[int, int], int]
    users: dict[int, int]
    served: dict[int, int]
    cost: float


class Counted:
    def __init__(self, graph: Graph, targets: list[Target]) -> None:
        self.graph, self.targets = graph, targets
        self.free = graph.model.free_copies
        self.alone = [store.alone for store in graph.stores]
        self.settles = any(self.alone)
        self._several = not self.free and not all(self.alone)
        self._goals = {target.sub: graph.goals(target) for target in targets}
        self._size = [sub.size for sub in graph.lattice.subs]
        streams = {r.stream for target in targets for r in graph.lattice.subs[target.sub].relations}
        self._base_stores = [store.id for store in graph.stores if store.stream in streams]
        self._probing: dict[int, set[int]] = {}  # MIR → the nodes that probing it leads to
        for arc in graph.arcs:
            if arc.probes >= 0 and self._size[arc.probes] > 1:
                self._probing.setdefault(arc.probes, set()).add(arc.head)
        self._by_cost = [sorted(ways, key=lambda at: graph.arcs[at].cost) for ways in graph.into]
        self._reset()

    def _reset(self) -> None:
        self.into: dict[int, int] = {}
        self.need: dict[int, int] = {}  # node → how many steps, feeds and queries need it
        self.mirs: dict[int, int] = {}  # sub → how many arcs probe its store
        self.layout: dict[int, int] = {}  # store → its layout, where it has one at a time
        self.copies: dict[tuple[int, int], int] = {}  # (store, layout) → users, where it may have several
        self.users: dict[int, int] = {}  # store → arcs that need a certain layout of it
        self.served: dict[int, int] = {}  # arc → the layout it was given
        self.cost_of_arcs = 0.0
        self._news: list[int] = []  # nodes that are new since `rewire` last looked
        self._new_mirs: list[int] = []

    def _take(self, at: int) -> None:
        """Use an arc. Its tail, its layout and, for a MIR, all feeders are needed once more."""
        graph = self.graph
        arc = graph.arcs[at]
        self.into[arc.head] = at
        self._news.append(arc.head)
        self.cost_of_arcs += arc.cost
        if arc.layouts and not self.free:
            self.users[arc.store] = self.users.get(arc.store, 0) + 1
            if not self.alone[arc.store]:
                layout = self._cheapest(arc.store, arc.layouts)
                self.served[at] = layout
                self.copies[arc.store, layout] = self.copies.get((arc.store, layout), 0) + 1

    def _cheapest(self, store: int, layouts: tuple[int, ...]) -> int:
        held = [i for i in layouts if (store, i) in self.copies]
        costs = self.graph.stores[store].costs
        return min(held or layouts, key=lambda i: (costs[i], i))

    def _drop(self, at: int) -> None:
        arc = self.graph.arcs[at]
        del self.into[arc.head]
        self.cost_of_arcs -= arc.cost
        if arc.layouts and not self.free:
            self.users[arc.store] -= 1
            if not self.users[arc.store]:
                del self.users[arc.store]
                self.layout.pop(arc.store, None)
            if not self.alone[arc.store]:
                key = (arc.store, self.served.pop(at))
                self.copies[key] -= 1
                if not self.copies[key]:
                    del self.copies[key]

    def _release(self, node: int) -> None:
        graph, todo = self.graph, [node]
        while todo:
            node = todo.pop()
            if not graph.into[node]:
                continue
            self.need[node] -= 1
            if self.need[node]:
                continue
            del self.need[node]
            at = self.into[node]
            arc = graph.arcs[at]
            self._drop(at)
            todo.append(arc.tail)
            if arc.probes >= 0 and self._size[arc.probes] > 1:
                self.mirs[arc.probes] -= 1
                if not self.mirs[arc.probes]:
                    del self.mirs[arc.probes]
                    todo += graph.feeders(arc.probes)

    def _hold(self, goals: list[int], routes: Routes) -> None:
        """Need the goals. A sub that is wanted from all its relations takes the split that was found for it, if any."""
        graph, via, todo = self.graph, routes.via, list(goals)
        self._prefer(graph.nodes[goals[0]].sub, routes)
        while todo:
            node = todo.pop()
            if not graph.into[node]:
                continue
            held = self.need.get(node, 0)
            self.need[node] = held + 1
            if held:
                continue
            at = via[node]
            arc = graph.arcs[at]
            self._take(at)
            todo.append(arc.tail)
            if arc.probes >= 0 and self._size[arc.probes] > 1:
                users = self.mirs.get(arc.probes, 0)
                self.mirs[arc.probes] = users + 1
                if not users:
                    self._new_mirs.append(arc.probes)
                    feeders = graph.feeders(arc.probes)
                    self._prefer(arc.probes, routes)
                    todo += feeders

    def _prefer(self, sub: int, routes: Routes) -> None:
        """Over the whole tree at once: a half that is kept must be reached over its own split, not over a lone route."""
        tree = routes.trees.get(sub)
        if tree is None:
            return
        a, b, picks = tree
        for at in picks:
            routes.via[self.graph.arcs[at].head] = at
        for half in (a, b):
            if half not in self.mirs:
                self._prefer(half, routes)

    def remove(self, target: Target) -> None:
        for goal in self._goals[target.sub]:
            self._release(goal)

    # ---- small repairs --------------------------------------------------------------------------------------
    def rewire(self) -> None:
        """Let nodes take their cheapest arc among those that need nothing new. Only what came since the last time can have made an
        arc ready: new nodes, what they lead to, and what probes new MIRs."""
        graph, arcs, into = self.graph, self.graph.arcs, self.into
        while self._news:
            heads = {node for node in self._news if node in into}
            heads |= {arcs[at].head for node in heads for at in graph.out[node] if arcs[at].head in into}
            heads |= {head for mir in self._new_mirs for head in self._probing.get(mir, ()) if head in into}
            self._news, self._new_mirs = [], []
            for node in sorted(heads):
                at = into.get(node)
                if at is None:
                    continue
                cost = arcs[at].cost - 1e-9
                for other in self._by_cost[node]:
                    if arcs[other].cost >= cost:
                        break
                    if self._ready(other):
                        self._swap(at, other)
                        break

        if self._several:
            self._regroup()

    def _regroup(self) -> None:
        """Serve all arcs with as few copies as will do; one by one they may have opened more."""
        demands = [at for at in self.into.values() if self.graph.arcs[at].layouts and not self.alone[self.graph.arcs[at].store]]
        chosen = settle(self.graph, demands, {}, set())
        self.copies = {}
        for at in demands:
            arc = self.graph.arcs[at]
            layout = next(i for i in chosen[arc.store] if i in arc.layouts)
            self.served[at] = layout
            self.copies[arc.store, layout] = self.copies.get((arc.store, layout), 0) + 1

    def _ready(self, at: int) -> bool:
        arc = self.graph.arcs[at]
        if arc.tail not in self.into and not self.graph.is_root(arc.tail):
            return False
        if arc.probes >= 0 and self._size[arc.probes] > 1 and arc.probes not in self.mirs:
            return False
        if not arc.layouts or self.free:
            return True
        if self.alone[arc.store]:
            return self.layout.get(arc.store) in arc.layouts
        return any((arc.store, i) in self.copies for i in arc.layouts)

    def _swap(self, old: int, new: int) -> None:
        graph = self.graph
        before, after = graph.arcs[old], graph.arcs[new]
        layout = self.layout.get(after.store)
        self._drop(old)
        self._take(new)
        if layout is not None:  # the old arc may have been the only one that held it
            self.layout[after.store] = layout
        if not graph.is_root(after.tail):
            self.need[after.tail] += 1
        if after.probes in self.mirs:
            self.mirs[after.probes] += 1
        self._release(before.tail)
        if before.probes in self.mirs:
            self.mirs[before.probes] -= 1
            if not self.mirs[before.probes]:
                del self.mirs[before.probes]
                for feeder in graph.feeders(before.probes):
                    self._release(feeder)

    # ---- what it comes to -----------------------------------------------------------------------------------
    def cost(self) -> float:
        """What `solution` would cost, from the counts."""
        model = self.graph.model
        cost = self.cost_of_arcs
        if not model.full:
            return cost
        copies: dict[int, float] = {}
        for store, i in self.copies:
            copies[store] = copies.get(store, 0.0) + self.graph.stores[store].costs[i]
        for at in (*self._base_stores, *(self.graph.store_of(self.graph.lattice.subs[mir]).id for mir in self.mirs)):
            costs = self.graph.stores[at].costs
            if at in self.layout:
                cost += costs[self.layout[at]]
            else:
                cost += copies.get(at) or min(costs)
        return cost + (model.round_cost * count_rounds(self.graph, self.into) if model.round_cost else 0.0)

    def solution(self) -> Solution:
        wanted = {store: [layout] for store, layout in self.layout.items()}
        return finish(self.graph, [goal for target in self.targets for goal in self._goals[target.sub]], self.into, wanted)

    def _save(self) -> _Saved:
        into, need, mirs, layout = dict(self.into), dict(self.need), dict(self.mirs), dict(self.layout)
        return _Saved(into, need, mirs, layout, dict(self.copies), dict(self.users), dict(self.served), self.cost_of_arcs)

    def _restore(self, saved: _Saved) -> None:
        self.into, self.need, self.mirs, self.layout = dict(saved.into), dict(saved.need), dict(saved.mirs), dict(saved.layout)
        self.copies, self.users, self.served = dict(saved.copies), dict(saved.users), dict(saved.served)
        self.cost_of_arcs = saved.cost
        self._news, self._new_mirs = [], []
