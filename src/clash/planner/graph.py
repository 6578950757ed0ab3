"""The graph that every solver works on: nodes, arcs and stores.

A node is a partial result at a place: (origin, sub, place). An arc is a step of a probe order into a store that has one
of the arc's layouts; it leads to the sub that the step completes, and to the place where its rows then are. A plan picks
one arc into every node that it needs. Under the `probe` cost all places are one.

Places are what makes co-partitioning pay under `full`: rows that are known to be at the hash of an attribute
probe a store laid out by that attribute without crossing the network. Two more kinds of arcs keep the solvers free of
special cases: from a root to where the origin's own store puts the tuple, and from a complete partial result to the
node that says "fed into its store" or "delivered". A tuple of a replicated store is everywhere: all workers probe what all of them
have, each for itself, until a store that is spread out leaves every row on one of them; only then can it be delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from clash.model.layout import ALL, ONE, Layout
from clash.model.query import EqualityClass
from clash.model.relation import Attribute, Relation
from clash.planner.cost_model import CostModel
from clash.planner.lattice import Lattice, Sub, Target
from clash.planner.cardinalities import Sizes

Place = Attribute | str
SMALL = 0.02  # of all rows: a relation that is replicated where there is no time to weigh it
NOWHERE, SOMEWHERE, WORKER, EVERYWHERE = "nowhere", "some worker", "one worker", "every worker"
FED, DONE = "fed", "delivered"


class Node(NamedTuple):
    origin: Relation
    sub: int
    place: Place


class Arc(NamedTuple):
    """`layouts` are indices into the store's layouts, any of which will do; `probes` is the sub probed, −1 if none."""

    tail: int
    head: int
    cost: float
    store: int
    layouts: tuple[int, ...]
    hop: int
    probes: int


@dataclass(eq=False, slots=True)
class Store:
    """A base store (`stream`) or a MIR's (`sub`)."""

    id: int
    stream: str | None
    sub: int | None
    rows: float
    layouts: list[Layout]
    costs: list[float]
    alone: bool  # is it kept under one layout at a time? A MIR always is: every further copy would have to be fed as well
    singles: list[int] = field(default_factory=list)  # the one-relation subs that a base store serves


