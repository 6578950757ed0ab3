"""The lattice of connected sub-joins of all queries, interned so that equal parts of two queries are one.

A *sub* is a sub-join that some query contains; a *split* cuts a sub into two connected subs. Every step of every probe
order is one direction of a split: a partial result that covers A probes the store of B and then covers A + B.
Queries of many relations have too many subs; for those `candidates` names the few that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.planner.cardinalities import Sizes


@dataclass(eq=False, slots=True)
class Sub:
    """`splits` are unordered pairs of sub ids; `outside` the classes (by their smallest member inside) that link it to others."""

    id: int
    join: SubJoin
    relations: tuple[Relation, ...]
    rows: float
    splits: list[tuple[int, int]] = field(default_factory=list)
    outside: set[tuple[Relation, str]] = field(default_factory=set)

    @property
    def size(self) -> int:
        return len(self.relations)


@dataclass(eq=False, slots=True)
class Target:
    """A distinct query: its whole sub, the subs inside it by ascending size, and the names of the queries it answers."""

    sub: int
    parts: list[int]
    queries: list[str]
    complete: bool  # are `parts` all connected sub-joins, so that a bound over them is a bound over all plans?


class Lattice:
    def __init__(self, sizes: Sizes) -> None:
        self.subs: list[Sub] = []
        self.targets: list[Target] = []
        self._sizes = sizes
        self._intern: dict[SubJoin, int] = {}

    def add(self, query: Query, candidates: Sequence[int] | None = None) -> Target:
        """Add the query's subs; `candidates` are bit masks over its sorted relations, None for all connected ones."""
        shape = Shape(query)
        masks = shape.connected() if candidates is None else sorted(candidates, key=lambda m: (m.bit_count(), m))
        local = {mask: self._sub(query.join.sub(shape.members(mask))) for mask in masks}
        for mask, sub in local.items():
            sub.outside.update(shape.outside(mask))
        whole = local[shape.full]
        known = next((t for t in self.targets if t.sub == whole.id), None)
        if known is not None:
            known.queries.append(query.name)
            return known
        for mask, sub in local.items():
            if sub.size > 1:
                held = set(sub.splits)
                for pair in _splits(mask, local):
                    if pair not in held:
                        sub.splits.append(pair)
        target = Target(whole.id, [sub.id for sub in local.values()], [query.name], candidates is None)
        self.targets.append(target)
        return target

    def find(self, join: SubJoin) -> int | None:
        return self._intern.get(join)

    def _sub(self, join: SubJoin) -> Sub:
        at = self._intern.get(join)
        if at is None:
            at = self._intern[join] = len(self.subs)
            self.subs.append(Sub(at, join, tuple(sorted(join.relations)), self._sizes.rows(join)))
        return self.subs[at]


def _splits(mask: int, local: dict[int, Sub]) -> list[tuple[int, int]]:
    low, pairs = mask & -mask, []
    if (1 << mask.bit_count()) <= 4 * len(local):
        part = (mask - 1) & mask
        while part:
            if part & low and part in local and mask ^ part in local:
                pairs.append((local[part].id, local[mask ^ part].id))
            part = (part - 1) & mask
    else:
        pairs = [
            (sub.id, local[mask ^ part].id) for part, sub in local.items() if part & low and part & ~mask == 0 and mask ^ part in local
        ]
    return pairs


class Shape:
    """A query's join graph over bit masks of its sorted relations; two relations are adjacent if a class or a link joins them."""

    def __init__(self, query: Query) -> None:
        self.relations = sorted(query.join.relations)
        self.full = (1 << len(self.relations)) - 1
        bit = {relation: 1 << i for i, relation in enumerate(self.relations)}
        self.classes = []
        self.adjacent = [0] * len(self.relations)
        for equal in query.join.classes:
            mask = 0
            for attribute in equal:
                mask |= bit[attribute.relation]
            self.classes.append((mask, sorted(equal)))
            self._join(mask)
        for link in query.links:
            self._join(sum(bit[relation] for relation in link))

    def _join(self, mask: int) -> None:
        for i in range(len(self.relations)):
            if mask >> i & 1:
                self.adjacent[i] |= mask & ~(1 << i)

    def members(self, mask: int) -> list[Relation]:
        return [relation for i, relation in enumerate(self.relations) if mask >> i & 1]

    def neighbours(self, mask: int) -> int:
        near, rest = 0, mask
        while rest:
            low = rest & -rest
            near |= self.adjacent[low.bit_length() - 1]
            rest ^= low
        return near & ~mask

    def grown(self, masks: Iterable[int], within: int) -> set[int]:
        """Every mask with one more adjacent relation of `within`."""
        found = set()
        for mask in masks:
            near = self.neighbours(mask) & within
            while near:
                low = near & -near
                found.add(mask | low)
                near ^= low
        return found

    def connected(self, most: int | None = None, within: int | None = None) -> list[int]:
        """All connected masks (inside `within`) by ascending size; stops early once there are more than `most`."""
        within = self.full if within is None else within
        layer = {1 << i for i in range(len(self.relations)) if within >> i & 1}
        found: list[int] = []
        while layer:
            found += sorted(layer)
            if most is not None and len(found) > most:
                break
            layer = self.grown(layer, within)
        return found

    def outside(self, mask: int) -> list[tuple[Relation, str]]:
        """The attributes by which `mask` joins relations that it does not contain: one per class, the smallest member inside."""
        bit = {relation: 1 << i for i, relation in enumerate(self.relations)}
        return [
            (inside[0].relation, inside[0].column)
            for whole, members in self.classes
            if whole & mask and whole & ~mask
            for inside in [[a for a in members if bit[a.relation] & mask]]
        ]
