"""The lattice of connected sub-joins of all queries, interned so that equal parts of different queries are one entry.

A *sub* is an interned sub-join that some query contains; a *split* cuts a sub into two connected subs. Every step of every probe order is
one direction of a split: a partial result that covers A probes the store of B and then covers A + B. Queries of many relations have too
many subs; for those, `candidate_joins` selects the few that are considered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.planner.cardinalities import Sizes


@dataclass(eq=False, slots=True)
class Sub:
    """An interned sub-join."""

    id: int
    """Its index in `Lattice.subs`."""
    join: SubJoin
    relations: tuple[Relation, ...]
    """The relations of the join, sorted."""
    origins: tuple[Relation, ...]
    """Those of them whose tuples arrive, which start probe orders: all but tables."""
    rows: float
    """The estimated number of rows."""
    splits: list[tuple[int, int]] = field(default_factory=list)
    """Unordered pairs of sub ids."""
    outside: set[tuple[Relation, str]] = field(default_factory=set)
    """The equivalence classes, each named by its smallest attribute inside, that join the sub with other relations in some query."""

    @property
    def size(self) -> int:
        return len(self.relations)

    @property
    def sends(self) -> float:
        """The rows that each of its origins completes, as if all of them did so alike: what a step from here sends."""
        return self.rows / len(self.origins)


@dataclass(eq=False, slots=True)
class Target:
    """A distinct join that one or more queries ask for."""

    sub: int
    """The sub of the whole query."""
    parts: list[int]
    """The subs inside it, by ascending size."""
    queries: list[str]
    """The names of the queries that it answers."""
    complete: bool
    """Whether `parts` are all connected sub-joins, so that a bound over them is a bound over all plans."""
    hulls: list[int] = field(default_factory=list)
    """The subs of weaker joins of the same relations whose rows, checked once more, are the results of the query."""

    @staticmethod
    def of_sub(sub: int) -> Target:
        """The sub as if it were a query; `Graph.parts` completes its parts from the splits."""
        return Target(sub, [sub], [], True)


class Lattice:
    """The subs and targets of all queries added so far."""

    def __init__(self, sizes: Sizes) -> None:
        self.subs: list[Sub] = []
        self.targets: list[Target] = []
        self.hulls: list[Target] = []
        """Joins that queries may take their results from, as if they were queries."""
        self._sizes = sizes
        self._ids: dict[SubJoin, int] = {}

    def add(self, query: Query, candidates: Sequence[int] | None = None) -> Target:
        """Add the query's subs; `candidates` are bit masks over its sorted relations, None for all connected ones."""
        whole, by_mask = self._add_subs(query, candidates)
        equal_target = next((t for t in self.targets if t.sub == whole.id), None)
        if equal_target is not None:
            equal_target.queries.append(query.name)
            return equal_target
        self._add_splits(by_mask)
        target = Target(whole.id, [sub.id for sub in by_mask.values()], [query.name], candidates is None)
        self.targets.append(target)
        return target

    def add_hull(self, hull: Query, queries: Iterable[Query], candidates: Sequence[int] | None = None) -> None:
        """Add the subs of a join that some of the queries refine; these are targets already. `candidates` are as for `add`."""
        whole, by_mask = self._add_subs(hull, candidates)
        self._add_splits(by_mask)
        self.hulls.append(Target(whole.id, [sub.id for sub in by_mask.values()], [], candidates is None))
        by_sub = {target.sub: target for target in self.targets}
        for query in queries:
            target = by_sub[self._ids[query.join]]
            if target.sub != whole.id and whole.id not in target.hulls and query.join.is_within(hull.join):
                target.hulls.append(whole.id)

    def _add_subs(self, query: Query, candidates: Sequence[int] | None) -> tuple[Sub, dict[int, Sub]]:
        """The sub of the whole query, and all of them by mask."""
        graph = JoinGraph(query)
        masks = graph.connected() if candidates is None else sorted(candidates, key=lambda m: (m.bit_count(), m))
        by_mask = {mask: self._intern(query.join.sub(graph.members(mask)), query.tables) for mask in masks}
        for mask, sub in by_mask.items():
            sub.outside.update(graph.outside(mask))
        return by_mask[graph.full], by_mask

    def _add_splits(self, by_mask: dict[int, Sub]) -> None:
        for mask, sub in by_mask.items():
            if sub.size > 1:
                present = set(sub.splits)
                for pair in _splits(mask, by_mask):
                    if pair not in present:
                        sub.splits.append(pair)

    def find(self, join: SubJoin) -> int | None:
        """The id of the sub for the join, if there is one."""
        return self._ids.get(join)

    def _intern(self, join: SubJoin, tables: frozenset[Relation]) -> Sub:
        sub_id = self._ids.get(join)
        if sub_id is None:
            sub_id = self._ids[join] = len(self.subs)
            relations, origins = tuple(sorted(join.relations)), tuple(sorted(join.relations - tables))
            self.subs.append(Sub(sub_id, join, relations, origins, self._sizes.rows(join)))
        return self.subs[sub_id]


