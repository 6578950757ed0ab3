"""When every step runs and every store is filled: the positions (round, phase) within a batch, fixed with the plan.

Invariant: a step runs at the later of the position at which its tuples arrive and the position from which its store is filled, so a probe
never misses a row of its own batch. Tuples that stay on their worker arrive at the position where they were produced, others one round
later. A MIR is built from smaller ones, so the recursion is acyclic. With one worker everything stays, and all positions are phases of
one round.
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
    """The positions of a batch."""

    steps: Mapping[Node, Position]
    """When each step runs; roots are at the first position."""
    fills: Mapping[StoreKey, Position]
    """For each intermediate store, the position from which it has all rows of the batch; a base store has them from the first on."""
    feeds: Mapping[tuple[Node, StoreKey, Layout], Position]
    """When the results of a step reach an intermediate store under one of its layouts."""

    @property
    def rounds(self) -> int:
        return max(position.round for position in (FIRST, *self.steps.values(), *self.feeds.values()))


def schedule_steps(roots: Iterable[Node], placements: Mapping[Node, Placement]) -> Schedule:
    """The earliest positions that keep the invariant."""
    nodes = [node for root in roots for node in root.walk()]
    feeders: dict[StoreKey, list[Node]] = {}
    for node in nodes:
        for key in node.feeds:
            feeders.setdefault(key, []).append(node)
    steps: dict[Node, Position] = {}
    fills: dict[StoreKey, Position] = {}
    feeds: dict[tuple[Node, StoreKey, Layout], Position] = {}

    def step_position(node: Node) -> Position:
        if node not in steps:
            if node.parent is None or node.store is None:
                steps[node] = FIRST
            else:
                produced = step_position(node.parent)
                same_round = node.parent.parent is None or placements[node].stays  # raw tuples are sent before the first round
                steps[node] = max(produced if same_round else Position(produced.round + 1, 0), fill_position(node.store))
        return steps[node]

    def fill_position(key: StoreKey) -> Position:
        if key.join is None:
            return FIRST
        if key not in fills:
            for node in feeders.get(key, ()):
                produced = step_position(node)
                for feed in placements[node].feeds:
                    if feed.store == key:
                        stays = Position(produced.round, produced.phase + 1)
                        feeds[node, key, feed.layout] = stays if feed.stays else Position(produced.round + 1, 0)
            fills[key] = max((position for (_, fed, _), position in feeds.items() if fed == key), default=FIRST)
        return fills[key]

    for node in nodes:
        step_position(node)
        for key in node.feeds:
            fill_position(key)
    return Schedule(steps, fills, feeds)
