"""How the tuples of every step are addressed, whether they are on the right worker already, and where the results are.

Invariant: a location is recorded only where it is certain, because steps that stay rely on it.

- A probe by a known key ends on the worker that the hash of the key's class names. A probe into a replicated store leaves tuples where they
  are. After a broadcast the results are where the stored rows were.
- Tuples at ingest have no location yet; sending them where the copy for their own store goes costs nothing.
- All stores with the layout `one` are on the same worker.
- Where the layout of a store spreads hot keys, no hash names the worker of a row: what is stored there never stays, and results of a probe
  into it have no location, although each is on one worker.
- What is on every worker is probed by each worker for itself. It may be answered, or stored under another layout than `all`, only after a
  probe into a partitioned store has put each result on one worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from clash.model.layout import ALL, ONE, Layout
from clash.model.query import SubJoin
from clash.model.relation import Attribute
from clash.plan.errors import PlanError
from clash.plan.logical import StoreKey
from clash.plan.topology import Address
from clash.topology.equality import Streams, equal_attributes, is_exact, links_between
from clash.topology.partitioning import Layouts, partition_attribute
from clash.topology.trees import Node

ONE_WORKER, EVERY_WORKER = "one worker", "every worker"
Location = frozenset[Attribute] | str | None
"""Where the results of a step are: on the worker that the hash of any of these attributes names, on the worker of the layout `one`
(`ONE_WORKER`), on all workers (`EVERY_WORKER`), or unknown (None)."""


class FeedPlacement(NamedTuple):
    """How the results of a step reach an intermediate store under one of its layouts."""

    store: StoreKey
    layout: Layout
    address: Address
    stays: bool
    """Whether the results are on the right worker already."""


@dataclass(frozen=True, slots=True)
class Placement:
    """How the tuples of a step reach its store, and where its results are."""

    address: Address | None
    """Which workers the tuples are sent to; None at a root."""
    stays: bool
    """Whether the tuples are on the right worker already or, at a first step, go where the copy for their own store goes anyway."""
    location: Location
    """Where the results are."""
    feeds: tuple[FeedPlacement, ...]
    """One per intermediate store that the results fill, and layout of it."""


class _Route(NamedTuple):
    """How tuples reach a step: the address, whether they stay, and the location of the results."""

    address: Address
    stays: bool
    location: Location


def place_steps(roots: Iterable[Node], layouts: Layouts, streams: Streams, workers: int) -> dict[Node, Placement]:
    """The placement of every node; parents come first, because a step starts from the location of its parent's results."""
    placements: dict[Node, Placement] = {}
    for root in roots:
        for node in root.walk():
            address, stays, location = None, False, None
            if node.parent is not None:
                address, stays, location = _reach_step(node, node.parent, placements[node.parent].location, layouts, streams)
            if location == EVERY_WORKER and (node.emits or any(layout != ALL for key in node.feeds for layout in layouts[key])):
                raise PlanError(f"{node.bound} would be answered by every worker")
            feeds = tuple(_feed(key, layout, location, workers) for key in node.feeds for layout in layouts[key])
            placements[node] = Placement(address, node.parent is not None and (stays or workers == 1), location, feeds)
    return placements


def _reach_step(node: Node, parent: Node, location: Location, layouts: Layouts, streams: Streams) -> _Route:
    """How tuples at `location`, the results of the parent, reach the store of the node."""
    if node.layout is None or node.adds is None:
        raise AssertionError("only a root has no store")
    at_ingest = parent.parent is None
    if at_ingest and node.entry_layout == ALL:
        location = EVERY_WORKER
    if location == EVERY_WORKER:
        return _Route(Address("all"), True, _after_local_probe(node, node.layout, node.adds, streams))
    if node.layout == ALL:
        return _enter_replicated(node, streams) if at_ingest else _Route(Address("any"), True, _widen(location, node.bound, streams))
    origin_layouts = layouts.get(StoreKey(node.origin.stream, None, node.owner), ()) if at_ingest else ()
    if node.layout == ONE:
        return _Route(Address("one"), ONE in origin_layouts if at_ingest else location == ONE_WORKER, ONE_WORKER)
    target = partition_attribute(node.layout, node.adds)
    if target is None:
        return _Route(Address("all"), False, None)
    stored_at = None if node.layout.hot else equal_attributes(target, node.bound, streams)
    # Where several classes contain the target, one that compares without rounding is the better address.
    links = sorted(links_between(node.bound, parent.bound, node.adds), key=lambda link: not is_exact(link.equal, streams))
    key = next((link.bound for link in links if target in link.equal), None)
    if key is None:
        return _Route(Address("all"), False, stored_at)
    if stored_at is None:
        return _Route(Address("key", key, node.layout.hot), False, None)
    if at_ingest:
        stays = any(
            layout.column is not None and not layout.hot and Attribute(node.origin, layout.column) in stored_at for layout in origin_layouts
        )
    else:
        widened = _widen(location, node.bound, streams)
        stays = isinstance(widened, frozenset) and target in widened
    return _Route(Address("key", key), stays, stored_at)


def _after_local_probe(node: Node, layout: Layout, adds: SubJoin, streams: Streams) -> Location:
    """Where the results are after every worker has probed its own part of the store: where the stored rows are."""
    if layout == ALL:
        return EVERY_WORKER
    if layout == ONE:
        return ONE_WORKER
    target = partition_attribute(layout, adds)
    return equal_attributes(target, node.bound, streams) if target is not None and not layout.hot else None


def _enter_replicated(node: Node, streams: Streams) -> _Route:
    """How a raw tuple reaches a replicated store: with the copy for its own store, if the location of that copy is known."""
    if node.entry_layout is None:
        return _Route(Address("any"), False, None)
    if node.entry_layout == ONE:
        return _Route(Address("one"), True, ONE_WORKER)
    attribute, hot = Attribute(node.origin, str(node.entry_layout.column)), node.entry_layout.hot
    return _Route(Address("home", attribute, hot), True, None if hot else equal_attributes(attribute, node.bound, streams))


def _widen(location: Location, bound: SubJoin, streams: Streams) -> Location:
    """The same location, described by all attributes of `bound` that name it."""
    if not isinstance(location, frozenset):
        return location
    return frozenset().union(*(equal_attributes(attribute, bound, streams) for attribute in location))


def _feed(key: StoreKey, layout: Layout, location: Location, workers: int) -> FeedPlacement:
    if key.join is None:
        raise AssertionError("only the store of a MIR is fed")
    address, stays = _reach_mir(layout, key.join, location)
    return FeedPlacement(key, layout, address, stays or workers == 1)


def _reach_mir(layout: Layout, join: SubJoin, location: Location) -> tuple[Address, bool]:
    """The address of rows at `location` that are stored under the layout, and whether they stay."""
    if layout == ALL:
        return Address("all"), location == EVERY_WORKER
    if layout == ONE:
        return Address("one"), location == ONE_WORKER
    attribute = partition_attribute(layout, join)
    if attribute is None:
        return Address("any"), False
    return Address("home", attribute, layout.hot), isinstance(location, frozenset) and attribute in location and not layout.hot
