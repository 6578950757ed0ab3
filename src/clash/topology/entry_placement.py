"""On which workers a tuple enters a probe tree whose first step does not decide it.

Every worker can answer a probe into a replicated store. The tuple therefore travels together with the copy that goes into its own store
anyway, and from then on its location is known. If its own store has several layouts, there is a choice: the copy whose location a later
step, or the store that the order feeds, needs. If one of them is replicated, the tuple can travel with that copy: it is then on every
worker, and a partitioned store can be probed without sending anything.
"""

from __future__ import annotations

from typing import NamedTuple

from clash.model.layout import ALL, ONE, Layout
from clash.model.query import SubJoin
from clash.model.relation import Attribute
from clash.plan.logical import ProbeOrder
from clash.topology.equality import Streams, equal_attributes
from clash.topology.partitioning import Layouts, partition_attribute


class EntryLayout(NamedTuple):
    """The layout of the origin's own store whose copy a tuple travels with."""

    layout: Layout | None
    """None where no layout of the own store has a known location."""
    required: bool
    """Whether the order depends on this layout; otherwise it may share the first step of another order, whatever that one's layout is."""


def choose_entry_layout(
    order: ProbeOrder, join: SubJoin, origin_layouts: tuple[Layout, ...], layouts: Layouts, streams: Streams
) -> EntryLayout:
    """The entry layout of an order; `origin_layouts` are those of the origin's own store."""
    located = [layout for layout in origin_layouts if layout != ALL and layout != Layout("hash")]
    default = EntryLayout(located[0] if located else None, required=False)
    bound = order.start.relations
    for step in order.steps:
        bound |= step.adds.relations
        if step.layout == ALL:
            continue
        target = partition_attribute(step.layout, step.adds)
        matching = _matching_layout(located, order, target, step.layout, join.sub(bound), streams)
        if step.stays and matching is None and ALL in origin_layouts:
            return EntryLayout(ALL, required=True)
        return EntryLayout(matching, required=True) if matching is not None and step.stays else default
    fed_layouts = layouts.get(order.feeds, ()) if order.feeds is not None else ()
    if fed_layouts == (ALL,) and ALL in origin_layouts and order.feed_cost == 0:
        return EntryLayout(ALL, required=True)
    for layout in fed_layouts:
        matching = _matching_layout(located, order, partition_attribute(layout, join), layout, join, streams)
        if matching is not None:
            return EntryLayout(matching, required=True)
    return default


def _matching_layout(
    located: list[Layout], order: ProbeOrder, target: Attribute | None, layout: Layout, join: SubJoin, streams: Streams
) -> Layout | None:
    """The layout of the origin's own store that puts a tuple on the worker where `layout` puts the rows of `join` by `target`."""
    if layout == ONE:
        return ONE if ONE in located else None
    if target is None or layout.hot:
        return None
    equal = equal_attributes(target, join, streams)
    return next((own for own in located if own.column is not None and not own.hot and Attribute(order.origin, own.column) in equal), None)
