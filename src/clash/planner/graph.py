"""The graph that every solver works on: nodes, arcs and stores.

A node is a partial result at a placement: (origin, sub, placement). An arc is a step of a probe order into a store that has one of the
arc's layouts; it leads to the sub that the step completes, and to the placement that its rows then have. A plan picks one arc into every
node that it needs. `build_graph` adds all nodes and arcs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from clash.model.layout import ALL, Layout
from clash.model.relation import Relation
from clash.planner.cost_model import CostModel
from clash.planner.lattice import Lattice, Sub, Target
from clash.planner.placements import (
    ANY_WORKER,
    DELIVERED,
    EVERY_WORKER,
    FED,
    UNPLACED,
    Placement,
    PlacementRules,
    hashed_attribute,
    known_attributes,
)


class Node(NamedTuple):
    """A partial result over `sub` that tuples of `origin` started, at a placement."""

    origin: Relation
    sub: int
    placement: Placement


class Arc(NamedTuple):
    """A step from one node to another. Nodes, stores and subs are named by their indices."""

    tail: int
    head: int
    cost: float
    store: int
    """The store that the step needs; −1 if none."""
    layouts: tuple[int, ...]
    """Indices into the store's layouts, any one of which the step needs; empty if it works under all of them."""
    hop: int
    """1 if the step needs a further round, because its rows cross the network; else 0."""
    probes: int
    """The sub that is probed; −1 if none."""
    mir: int
    """The sub that is probed if its store is a MIR's; −1 if the step probes a base store or nothing."""


@dataclass(eq=False, slots=True)
class Store:
    """A base store or a MIR's store, with its candidate layouts."""

    id: int
    stream: str | None
    """The stream of a base store; None for a MIR."""
    sub: int | None
    """The sub of a MIR's store; None for a base store."""
    rows: float
    layouts: list[Layout]
    costs: list[float]
    """What one copy costs, per layout."""
    single_layout: bool
    """Whether it has one layout at a time. A MIR always does: every further copy would have to be fed as well."""
    singles: list[int]
    """The one-relation subs that a base store serves."""
    is_table: bool = False
    """Whether it is the store of a table."""


