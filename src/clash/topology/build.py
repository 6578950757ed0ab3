"""From a plan's orders and stores to the topology that runs them: one pass after the other.

Cut orders into branches; merge them into trees; locate tuples; schedule positions; find the columns; number the edges; write the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clash.model.query import Query
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan, StorePlan
from clash.plan.topology import FIRST, Topology
from clash.plan.visibility import VisibilityBounds
from clash.topology.branches import branch_orders
from clash.topology.columns import travelling
from clash.topology.equality import Streams
from clash.topology.placement import place_steps
from clash.topology.positions import schedule
from clash.topology.rules import write_rules
from clash.topology.stores import describe, readers
from clash.topology.trees import Node, merge_orders

PLAIN = VisibilityBounds()


def build_topology(plan: LogicalPlan, past: VisibilityBounds = PLAIN) -> Topology:
    """The topology of a plan; equal plans with an equal past give equal topologies."""
    queries, streams, orders, workers = plan.queries, dict(plan.streams), plan.probe_orders, plan.workers
    layouts = {store.key: store.layouts for store in plan.stores}
    branches = branch_orders(queries, orders, layouts, streams, past)
    roots = merge_orders(queries, branches, layouts, streams).roots
    spots = place_steps(roots, layouts, streams, workers)
    times = schedule(roots, spots)
    nodes = [node for root in roots for node in breadth_first(root)]
    described = {key: describe(key, layouts[key], readers(key, queries), nodes, times.fills.get(key, FIRST), streams) for key in layouts}
    kept = {key: store.columns for key, store in described.items()}
    needs = travelling(roots, spots, kept, {query.name: query for query in queries})
    origins, edges, rules = write_rules(nodes, described, spots, times, needs, streams)
    kept_stores, starts = tuple(described.values()), _starts(queries, past)
    return Topology(workers, times.rounds, _used(queries, plan.stores, streams), queries, kept_stores, origins, edges, rules, starts)


def breadth_first(root: Node) -> Iterator[Node]:
    """As the paper numbers its edges: all first steps, then all second ones."""
    layer = [root]
    while layer:
        yield from layer
        layer = [child for node in layer for child in node.children.values()]


def _used(queries: Iterable[Query], stores: Iterable[StorePlan], streams: Streams) -> tuple[Stream, ...]:
    names = {relation.stream for query in queries for relation in query.join.relations}
    names |= {store.key.stream for store in stores if store.key.stream is not None}
    return tuple(streams[name] for name in sorted(names))


def _starts(queries: Iterable[Query], past: VisibilityBounds) -> tuple[tuple[str, int], ...]:
    """The queries without history, as long as there are tuples from before them."""
    found = []
    for query in queries:
        if query.name in past.fresh:
            start = past.added.get(query.name, 0)
            if any(oldest < start for oldest in past.oldest.values()):
                found.append((query.name, start))
    return tuple(sorted(found))
