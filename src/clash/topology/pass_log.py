"""What `build_topology` logs after each pass, for developers: set the logger `clash.topology` to DEBUG.

Each `…_lines` function writes the result of one pass, one step, store or rule per line. Lines are formatted only if they are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from clash.plan.logical import StoreKey
from clash.plan.topology import UNBOUNDED, Address, Bounds, ProbeRule, Store
from clash.topology.columns import TravellingColumns
from clash.topology.placement import Location, Placement
from clash.topology.positions import Schedule
from clash.topology.rules import RuleSet
from clash.topology.trees import Branch, Node

_LOG = logging.getLogger("clash.topology")
_Result = TypeVar("_Result")


def logged(name: str, result: _Result, lines: Callable[[_Result], Iterable[str]]) -> _Result:
    """The result of a pass, unchanged, after it was logged under the name of the pass."""
    if _LOG.isEnabledFor(logging.DEBUG):
        _LOG.debug("%s", "\n  ".join([f"{name}:", *lines(result)]))
    return result


def branch_lines(branches: Sequence[Branch]) -> Iterator[str]:
    for order, bounds, backfills, since in branches:
        steps = [f"{step}{_bounds(bound)}" for step, bound in zip(order.steps, bounds, strict=True)]
        origin = f"stored {order.origin}{_bounds(Bounds(since))}" if backfills else str(order.origin)
        yield f"{' » '.join([origin, *steps])}{_ends(order.queries, [order.feeds] if order.feeds is not None else [])}"


def tree_lines(roots: Sequence[Node]) -> Iterator[str]:
    for root in roots:
        for node in root.walk():
            depth = str(node).count(" » ")
            step = str(node) if node.parent is None else f"{node.store}[{node.layout}]{_bounds(node.bounds)}"
            entry = "" if node.entry_layout is None else f", enters by [{node.entry_layout}]"
            yield f"{'  ' * depth}{step}{entry}{_ends(node.emits, node.feeds)}"


def placement_lines(placements: Mapping[Node, Placement]) -> Iterator[str]:
    for node, placement in placements.items():
        if placement.address is not None:
            yield f"{node}: {_sent(placement.address, placement.stays)}, results at {_location(placement.location)}"
        for feed in placement.feeds:
            yield f"{node} → {feed.store}[{feed.layout}]: {_sent(feed.address, feed.stays)}"


def schedule_lines(schedule: Schedule) -> Iterator[str]:
    yield f"{schedule.rounds} rounds"
    yield from (f"{position} {node}" for node, position in schedule.steps.items() if node.parent is not None)
    yield from (f"{position} {key} is filled" for key, position in schedule.fills.items())


def store_lines(stores: Mapping[StoreKey, Store]) -> Iterator[str]:
    for key, store in stores.items():
        layouts = ", ".join(map(str, store.layouts))
        horizon = "unbounded" if store.horizon is None else f"{store.horizon} µs"
        yield f"{store.id}: {key}[{layouts}] ({_names(store.columns)}), filled at {store.fill}, horizon {horizon}"


def column_lines(travelling: TravellingColumns) -> Iterator[str]:
    yield from (f"{node}: {_names(sorted(attributes))}" for node, attributes in travelling.items() if node.parent is not None)


def rule_lines(rule_set: RuleSet) -> Iterator[str]:
    yield from (f"{origin.label}: {origin.relation} → {' '.join((*origin.out, *origin.emits))}" for origin in rule_set.origins)
    edges = {edge.label: edge for edge in rule_set.edges}
    for rule in rule_set.rules:
        edge = edges[rule.edge]
        does = f"probes → {' '.join((*rule.out, *rule.feeds, *rule.emits))}" if isinstance(rule, ProbeRule) else "stores"
        yield f"{rule.edge}: {edge.source.name} → {rule.store}[{edge.layout}] at {rule.position}, {_sent(edge.address, edge.stays)}: {does}"


def _bounds(bounds: Bounds) -> str:
    if bounds == UNBOUNDED:
        return ""
    return f"@{bounds.since}…" if bounds.before is None else f"@{bounds.since}…{bounds.before}"


def _ends(queries: Iterable[str], feeds: Iterable[StoreKey]) -> str:
    """Which queries and stores get the results of a step."""
    ends = [*queries, *map(str, feeds)]
    return f" → {', '.join(ends)}" if ends else ""


def _sent(address: Address, stays: bool) -> str:
    target = address.kind if address.attribute is None else f"{address.kind} {address.attribute}"
    return f"{target} (stays)" if stays else target


def _location(location: Location) -> str:
    if location is None:
        return "an unknown worker"
    return location if isinstance(location, str) else "hash of " + _names(sorted(location))


def _names(attributes: Iterable[object]) -> str:
    return ", ".join(map(str, attributes))
