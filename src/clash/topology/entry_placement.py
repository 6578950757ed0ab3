"""Where a tuple enters the tree whose first step is into a replicated store.

Any worker can answer it, so the tuple goes along with the copy that its own store gets anyway, and is then known to be
there. A store kept under several layouts gives a choice: the copy that a later step, or the store fed, needs. A tuple of a replicated
store can go along with all its copies: it then is everywhere, and a store that is spread out can be probed without moving anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from clash.model.layout import ALL, ONE, Layout
from clash.model.query import SubJoin
from clash.model.relation import Attribute
from clash.plan.logical import ProbeOrder, StoreKey
from clash.topology.equality import Streams, same_values


def entry_layout(
    order: ProbeOrder, join: SubJoin, own: tuple[Layout, ...], layouts: Mapping[StoreKey, tuple[Layout, ...]], streams: Streams
) -> tuple[Layout | None, bool]:
    """The layout of the own store to go along with, and whether the order needs that one."""
    usable = [layout for layout in own if layout != ALL and layout != Layout("hash")]
    anyhow = usable[0] if usable else None
    bound = order.start.relations
    for step in order.steps:
        bound |= step.adds.relations
        if step.layout == ALL:
            continue
        chosen = _fitting(usable, order, _attribute(step.layout, step.adds), step.layout, join.sub(bound), streams)
        if step.stays and chosen is None and ALL in own:
            return ALL, True
        return (chosen, True) if chosen is not None and step.stays else (anyhow, False)
    fed = layouts.get(order.feeds, ()) if order.feeds is not None else ()
    if fed == (ALL,) and ALL in own and order.feed_cost == 0:
        return ALL, True
    for layout in fed:
        chosen = _fitting(usable, order, _attribute(layout, join), layout, join, streams)
        if chosen is not None:
            return chosen, True
    return anyhow, False


def _fitting(
    usable: list[Layout], order: ProbeOrder, wanted: Attribute | None, layout: Layout, join: SubJoin, streams: Streams
) -> Layout | None:
    if layout == ONE:
        return ONE if ONE in usable else None
    if wanted is None:
        return None
    equal = same_values(wanted, join, streams)
    return next((own for own in usable if own.column is not None and Attribute(order.origin, own.column) in equal), None)


def _attribute(layout: Layout, adds: SubJoin) -> Attribute | None:
    if layout.kind != "hash" or layout.column is None:
        return None
    return Attribute(layout.relation if layout.relation is not None else min(adds.relations), layout.column)
