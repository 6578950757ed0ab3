"""How every step is addressed, whether its tuples are there already, and where its results are.

Invariant: a place is only claimed where it is certain. A probe by a known key ends at the hash of that key's class; one into
a replicated store leaves rows where they are; after a broadcast they are where the stored row was. Tuples at ingest are nowhere yet, but go
for free where their own store's copy goes. All stores on one worker are on the same one. What is on every worker is probed by
each of them for itself, and may only be answered, or stored once, after a store that is spread out has put it on one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clash.model.layout import ALL, ONE, Layout
from clash.model.query import SubJoin
from clash.model.relation import Attribute
from clash.plan.errors import PlanError
from clash.plan.logical import StoreKey
from clash.plan.topology import Address
from clash.topology.equality import Streams, is_exact, linking, same_values
from clash.topology.trees import Node

ONE_WORKER, EVERY_WORKER = "one worker", "every worker"
Location = frozenset[Attribute] | str | None
Layouts = Mapping[StoreKey, tuple[Layout, ...]]


@dataclass(frozen=True, slots=True)
class Placement:
    """`feeds`: per store fed and layout of it, the address and whether the rows stay."""

    address: Address | None
    stays: bool
    place: Location
    feeds: tuple[tuple[StoreKey, Layout, Address, bool], ...]


def place_steps(roots: Iterable[Node], layouts: Layouts, streams: Streams, workers: int) -> dict[Node, Placement]:
    """Parents first, because a place is carried along."""
    spots: dict[Node, Placement] = {}
    for root in roots:
        for node in root.walk():
            address, stays, place = None, False, None
            if node.parent is not None:
                address, stays, place = _enter(node, node.parent, spots[node.parent].place, layouts, streams)
            if place == EVERY_WORKER and (node.emits or any(layout != ALL for key in node.feeds for layout in layouts[key])):
                raise PlanError(f"{node.bound} would be answered by every worker")
            feeds = tuple((key, layout, *_feed(key, layout, place, workers)) for key in node.feeds for layout in layouts[key])
            spots[node] = Placement(address, node.parent is not None and (stays or workers == 1), place, feeds)
    return spots


def layout_attribute(layout: Layout, adds: SubJoin) -> Attribute | None:
    """The attribute of what is added by which the layout hashes."""
    if layout.kind != "hash" or layout.column is None:
        return None
    return Attribute(layout.relation if layout.relation is not None else min(adds.relations), layout.column)


def _enter(node: Node, parent: Node, before: Location, layouts: Layouts, streams: Streams) -> tuple[Address, bool, Location]:
    if node.layout is None or node.adds is None:
        raise AssertionError("only a root has no store")
    at_ingest = parent.parent is None
    own = layouts.get(StoreKey(node.origin.stream, None, node.owner), ()) if at_ingest else ()
    if at_ingest and node.home == ALL:
        before = EVERY_WORKER
    if before == EVERY_WORKER:
        target = layout_attribute(node.layout, node.adds)
        spread = same_values(target, node.bound, streams) if target is not None else None
        return Address("all"), True, EVERY_WORKER if node.layout == ALL else ONE_WORKER if node.layout == ONE else spread
    if node.layout == ALL:
        if not at_ingest:
            return Address("any"), True, _carry(before, node.bound, streams)
        if node.home is None:
            return Address("any"), False, None
        if node.home == ONE:
            return Address("one"), True, ONE_WORKER
        attribute = Attribute(node.origin, str(node.home.column))
        return Address("home", attribute), True, same_values(attribute, node.bound, streams)
    if node.layout == ONE:
        return Address("one"), ONE in own if at_ingest else before == ONE_WORKER, ONE_WORKER
    target = layout_attribute(node.layout, node.adds)
    # of several classes with the target, one that compares without rounding is the better address
    links = sorted(linking(node.bound, parent.bound, node.adds), key=lambda link: not is_exact(link[2], streams))
    known = next((bound for bound, _, equal in links if target in equal), None)
    if target is None:
        return Address("all"), False, None
    there = same_values(target, node.bound, streams)
    if known is None:  # sent everywhere, but what is found is where the stored row is
        return Address("all"), False, there
    if at_ingest:
        stays = any(layout.column is not None and Attribute(node.origin, layout.column) in there for layout in own)
    else:
        carried = _carry(before, node.bound, streams)
        stays = isinstance(carried, frozenset) and target in carried
    return Address("key", known), stays, there


def _carry(place: Location, bound: SubJoin, streams: Streams) -> Location:
    """The same place, told by all attributes that name it now."""
    if not isinstance(place, frozenset):
        return place
    return frozenset().union(*(same_values(attribute, bound, streams) for attribute in place))


def _feed(key: StoreKey, layout: Layout, place: Location, workers: int) -> tuple[Address, bool]:
    if key.join is None:
        raise AssertionError("only a MIR's store is fed")
    if layout == ALL:
        return Address("all"), workers == 1 or place == EVERY_WORKER
    if layout == ONE:
        return Address("one"), workers == 1 or place == ONE_WORKER
    attribute = layout_attribute(layout, key.join)
    if attribute is None:
        return Address("any"), workers == 1
    return Address("home", attribute), workers == 1 or (isinstance(place, frozenset) and attribute in place)