def _splits(mask: int, by_mask: dict[int, Sub]) -> list[tuple[int, int]]:
    """All ways to cut the mask into two of the given subs. The half with the lowest relation comes first, so each pair occurs once."""
    low, pairs = mask & -mask, []
    if (1 << mask.bit_count()) <= 4 * len(by_mask):  # whichever is fewer: all subsets of the mask, or all given subs
        part = (mask - 1) & mask
        while part:
            if part & low and part in by_mask and mask ^ part in by_mask:
                pairs.append((by_mask[part].id, by_mask[mask ^ part].id))
            part = (part - 1) & mask
    else:
        pairs = [
            (sub.id, by_mask[mask ^ part].id)
            for part, sub in by_mask.items()
            if part & low and part & ~mask == 0 and mask ^ part in by_mask
        ]
    return pairs


class JoinGraph:
    """A query's join graph over bit masks of its sorted relations.

    Two relations are adjacent if an equivalence class joins them or the query links them (`CROSS JOIN`).
    """

    def __init__(self, query: Query) -> None:
        self.relations = sorted(query.join.relations)
        self.full = (1 << len(self.relations)) - 1
        bit = {relation: 1 << i for i, relation in enumerate(self.relations)}
        self.tables = sum(bit[relation] for relation in query.tables)  # the mask of the relations that are tables
        self.classes = []  # per equivalence class: the mask of its relations, and its attributes, sorted
        self.adjacent = [0] * len(self.relations)  # per relation, the mask of its neighbours
        for equal in query.join.classes:
            mask = 0
            for attribute in equal:
                mask |= bit[attribute.relation]
            self.classes.append((mask, sorted(equal)))
            self._connect(mask)
        for link in query.links:
            self._connect(sum(bit[relation] for relation in link))

    def _connect(self, mask: int) -> None:
        """Make all relations of the mask adjacent to each other."""
        for i in range(len(self.relations)):
            if mask >> i & 1:
                self.adjacent[i] |= mask & ~(1 << i)

    def members(self, mask: int) -> list[Relation]:
        return [relation for i, relation in enumerate(self.relations) if mask >> i & 1]

    def neighbours(self, mask: int) -> int:
        """The relations outside the mask that are adjacent to one inside."""
        near, rest = 0, mask
        while rest:
            low = rest & -rest
            near |= self.adjacent[low.bit_length() - 1]
            rest ^= low
        return near & ~mask

    def grown(self, masks: Iterable[int], within: int) -> set[int]:
        """Every mask that is one of `masks` with one more adjacent relation of `within`."""
        larger = set()
        for mask in masks:
            near = self.neighbours(mask) & within
            while near:
                low = near & -near
                larger.add(mask | low)
                near ^= low
        return larger

    def connected(self, limit: int | None = None, within: int | None = None) -> list[int]:
        """All connected masks (inside `within`) by ascending size; stops early once there are more than `limit`."""
        within = self.full if within is None else within
        layer = {1 << i for i in range(len(self.relations)) if within >> i & 1}
        masks: list[int] = []
        while layer:
            masks += sorted(layer)
            if limit is not None and len(masks) > limit:
                break
            layer = self.grown(layer, within)
        return masks

    def outside(self, mask: int) -> list[tuple[Relation, str]]:
        """The attributes by which `mask` joins relations that it does not contain: one per class, the smallest member inside."""
        bit = {relation: 1 << i for i, relation in enumerate(self.relations)}
        return [
            (inside[0].relation, inside[0].column)
            for whole, members in self.classes
            if whole & mask and whole & ~mask
            for inside in [[a for a in members if bit[a.relation] & mask]]
        ]