class Graph:
    """All steps over a lattice, under one cost model."""

    def __init__(self, lattice: Lattice, model: CostModel, mirs: bool, rules: PlacementRules) -> None:
        """An empty graph. `mirs`: whether sub-joins may be kept as MIRs."""
        self.lattice, self.model, self.mirs = lattice, model, mirs
        self.nodes: list[Node] = []
        self.arcs: list[Arc] = []
        self.into: list[list[int]] = []  # node → the arcs that lead to it
        self.out: list[list[int]] = []  # node → the arcs that leave it
        self.stores: list[Store] = []
        self._rules = rules
        self._node_ids: dict[Node, int] = {}
        self._nodes_of: dict[int, list[int]] = {}
        self._feeders: dict[int, list[int]] = {}
        self._stream_store: dict[str, int] = {}
        self._sub_store: dict[int, int] = {}

    # ---- what a plan needs ----------------------------------------------------------------------------------
    def feeders(self, sub: int) -> list[int]:
        """The nodes that a plan must reach to use the MIR: one per relation of it, of which none is a table."""
        feeders = self._feeders.get(sub)
        if feeders is None:
            end = FED if self.model.full else UNPLACED
            feeders = self._feeders[sub] = [self._node_ids[Node(r, sub, end)] for r in self.lattice.subs[sub].relations]
        return feeders

    def goals(self, target: Target) -> list[int]:
        """The nodes that a plan must reach to answer the query: one per relation of it that is no table."""
        end = DELIVERED if self.model.full else UNPLACED
        return [self._node_ids[Node(r, target.sub, end)] for r in self.lattice.subs[target.sub].origins]

    def all_goals(self) -> list[int]:
        """The goals of all targets."""
        return [goal for target in self.lattice.targets for goal in self.goals(target)]

    def parts(self, target: Target) -> list[int]:
        """The subs inside the target and its hulls, by ascending size, the whole target last: their own, and those that queries which share
        some of them have added below."""
        subs = self.lattice.subs
        seen = {*target.parts, *target.hulls}
        todo = list(seen)
        while todo:
            for pair in subs[todo.pop()].splits:
                for part in pair:
                    if part not in seen:
                        seen.add(part)
                        todo.append(part)
        return sorted(seen, key=lambda sub: (subs[sub].size, sub == target.sub, sub))

    def has_store(self, sub: int) -> bool:
        """Whether the sub may be kept as a MIR."""
        return sub in self._sub_store

    def nodes_of(self, sub: int) -> list[int]:
        """All nodes of a sub, tails before heads."""
        return self._nodes_of.get(sub, [])

    def find(self, node: Node) -> int | None:
        return self._node_ids.get(node)

    def is_root(self, node: int) -> bool:
        return not self.into[node]

    def find_store(self, sub: Sub) -> Store | None:
        """None for a stream that only one-relation queries read, and for a sub that no step continues from."""
        store = self._stream_store.get(sub.relations[0].stream) if sub.size == 1 else self._sub_store.get(sub.id)
        return None if store is None else self.stores[store]

    def store_of(self, sub: Sub) -> Store:
        store = self._stream_store[sub.relations[0].stream] if sub.size == 1 else self._sub_store[sub.id]
        return self.stores[store]

    def key_known(self, layout: Layout, before: int, probed: int, after: int) -> bool:
        """Whether a partial result over `before` determines the key by which the store of `probed` is partitioned."""
        subs = self.lattice.subs
        return layout.kind != "hash" or hashed_attribute(layout, subs[probed]) in known_attributes(subs[before], subs[probed], subs[after])

    def stays(self, placement: Placement, layout: Layout, before: int, probed: int, after: int) -> bool:
        """Whether a partial result over `before` at `placement` probes the store of `probed` on the worker where it is."""
        subs = self.lattice.subs
        return self._rules.stays(placement, layout, hashed_attribute(layout, subs[probed]), subs[before], subs[after])

    def origin_placement(self, sub: Sub, layout: Layout) -> Placement:
        """Where a tuple is that has been sent to its own store of this layout; `sub` is the tuple alone."""
        placement = self._rules.after(sub, layout, hashed_attribute(layout, sub)) if layout != ALL else UNPLACED
        if placement == UNPLACED and layout.kind == "hash" and layout.column is not None:
            return ANY_WORKER  # no later step needs that worker, but it suffices to probe replicated stores
        return EVERY_WORKER if layout == ALL and sub.id in self._rules.inner else placement

    def placement_after(self, layout: Layout, probed: int, after: int) -> Placement:
        """Where rows are that have probed a store of this layout, which is not ALL."""
        subs = self.lattice.subs
        return self._rules.after(subs[after], layout, hashed_attribute(layout, subs[probed]))

    # ---- adding ---------------------------------------------------------------------------------------------
    def add_node(self, origin: Relation, sub: int, placement: Placement) -> int:
        """The node's index; it is added if there is none yet."""
        node = Node(origin, sub, placement)
        index = self._node_ids.get(node)
        if index is None:
            index = self._node_ids[node] = len(self.nodes)
            self.nodes.append(node)
            self._nodes_of.setdefault(sub, []).append(index)
            self.into.append([])
            self.out.append([])
        return index

    def add_arc(self, tail: int, head: int, cost: float, store: int, layouts: tuple[int, ...], hop: int, probes: int) -> None:
        index = len(self.arcs)
        mir = probes if probes >= 0 and self.lattice.subs[probes].size > 1 else -1
        self.arcs.append(Arc(tail, head, cost, store, layouts, hop, probes, mir))
        self.into[head].append(index)
        self.out[tail].append(index)

    def add_store(
        self,
        stream: str | None,
        sub: int | None,
        rows: float,
        layouts: list[Layout],
        singles: list[int],
        is_table: bool = False,
        loads: list[float] | None = None,
    ) -> Store:
        """A base store, of a stream or a table, or the store of a MIR, of a sub. `loads`: per layout, as `CostModel.store` has it."""
        width = 1 if sub is None else self.lattice.subs[sub].size
        if is_table:
            costs = [self.model.table(layout, rows) for layout in layouts]
        else:
            by_load = zip(layouts, loads or [1.0] * len(layouts), strict=True)
            costs = [self.model.store(layout, rows, width, sub is not None, load) for layout, load in by_load]
        single_layout = not self.model.free_copies and (sub is not None or self.model.layouts == "one")
        store = Store(len(self.stores), stream, sub, rows, layouts, costs, single_layout, singles, is_table)
        self.stores.append(store)
        if stream is not None:
            self._stream_store[stream] = store.id
        elif sub is not None:
            self._sub_store[sub] = store.id
        return store