class Graph:
    def __init__(
        self, lattice: Lattice, sizes: Sizes, model: CostModel, mirs: bool, exact: Callable[[EqualityClass], bool], lean: bool = False
    ) -> None:
        """`lean`: one layout per store, chosen beforehand: for query sets whose orders alone are more than can be searched."""
        self.lattice, self.model, self.mirs, self._lean = lattice, model, mirs, lean
        self.nodes: list[Node] = []
        self.arcs: list[Arc] = []
        self.into: list[list[int]] = []
        self.out: list[list[int]] = []
        self.stores: list[Store] = []
        self._node: dict[Node, int] = {}
        self._nodes_of: dict[int, list[int]] = {}
        self._at_places: dict[tuple[Relation, int], list[tuple[Place, int]]] = {}
        self._feeders: dict[int, list[int]] = {}
        self._stream_store: dict[str, int] = {}
        self._sub_store: dict[int, int] = {}
        self._exact = {c: exact(c) for sub in lattice.subs for c in sub.join.classes}
        self._inner = {part for sub in lattice.subs for pair in sub.splits for part in pair}  # subs that steps go on from
        self._build_base_stores(sizes)
        for sub in sorted(lattice.subs, key=lambda s: s.size):
            if sub.size == 1:
                self._root(sub)
            else:
                for a, b in sub.splits:
                    self._steps(lattice.subs[a], lattice.subs[b], sub)
                    self._steps(lattice.subs[b], lattice.subs[a], sub)
            if mirs and sub.size > 1 and sub.id in self._inner:
                self._mir(sub)
        if model.full:
            for target in lattice.targets:
                self._deliver(lattice.subs[target.sub])

    # ---- what a plan needs ----------------------------------------------------------------------------------
    def feeders(self, sub: int) -> list[int]:
        """The nodes that a plan must reach to use the MIR: one per relation of it."""
        found = self._feeders.get(sub)
        if found is None:
            end = FED if self.model.full else NOWHERE
            found = self._feeders[sub] = [self._node[Node(r, sub, end)] for r in self.lattice.subs[sub].relations]
        return found

    def goals(self, target: Target) -> list[int]:
        """The nodes that a plan must reach to answer the query: one per relation of it."""
        return [self._node[Node(r, target.sub, DONE if self.model.full else NOWHERE)] for r in self.lattice.subs[target.sub].relations]

    def parts(self, target: Target) -> list[int]:
        """The subs inside the target, by ascending size: its own, and what queries that share them have added below."""
        subs, seen, todo = self.lattice.subs, set(target.parts), list(target.parts)
        while todo:
            for pair in subs[todo.pop()].splits:
                for part in pair:
                    if part not in seen:
                        seen.add(part)
                        todo.append(part)
        return sorted(seen, key=lambda at: (subs[at].size, at))

    def has_store(self, sub: int) -> bool:
        """May the sub be kept as a MIR?"""
        return sub in self._sub_store

    def nodes_of(self, sub: int) -> list[int]:
        """All nodes of a sub, tails before heads."""
        return self._nodes_of.get(sub, [])

    def find(self, node: Node) -> int | None:
        return self._node.get(node)

    def is_root(self, node: int) -> bool:
        return not self.into[node]

    def find_store(self, sub: Sub) -> Store | None:
        """A stream that only one-relation queries read has no store, nor has a sub that nothing goes on from."""
        at = self._stream_store.get(sub.relations[0].stream) if sub.size == 1 else self._sub_store.get(sub.id)
        return None if at is None else self.stores[at]

    def store_of(self, sub: Sub) -> Store:
        at = self._stream_store[sub.relations[0].stream] if sub.size == 1 else self._sub_store[sub.id]
        return self.stores[at]

    def knows(self, layout: Layout, a: int, b: int, k: int) -> bool:
        """Does a partial result over `a` know the key by which `b` is laid out?"""
        subs = self.lattice.subs
        return layout.kind != "hash" or _attribute(layout, subs[b]) in _known(subs[a], subs[b], subs[k])

    def stays(self, place: Place, layout: Layout, a: int, b: int, k: int) -> bool:
        """Does a partial result at `place` probe `b` on the worker where it is?"""
        subs = self.lattice.subs
        return self._stays(place, layout, _attribute(layout, subs[b]), subs[a], subs[k])

    # ---- building -------------------------------------------------------------------------------------------
    def _build_base_stores(self, sizes: Sizes) -> None:
        lattice, model = self.lattice, self.model
        uses = Counter((a.relation.stream, a.column) for t in lattice.targets for c in lattice.subs[t.sub].join.classes for a in c)
        joined = {s for t in lattice.targets if lattice.subs[t.sub].size > 1 for s in t.parts}
        singles: dict[str, list[Sub]] = {}
        for sub in lattice.subs:
            if sub.size == 1 and sub.id in joined:
                singles.setdefault(sub.relations[0].stream, []).append(sub)
        for stream, subs in singles.items():
            columns = sorted({column for sub in subs for _, column in sub.outside})
            hashes = [Layout("hash", column) for column in columns] or [Layout("hash")]
            rows = sizes.kept(stream, [sub.join for sub in subs])
            if self._lean:
                small = rows * model.workers <= SMALL * sum(s.rows for group in singles.values() for s in group)
                hashes = [ALL] if small and model.full else [max(hashes, key=lambda h: (uses[stream, str(h.column)], str(h.column)))]
            store = self._store(stream, None, rows, hashes, 1)
            store.singles = [sub.id for sub in subs]
            self._stream_store[stream] = store.id

    def _store(self, stream: str | None, sub: int | None, rows: float, hashes: list[Layout], width: int) -> Store:
        layouts = hashes[:1] if self._lean else self.model.candidates(hashes)
        costs = [self.model.store(layout, rows, width, sub is not None) for layout in layouts]
        alone = not self.model.free_copies and (sub is not None or self.model.layouts == "one")
        store = Store(len(self.stores), stream, sub, rows, layouts, costs, alone)
        self.stores.append(store)
        return store

    def _at(self, origin: Relation, sub: int, place: Place) -> int:
        node = Node(origin, sub, place)
        at = self._node.get(node)
        if at is None:
            at = self._node[node] = len(self.nodes)
            self.nodes.append(node)
            self._nodes_of.setdefault(sub, []).append(at)
            self.into.append([])
            self.out.append([])
        return at

    def _arc(self, tail: int, head: int, cost: float, store: int, layouts: tuple[int, ...], hop: int, probes: int) -> None:
        at = len(self.arcs)
        self.arcs.append(Arc(tail, head, cost, store, layouts, hop, probes))
        self.into[head].append(at)
        self.out[tail].append(at)

    def _root(self, sub: Sub) -> None:
        """A tuple starts nowhere; where its own store's layout puts it, it is for free."""
        origin = sub.relations[0]
        root = self._at(origin, sub.id, NOWHERE)
        if not self.model.full or self.model.workers == 1 or origin.stream not in self._stream_store:
            return
        store = self.store_of(sub)
        for i, layout in enumerate(store.layouts):
            place = self._place_in(sub, layout, origin)
            if place == NOWHERE and layout.kind == "hash" and layout.column is not None:
                place = SOMEWHERE  # on a worker that no later step asks for: enough to probe what all of them have
            if layout == ALL and sub.id in self._inner:
                place = EVERYWHERE
            if place != NOWHERE:
                self._arc(root, self._at(origin, sub.id, place), 0.0, store.id, (i,), 0, -1)

    def _steps(self, a: Sub, b: Sub, k: Sub) -> None:
        """All arcs by which partial results over `a` probe the store of `b` and become `k`. Only the tail depends on the origin."""
        if b.size > 1 and b.id not in self._sub_store:
            return
        store = self.store_of(b)
        known = _known(a, b, k)
        ways: dict[Place, list[tuple[Place, float, int, tuple[int, ...]]]] = {}
        for origin in a.relations:
            for place, tail in self._places(origin, a):
                if place not in ways:
                    ways[place] = self._ways(place, store, known, a, b, k)
                for head_place, cost, hop, indices in ways[place]:
                    self._arc(tail, self._at(origin, k.id, head_place), cost, store.id, indices, hop, b.id)

    def _ways(
        self, place: Place, store: Store, known: set[Attribute], a: Sub, b: Sub, k: Sub
    ) -> list[tuple[Place, float, int, tuple[int, ...]]]:
        """(place after, cost, hop, layouts) of a step from `place`; layouts that make no difference are one way."""
        model, rows = self.model, a.rows / a.size
        merged: dict[tuple[Place, float, int], list[int]] = {}
        for i, layout in enumerate(store.layouts):
            attribute = _attribute(layout, b)
            knows = layout.kind != "hash" or attribute in known
            if not model.full:
                merged.setdefault((NOWHERE, model.step(layout, rows, knows, False), 0), []).append(i)
                continue
            stays = model.workers == 1 or self._stays(place, layout, attribute, a, k)
            head_place = self._lift(place, k) if layout == ALL else self._place_in(k, layout, None, attribute)
            hop = 0 if stays or a.size == 1 else 1
            merged.setdefault((head_place, model.step(layout, rows, knows, stays, place == EVERYWHERE), hop), []).append(i)
        if model.free_copies:  # never broadcast where a key is known
            best = min(cost for _, cost, _ in merged)
            merged = {key: i for key, i in merged.items() if key[1] == best}
        every = len(store.layouts)
        return [(*key, () if len(indices) == every else tuple(indices)) for key, indices in merged.items()]

    def _mir(self, sub: Sub) -> None:
        """A store for the sub, if every one of its relations can feed it."""
        if not all(self._places(origin, sub) for origin in sub.relations):
            return
        hashes = [Layout("hash", column, relation) for relation, column in sorted(sub.outside)] or [Layout("hash")]
        store = self._store(None, sub.id, sub.rows, hashes, sub.size)
        self._sub_store[sub.id] = store.id
        if not self.model.full:
            return
        for origin in sub.relations:
            for place, tail in self._places(origin, sub):
                merged: dict[tuple[float, int], list[int]] = {}
                for i, layout in enumerate(store.layouts):
                    if place == EVERYWHERE and layout != ALL:
                        continue  # every worker would bring the same row
                    stays = self.model.workers == 1 or self._at_home(place, layout)
                    key = (self.model.feed(layout, sub.rows / sub.size, stays), 0 if stays else 1)
                    merged.setdefault(key, []).append(i)
                for (cost, hop), indices in merged.items():
                    layouts = () if len(indices) == len(store.layouts) else tuple(indices)
                    self._arc(tail, self._at(origin, sub.id, FED), cost, store.id, layouts, hop, -1)

    def _deliver(self, sub: Sub) -> None:
        for origin in sub.relations:
            for place, tail in self._places(origin, sub):
                if place != EVERYWHERE:
                    self._arc(tail, self._at(origin, sub.id, DONE), 0.0, -1, (), 0, -1)

    # ---- places ---------------------------------------------------------------------------------------------
    def _places(self, origin: Relation, sub: Sub) -> list[tuple[Place, int]]:
        """The places at which rows of (origin, sub) can be, each with its node; asked for once all of them are there."""
        held = self._at_places.get((origin, sub.id))
        if held is None:
            nodes = [(self.nodes[at], at) for at in self._nodes_of.get(sub.id, ())]
            found = [(node.place, at) for node, at in nodes if node.origin == origin and node.place not in (FED, DONE)]
            held = self._at_places[origin, sub.id] = sorted(found, key=lambda item: (isinstance(item[0], Attribute), item[0]))
        return held

    def _place_in(self, sub: Sub, layout: Layout, own: Relation | None, attribute: Attribute | None = None) -> Place:
        """Where rows of `sub` are that were found, or stored, under the layout."""
        if sub.id not in self._inner:
            return NOWHERE
        if layout == ONE:
            return WORKER if self.model.workers > 1 else NOWHERE
        if own is not None and layout.column is not None:
            attribute = Attribute(own, layout.column)
        return NOWHERE if attribute is None else self._lift(attribute, sub)

    def _lift(self, place: Place, sub: Sub) -> Place:
        """The name that a place has in a larger sub: the smallest equal attribute, if a later step can still use it."""
        if place == EVERYWHERE:
            return EVERYWHERE
        if sub.id not in self._inner:
            return NOWHERE
        if not isinstance(place, Attribute):
            return NOWHERE if place == SOMEWHERE else place  # once it has probed, a partial result is on some worker anyway
        for equal in sub.join.classes:
            if place in equal and self._exact[equal]:
                place = min(equal)
                break
        return place if (place.relation, place.column) in sub.outside else NOWHERE

    def _stays(self, place: Place, layout: Layout, attribute: Attribute | None, a: Sub, k: Sub) -> bool:
        if place == EVERYWHERE:
            return True
        if layout == ALL:
            return a.size > 1 or place != NOWHERE  # any worker will do, and the rows are on one
        if layout == ONE:
            return place == WORKER
        if not isinstance(place, Attribute):
            return False
        return any(place in equal and attribute in equal and self._exact[equal] for equal in k.join.classes)

    def _at_home(self, place: Place, layout: Layout) -> bool:
        """Are rows at `place` already where the MIR's store wants them?"""
        if layout == ALL:
            return place == EVERYWHERE
        if layout == ONE:
            return place == WORKER
        return isinstance(place, Attribute) and layout.kind == "hash" and (place.relation, place.column) == (layout.relation, layout.column)


def _attribute(layout: Layout, sub: Sub) -> Attribute | None:
    """The attribute of `sub` that the layout hashes."""
    if layout.kind != "hash" or layout.column is None:
        return None
    return Attribute(layout.relation if layout.relation is not None else sub.relations[0], layout.column)


def _known(a: Sub, b: Sub, k: Sub) -> set[Attribute]:
    """The attributes of `b` that a partial result over `a` knows: those equal to one of its own."""
    inside, target = a.join.relations, b.join.relations
    return {
        attribute
        for equal in k.join.classes
        if any(member.relation in inside for member in equal)
        for attribute in equal
        if attribute.relation in target
    }
