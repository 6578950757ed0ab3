"""Builds the graph over a lattice: roots, steps, MIRs and deliveries, by ascending size of the sub-joins.

Besides steps there are two kinds of arcs that keep the solvers free of special cases: from a root to where the origin's own store places
the tuple, and from a complete partial result to the node that stands for "fed into its store" or "delivered". A tuple of a replicated store
is on every worker: all workers probe what all of them have, each for itself, until a partitioned store leaves every row on one of them;
only then can it be delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from clash.model.layout import ALL, ONE, Layout
from clash.model.query import EqualityClass, SubJoin
from clash.model.relation import Attribute, Relation
from clash.model.statistics import Statistics
from clash.planner.cardinalities import Sizes
from clash.planner.cost_model import CostModel
from clash.planner.deadline import NEVER, Deadline
from clash.planner.graph import Graph, Store
from clash.planner.lattice import Lattice, Sub
from clash.planner.placements import (
    DELIVERED,
    EVERY_WORKER,
    FED,
    UNPLACED,
    Placement,
    PlacementRules,
    hashed_attribute,
    known_attributes,
    matches_layout,
)
from clash.planner.skew import Skew

SMALL_SHARE = 0.02  # of all rows; where layouts are preset, a stream whose copies together are no larger is replicated


def build_graph(
    lattice: Lattice,
    sizes: Sizes,
    model: CostModel,
    mirs: bool,
    exact: Callable[[EqualityClass], bool],
    preset_layouts: bool = False,
    skew: Skew | None = None,
    deadline: Deadline = NEVER,
) -> Graph | None:
    """The graph of all steps between the subs of the lattice; None where it is not built at the deadline.

    `exact` is as for `PlacementRules`. `preset_layouts`: each store has one layout, chosen here; it is meant for query sets whose probe
    orders alone are more than can be searched. `skew`: which keys are frequent; no key where it is not given.
    """
    skew = skew or Skew(Statistics(), model.workers)
    builder = _GraphBuilder(lattice, model, mirs, PlacementRules(lattice, model, exact), preset_layouts, skew)
    builder.add_base_stores(sizes)
    for sub in sorted(lattice.subs, key=lambda s: s.size):
        if deadline.passed:
            return None
        if sub.size == 1:
            if sub.origins:
                builder.add_root(sub)
            continue
        for a, b in sub.splits:
            builder.add_steps(lattice.subs[a], lattice.subs[b], sub)
            builder.add_steps(lattice.subs[b], lattice.subs[a], sub)
        if mirs:
            builder.add_mir(sub)
    if model.full:
        for target in (*lattice.targets, *lattice.hulls):
            builder.add_deliveries(lattice.subs[target.sub], [lattice.subs[hull] for hull in target.hulls])
    return builder.graph


class _GraphBuilder:
    def __init__(self, lattice: Lattice, model: CostModel, mirs: bool, rules: PlacementRules, preset_layouts: bool, skew: Skew) -> None:
        self._skew = skew
        self.graph = Graph(lattice, model, mirs, rules)
        self._lattice, self._model, self._rules, self._preset_layouts = lattice, model, rules, preset_layouts
        subs, splits = lattice.subs, [(a, b) for sub in lattice.subs for a, b in sub.splits]
        self._probed = {probed for a, b in splits for probed, other in ((a, b), (b, a)) if subs[other].origins}  # subs that steps may probe
        self._placed_nodes: dict[tuple[Relation, int], list[tuple[Placement, int]]] = {}

    def add_base_stores(self, sizes: Sizes) -> None:
        """One store per stream that some query joins with another stream, and one per table."""
        lattice, model = self._lattice, self._model
        uses = Counter((a.relation.stream, a.column) for t in lattice.targets for c in lattice.subs[t.sub].join.classes for a in c)
        joined = {s for t in lattice.targets for s in t.parts if len(lattice.subs[t.sub].origins) > 1 or not lattice.subs[s].origins}
        hulls: dict[str, list[SubJoin]] = {}
        for part in {p for t in lattice.hulls for p in t.parts}:
            if lattice.subs[part].size == 1:
                hulls.setdefault(lattice.subs[part].relations[0].stream, []).append(lattice.subs[part].join)
        singles: dict[str, list[Sub]] = {}
        for sub in lattice.subs:
            if sub.size == 1 and sub.id in joined:
                singles.setdefault(sub.relations[0].stream, []).append(sub)
        for stream, subs in singles.items():
            columns = sorted({column for sub in subs for _, column in sub.outside})
            layouts = [Layout("hash", column) for column in columns] or [Layout("hash")]
            rows = sizes.base_store_rows([sub.join for sub in subs], hulls.get(stream, ()))
            if self._preset_layouts:
                small = rows * model.workers <= SMALL_SHARE * sum(s.rows for group in singles.values() for s in group)
                layouts = [ALL] if small and model.full else [max(layouts, key=lambda h: (uses[stream, str(h.column)], str(h.column)))]
            is_table = not subs[0].origins
            candidates = self._candidate_layouts(layouts)
            if model.full and model.workers > 1 and not is_table and not self._preset_layouts:
                candidates += self._skew.hot_layouts(stream, candidates)
            loads = [self._skew.store_load(stream, layout) for layout in candidates]
            self.graph.add_store(stream, None, rows, candidates, [sub.id for sub in subs], is_table=is_table, loads=loads)

    def _candidate_layouts(self, hash_layouts: list[Layout]) -> list[Layout]:
        return hash_layouts[:1] if self._preset_layouts else self._model.candidate_layouts(hash_layouts)

    def add_root(self, sub: Sub) -> None:
        """A tuple starts unplaced. It is sent to its own store in any case, so being where that store's layout places it is free."""
        graph, origin = self.graph, sub.relations[0]
        root = graph.add_node(origin, sub.id, UNPLACED)
        store = graph.find_store(sub)
        if not self._model.full or self._model.unplaced or self._model.workers == 1 or store is None:
            return
        for i, layout in enumerate(store.layouts):
            placement = graph.origin_placement(sub, layout)
            if placement != UNPLACED:
                graph.add_arc(root, graph.add_node(origin, sub.id, placement), 0.0, store.id, (i,), 0, -1)

    def add_steps(self, before: Sub, probed: Sub, after: Sub) -> None:
        """All arcs by which partial results over `before` probe the store of `probed` and become `after`."""
        graph = self.graph
        if not before.origins or (probed.size > 1 and not graph.has_store(probed.id)):
            return
        store = graph.store_of(probed)
        known_keys = known_attributes(before, probed, after)
        variants: dict[Placement, list[tuple[Placement, float, int, tuple[int, ...]]]] = {}  # they do not depend on the origin
        for origin in before.origins:
            for placement, tail in self._placements(origin, before):
                if placement not in variants:
                    variants[placement] = self._step_variants(placement, store, known_keys, before, probed, after)
                for head_placement, cost, hop, layouts in variants[placement]:
                    graph.add_arc(tail, graph.add_node(origin, after.id, head_placement), cost, store.id, layouts, hop, probed.id)

    def _step_variants(
        self, placement: Placement, store: Store, known_keys: set[Attribute], before: Sub, probed: Sub, after: Sub
    ) -> list[tuple[Placement, float, int, tuple[int, ...]]]:
        """(placement after, cost, hop, layouts) of a step from `placement`; layouts that make no difference share one variant."""
        model, rules, rows = self._model, self._rules, before.sends
        merged: dict[tuple[Placement, float, int], list[int]] = {}
        if model.unplaced:
            return self._unplaced_variants(store, known_keys, before, probed)
        for i, layout in enumerate(store.layouts):
            attribute = hashed_attribute(layout, probed)
            key_known = layout.kind != "hash" or attribute in known_keys
            if not model.full:
                merged.setdefault((UNPLACED, model.step(layout, rows, key_known, False), 0), []).append(i)
                continue
            stays = model.workers == 1 or rules.stays(placement, layout, attribute, before, after)
            head_placement = rules.widen(placement, after) if layout == ALL else rules.after(after, layout, attribute)
            hop = 0 if stays or before.size == 1 else 1
            work = self._skew.step(layout, attribute if key_known else None, placement, before, probed, after)
            cost = model.step(layout, rows, key_known, stays, placement == EVERY_WORKER, work.copies) + model.weights.probe * work.waiting
            merged.setdefault((head_placement, cost, hop), []).append(i)
        if model.free_copies:  # a copy whose key is known costs nothing, so no step broadcasts where there is one
            cheapest = min(cost for _, cost, _ in merged)
            merged = {key: layouts for key, layouts in merged.items() if key[1] == cheapest}
        return [(*key, _unless_all(layouts, store)) for key, layouts in merged.items()]

    def _unplaced_variants(
        self, store: Store, known_keys: set[Attribute], before: Sub, probed: Sub
    ) -> list[tuple[Placement, float, int, tuple[int, ...]]]:
        """The same where placements are left out: a variant per layout, and one for all layouts that make every row a broadcast."""
        weight, workers, rows = self._model.weights.probe, self._model.workers, before.sends
        variants: list[tuple[Placement, float, int, tuple[int, ...]]] = []
        broadcasts = []
        for i, layout in enumerate(store.layouts):
            if layout.kind == "hash" and hashed_attribute(layout, probed) not in known_keys:
                broadcasts.append(i)
            else:
                copies = workers if layout == ONE else 1
                variants.append((UNPLACED, rows * weight * copies, 0, _unless_all([i], store)))
        if broadcasts:
            variants.append((UNPLACED, rows * weight * workers, 0, _unless_all(broadcasts, store)))
        return variants

    def add_mir(self, sub: Sub) -> None:
        """A store for the sub, if steps probe it and every one of its relations can feed it; under `full` the arcs that feed it. One with a
        table has none: its rows would be those of a version that is no longer in force."""
        if sub.id not in self._probed or sub.origins != sub.relations:
            return
        if not all(self._placements(origin, sub) for origin in sub.origins):
            return
        hash_layouts = [Layout("hash", column, relation) for relation, column in sorted(sub.outside)] or [Layout("hash")]
        store = self.graph.add_store(None, sub.id, sub.rows, self._candidate_layouts(hash_layouts), [])
        if not self._model.full:
            return
        for origin in sub.origins:
            for placement, tail in self._placements(origin, sub):
                merged: dict[tuple[float, int], list[int]] = {}
                for i, layout in enumerate(store.layouts):
                    if placement == EVERY_WORKER and layout != ALL:
                        continue  # every worker would insert the same row
                    stays = self._model.workers == 1 or self._model.unplaced or matches_layout(placement, layout)
                    key = (self._model.feed(layout, sub.sends, stays), 0 if stays else 1)
                    merged.setdefault(key, []).append(i)
                for (cost, hop), layouts in merged.items():
                    fed = self.graph.add_node(origin, sub.id, FED)
                    self.graph.add_arc(tail, fed, cost, store.id, _unless_all(layouts, store), hop, -1)

    def add_deliveries(self, sub: Sub, hulls: Iterable[Sub]) -> None:
        """The arcs by which complete results leave, those of hulls after a check; not from EVERY_WORKER, where each worker would deliver
        the same rows."""
        for origin in sub.origins:
            end = self.graph.add_node(origin, sub.id, DELIVERED)
            if not self.graph.into[end]:
                for whole in (sub, *hulls):
                    cost = 0.0 if whole is sub else self._model.check(whole.sends)
                    for placement, tail in self._placements(origin, whole):
                        if placement != EVERY_WORKER:
                            self.graph.add_arc(tail, end, cost, -1, (), 0, -1)

    def _placements(self, origin: Relation, sub: Sub) -> list[tuple[Placement, int]]:
        """The placements that rows of (origin, sub) can have, each with its node.

        It must be called only once all steps into the sub have been added: the answer is cached.
        """
        placements = self._placed_nodes.get((origin, sub.id))
        if placements is None:
            nodes = [(self.graph.nodes[index], index) for index in self.graph.nodes_of(sub.id)]
            placed = [(node.placement, index) for node, index in nodes if node.origin == origin and node.placement not in (FED, DELIVERED)]
            placements = self._placed_nodes[origin, sub.id] = sorted(placed, key=lambda item: (isinstance(item[0], Attribute), item[0]))
        return placements


def _unless_all(layouts: list[int], store: Store) -> tuple[int, ...]:
    """As an arc names the layouts that it needs: empty if they are all that the store can have."""
    return () if len(layouts) == len(store.layouts) else tuple(layouts)
