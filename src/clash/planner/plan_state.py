"""A plan under construction: one arc into every needed node, with counts of what needs it.

Invariant: the arcs held are exactly what the goals required so far need, so their cost is that of a plan. Releasing a goal removes what
only it needed: steps, MIRs with all their feeders, copies of stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clash.planner.graph import Graph
from clash.planner.journal import Journal, JournaledDict
from clash.planner.lattice import Target
from clash.planner.solution import Solution, choose_layouts, count_rounds, finish


@dataclass(slots=True)
class Routes:
    """What the dynamic program found for one target."""

    via: dict[int, int] = field(default_factory=dict)
    """Node → the best arc into it."""
    demand_costs: list[float | None] = field(default_factory=list)
    """Layout demand → what meeting it costs; None where it was not computed yet."""
    splits: dict[int, tuple[int, int, list[int]]] = field(default_factory=dict)
    """Sub → (half, other half, arcs) of the best split, where that is cheaper than separate routes from every relation."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of the state of a plan, to return to."""

    tables: tuple[dict[object, object], ...]
    cost: float


class PlanState:
    """The arcs, MIRs and layouts of a plan, and what each of them is needed for."""

    def __init__(self, graph: Graph, targets: list[Target]) -> None:
        self.graph, self.targets = graph, targets
        self.free_copies = graph.model.free_copies
        self.single_layout = [store.single_layout for store in graph.stores]
        self.settles_layouts = any(self.single_layout)  # whether the plan must fix the layout of some store
        self._has_copies = not self.free_copies and not all(self.single_layout)
        self._goals = {target.sub: graph.goals(target) for target in targets}
        streams = {r.stream for target in targets for r in graph.lattice.subs[target.sub].relations}
        self._base_stores = [store.id for store in graph.stores if store.stream in streams]
        self._heads_of_mir: dict[int, set[int]] = {}  # MIR → the nodes that probing it leads to
        for arc in graph.arcs:
            if arc.mir >= 0:
                self._heads_of_mir.setdefault(arc.mir, set()).add(arc.head)
        self._into_by_cost = [sorted(arcs, key=lambda at: graph.arcs[at].cost) for arcs in graph.into]
        self.fixed_layouts: Mapping[int, int] = {}  # store → the layout that it keeps even if nothing needs it
        self._reset()

    def _reset(self) -> None:
        self.journal = journal = Journal()
        self.into: JournaledDict[int, int] = JournaledDict(journal)  # node → the arc into it
        self.need: JournaledDict[int, int] = JournaledDict(journal)  # node → how many steps, feeds and queries need it
        self.mirs: JournaledDict[int, int] = JournaledDict(journal)  # sub → how many arcs probe its store
        self.layout: JournaledDict[int, int] = JournaledDict(journal)  # store → its layout, where it has one at a time
        self.copies: JournaledDict[tuple[int, int], int] = JournaledDict(journal)  # (store, layout) → users, where it may have several
        self.users: JournaledDict[int, int] = JournaledDict(journal)  # store → arcs that need a certain layout of it
        self.served: JournaledDict[int, int] = JournaledDict(journal)  # arc → the layout of the copy that it uses
        self.layout.assign(dict(self.fixed_layouts))
        self.cost_of_arcs = 0.0
        self._new_nodes: list[int] = []  # since the last `rewire`
        self._new_mirs: list[int] = []

    # ---- requiring and releasing ----------------------------------------------------------------------------
    def _require(self, goals: list[int], routes: Routes) -> None:
        """Add what the goals need. A sub that is needed from all its relations takes the split found for it, if any."""
        graph, via, todo = self.graph, routes.via, list(goals)
        self._route_over_split(graph.nodes[goals[0]].sub, routes)
        while todo:
            node = todo.pop()
            if not graph.into[node]:
                continue
            count = self.need.get(node, 0)
            self.need[node] = count + 1
            if count:
                continue
            at = via[node]
            arc = graph.arcs[at]
            self._add_arc(at)
            todo.append(arc.tail)
            if arc.mir >= 0:
                users = self.mirs.get(arc.mir, 0)
                self.mirs[arc.mir] = users + 1
                if not users:
                    self._new_mirs.append(arc.mir)
                    self._route_over_split(arc.mir, routes)
                    todo += graph.feeders(arc.mir)

    def _route_over_split(self, sub: int, routes: Routes) -> None:
        """Direct all routes into the sub over its split, and recursively those into halves that become MIRs.

        All at once: a half that becomes a MIR must be reached over its own split, not over separate routes.
        """
        split = routes.splits.get(sub)
        if split is None:
            return
        a, b, arcs = split
        for at in arcs:
            routes.via[self.graph.arcs[at].head] = at
        for half in (a, b):
            if half not in self.mirs:
                self._route_over_split(half, routes)

    def _release(self, node: int) -> None:
        """The node is needed once less; what is needed no more is removed."""
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
            self._remove_arc(at)
            todo.append(arc.tail)
            if arc.mir >= 0:
                self.mirs[arc.mir] -= 1
                if not self.mirs[arc.mir]:
                    del self.mirs[arc.mir]
                    todo += graph.feeders(arc.mir)

    def remove(self, target: Target) -> None:
        """Remove a query, and all that only it needed."""
        for goal in self._goals[target.sub]:
            self._release(goal)

    def _add_arc(self, at: int) -> None:
        """Use an arc and a layout that it needs. The caller counts its tail and its MIR."""
        arc = self.graph.arcs[at]
        self.into[arc.head] = at
        self._new_nodes.append(arc.head)
        self.cost_of_arcs += arc.cost
        if arc.layouts and not self.free_copies:
            self.users[arc.store] = self.users.get(arc.store, 0) + 1
            if not self.single_layout[arc.store]:
                layout = self._cheapest_copy(arc.store, arc.layouts)
                self.served[at] = layout
                self.copies[arc.store, layout] = self.copies.get((arc.store, layout), 0) + 1

    def _cheapest_copy(self, store: int, layouts: tuple[int, ...]) -> int:
        """The cheapest of the layouts, preferably one that the store has already."""
        present = [i for i in layouts if (store, i) in self.copies]
        costs = self.graph.stores[store].costs
        return min(present or layouts, key=lambda i: (costs[i], i))

    def _remove_arc(self, at: int) -> None:
        arc = self.graph.arcs[at]
        del self.into[arc.head]
        self.cost_of_arcs -= arc.cost
        if arc.layouts and not self.free_copies:
            self.users[arc.store] -= 1
            if not self.users[arc.store]:
                del self.users[arc.store]
                self._unset_layout(arc.store)
            if not self.single_layout[arc.store]:
                key = (arc.store, self.served[at])
                del self.served[at]
                self.copies[key] -= 1
                if not self.copies[key]:
                    del self.copies[key]

    def _unset_layout(self, store: int) -> None:
        """Nothing needs a certain layout of the store any more."""
        fixed = self.fixed_layouts.get(store)
        if fixed is None:
            self.layout.discard(store)
        elif self.layout.get(store) != fixed:
            self.layout[store] = fixed

    # ---- local improvements ---------------------------------------------------------------------------------
    def rewire(self) -> None:
        """Let nodes take their cheapest arc among those that need nothing new.

        Only what was added since the last call can have made an arc ready: new nodes, what they lead to, and what probes new MIRs.
        """
        graph, arcs, into = self.graph, self.graph.arcs, self.into
        while self._new_nodes:
            heads = {node for node in self._new_nodes if node in into}
            heads |= {arcs[at].head for node in heads for at in graph.out[node] if arcs[at].head in into}
            heads |= {head for mir in self._new_mirs for head in self._heads_of_mir.get(mir, ()) if head in into}
            self._new_nodes, self._new_mirs = [], []
            for node in sorted(heads):
                at = into.get(node)
                if at is None:
                    continue
                cost = arcs[at].cost - 1e-9
                for other in self._into_by_cost[node]:
                    if arcs[other].cost >= cost:
                        break
                    if self._is_ready(other):
                        self._replace_arc(at, other)
                        break

        if self._has_copies:
            self._merge_copies()

    def _merge_copies(self) -> None:
        """Serve all arcs with as few copies as possible; added one by one, they may have opened more."""
        arcs = self.graph.arcs
        demands = [at for at in self.into.values() if arcs[at].layouts and not self.single_layout[arcs[at].store]]
        chosen = choose_layouts(self.graph, demands, {}, set())
        copies: dict[tuple[int, int], int] = {}
        served: dict[int, int] = {}
        for at in demands:
            arc = arcs[at]
            layout = served[at] = next(i for i in chosen[arc.store] if i in arc.layouts)
            copies[arc.store, layout] = copies.get((arc.store, layout), 0) + 1
        self.copies.replace(copies)
        self.served.replace(served)

    def _is_ready(self, at: int) -> bool:
        """Whether the plan has everything that the arc needs."""
        arc = self.graph.arcs[at]
        if arc.tail not in self.into and not self.graph.is_root(arc.tail):
            return False
        if arc.mir >= 0 and arc.mir not in self.mirs:
            return False
        if not arc.layouts or self.free_copies:
            return True
        if self.single_layout[arc.store]:
            return self.layout.get(arc.store) in arc.layouts
        return any((arc.store, i) in self.copies for i in arc.layouts)

    def _replace_arc(self, old: int, new: int) -> None:
        """Reach a node over another arc, which must be ready."""
        graph = self.graph
        before, after = graph.arcs[old], graph.arcs[new]
        layout = self.layout.get(after.store)
        self._remove_arc(old)
        self._add_arc(new)
        if layout is not None:  # the old arc may have been the only one that needed it, and removing it then unset it
            self.layout[after.store] = layout
        if not graph.is_root(after.tail):
            self.need[after.tail] += 1
        if after.mir in self.mirs:
            self.mirs[after.mir] += 1
        self._release(before.tail)
        if before.mir in self.mirs:
            self.mirs[before.mir] -= 1
            if not self.mirs[before.mir]:
                del self.mirs[before.mir]
                for feeder in graph.feeders(before.mir):
                    self._release(feeder)

    # ---- cost and copies of the whole plan ------------------------------------------------------------------
    def cost(self) -> float:
        """The cost that `solution` has, computed from the counts."""
        model = self.graph.model
        cost = self.cost_of_arcs
        if not model.full:
            return cost
        copies: dict[int, float] = {}
        for store, i in self.copies:
            copies[store] = copies.get(store, 0.0) + self.graph.stores[store].costs[i]
        for store in (*self._base_stores, *(self.graph.store_of(self.graph.lattice.subs[mir]).id for mir in self.mirs)):
            costs = self.graph.stores[store].costs
            if store in self.layout:
                cost += costs[self.layout[store]]
            else:
                cost += copies.get(store) or min(costs)
        return cost + (model.round_cost * count_rounds(self.graph, self.into) if model.round_cost else 0.0)

    def solution(self) -> Solution:
        layouts = {store: [layout] for store, layout in self.layout.items()}
        return finish(self.graph, [goal for target in self.targets for goal in self._goals[target.sub]], self.into, layouts)

    def _tables(self) -> tuple[JournaledDict[Any, Any], ...]:
        return self.into, self.need, self.mirs, self.layout, self.copies, self.users, self.served

    def save(self) -> Snapshot:
        """A copy of the whole plan; `journal` undoes single moves."""
        return Snapshot(tuple(dict(table) for table in self._tables()), self.cost_of_arcs)

    def restore(self, saved: Snapshot) -> None:
        """Return to a saved plan. What was recorded until now can no longer be undone."""
        self._reset()
        for table, content in zip(self._tables(), saved.tables, strict=True):
            table.replace(content)
        self.journal.entries.clear()
        self.cost_of_arcs = saved.cost

    def undo(self, mark: int, cost: float) -> None:
        """Return to the plan that there was when the journal had `mark` entries and the arcs cost `cost`."""
        self.journal.undo(mark)
        self.cost_of_arcs = cost
        self._new_nodes, self._new_mirs = [], []
