"""From a plan's orders and stores to the topology that runs them: one pass after the other.

Merge orders into trees; locate tuples; schedule positions; find the columns; number the edges; write the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from clash.model.query import Query
from clash.model.stream import Stream
from clash.planner.orders import ProbeOrder, StorePlan
from clash.topology.columns import travelling
from clash.topology.data import FIRST, Topology
from clash.topology.equality import Streams
from clash.topology.places import locate
from clash.topology.positions import schedule
from clash.topology.rules import write_rules
from clash.topology.stores import describe, readers
from clash.topology.trees import Node, merge_orders


def build(
    queries: Iterable[Query], streams: Mapping[str, Stream], orders: Sequence[ProbeOrder], stores: Sequence[StorePlan], workers: int
) -> Topology:
    """The topology of a plan; equal plans give equal topologies."""
    queries = tuple(queries)
    layouts = {plan.key: plan.layouts for plan in stores}
    roots = merge_orders(queries, orders, layouts, streams).roots
    spots = locate(roots, layouts, streams, workers)
    times = schedule(roots, spots)
    nodes = [node for root in roots for node in breadth_first(root)]
    described = {key: describe(key, layouts[key], readers(key, queries), nodes, times.fills.get(key, FIRST), streams) for key in layouts}
    kept = {key: store.columns for key, store in described.items()}
    needs = travelling(roots, spots, kept, {query.name: query for query in queries})
    origins, edges, rules = write_rules(nodes, described, spots, times, needs, streams)
    return Topology(workers, times.rounds, _used(queries, streams), queries, tuple(described.values()), origins, edges, rules)


def breadth_first(root: Node) -> Iterator[Node]:
    """As the paper numbers its edges: all first steps, then all second ones."""
    layer = [root]
    while layer:
        yield from layer
        layer = [child for node in layer for child in node.children.values()]


def _used(queries: Iterable[Query], streams: Streams) -> tuple[Stream, ...]:
    names = sorted({relation.stream for query in queries for relation in query.join.relations})
    return tuple(streams[name] for name in names)
