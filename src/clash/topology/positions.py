"""When every step runs and every store is filled: (round, phase), fixed with the plan.

Invariant: a step's position is the later of where its tuples arrive and its store's fill position, so a probe never misses a
row of its own batch. Tuples that stay on their worker arrive where they are, others one round later. MIRs are
built from smaller ones, so this is acyclic; with one worker everything stays, and all of it is phases of one round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.model.layout import Layout
from clash.plan.logical import StoreKey
from clash.plan.topology import FIRST, Position
from clash.topology.placement import Placement
from clash.topology.trees import Node


@dataclass(frozen=True, slots=True)
class Schedule:
    """`feeds`: when the rows of a node reach a store under one of its layouts."""

    steps: Mapping[Node, Position]
    fills: Mapping[StoreKey, Position]
    feeds: Mapping[tuple[Node, StoreKey, Layout], Position]

    @property
    def rounds(self) -> int:
        return max(position.round for position in (FIRST, *self.steps.values(), *self.feeds.values()))


def schedule(roots: Iterable[Node], spots: Mapping[Node, Placement]) -> Schedule:
    nodes = [node for root in roots for node in root.walk()]
    feeders: dict[StoreKey, list[Node]] = {}
    for node in nodes:
        for key in node.feeds:
            feeders.setdefault(key, []).append(node)
    steps: dict[Node, Position] = {}
    fills: dict[StoreKey, Position] = {}
    feeds: dict[tuple[Node, StoreKey, Layout], Position] = {}

    def position(node: Node) -> Position:
        if node not in steps:
            if node.parent is None or node.store is None:
                steps[node] = FIRST
            else:
                before = position(node.parent)
                there = node.parent.parent is None or spots[node].stays
                steps[node] = max(before if there else Position(before.round + 1, 0), fill(node.store))
        return steps[node]

    def fill(key: StoreKey) -> Position:
        if key.join is None:
            return FIRST
        if key not in fills:
            for node in feeders.get(key, ()):
                at = position(node)
                for fed, layout, _, stays in spots[node].feeds:
                    if fed == key:
                        feeds[node, key, layout] = Position(at.round, at.phase + 1) if stays else Position(at.round + 1, 0)
            fills[key] = max((at for (_, fed, _), at in feeds.items() if fed == key), default=FIRST)
        return fills[key]

    for node in nodes:
        position(node)
        for key in node.feeds:
            fill(key)
    return Schedule(steps, fills, feeds)
