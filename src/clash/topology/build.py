"""From a logical plan to its topology: one pass after the other, each a pure function of the results of the earlier ones.

| pass | function | result |
|---|---|---|
| branch orders | `branches.branch_orders` | probe orders, split where stores lack rows of the past |
| merge into trees | `trees.merge_orders` | orders with a common prefix share its steps |
| place steps | `placement.place_steps` | where each step sends its tuples, and where its results are |
| schedule | `positions.schedule_steps` | the round and phase in which each step runs and each store is filled |
| describe stores | `stores.describe_stores` | what each store retains, and for how long |
| columns that travel | `columns.travelling_columns` | the attributes that each step needs of the tuples that arrive |
| edges and rules | `rules.write_rules` | labelled edges, and the rule of each edge at its store |

To see the plan after each pass, set the logger `clash.topology` to DEBUG.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clash.model.query import Query
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan, StorePlan
from clash.plan.topology import Topology
from clash.plan.visibility import VisibilityBounds
from clash.topology import pass_log
from clash.topology.branches import branch_orders
from clash.topology.columns import travelling_columns
from clash.topology.equality import Streams
from clash.topology.pass_log import logged
from clash.topology.placement import place_steps
from clash.topology.positions import schedule_steps
from clash.topology.rules import write_rules
from clash.topology.stores import describe_stores
from clash.topology.trees import Node, merge_orders

UNRESTRICTED = VisibilityBounds()


def build_topology(plan: LogicalPlan, visibility: VisibilityBounds = UNRESTRICTED) -> Topology:
    """The topology of a plan; equal plans with equal visibility bounds give equal topologies."""
    queries, streams, orders, workers = plan.queries, dict(plan.streams), plan.probe_orders, plan.workers
    layouts = {store.key: store.layouts for store in plan.stores}

    branches = logged("branch orders", branch_orders(queries, orders, layouts, visibility), pass_log.branch_lines)
    roots = logged("merge into trees", merge_orders(queries, branches, layouts, streams).roots, pass_log.tree_lines)
    nodes = [node for root in roots for node in breadth_first(root)]
    placements = logged("place steps", place_steps(roots, layouts, streams, workers), pass_log.placement_lines)
    schedule = logged("schedule", schedule_steps(roots, placements), pass_log.schedule_lines)
    stores = logged("describe stores", describe_stores(layouts, queries, nodes, schedule.fills, streams), pass_log.store_lines)
    travelling = logged("columns that travel", travelling_columns(roots, placements, stores, queries), pass_log.column_lines)
    rule_set = logged("edges and rules", write_rules(nodes, stores, placements, schedule, travelling, streams), pass_log.rule_lines)

    return Topology(
        workers=workers,
        rounds=schedule.rounds,
        streams=_used_streams(queries, plan.stores, streams),
        queries=queries,
        stores=tuple(stores.values()),
        origins=rule_set.origins,
        edges=rule_set.edges,
        rules=rule_set.rules,
        starts=_starts(queries, visibility),
    )


def breadth_first(root: Node) -> Iterator[Node]:
    """The nodes of a tree in the order in which the paper numbers its edges: all first steps, then all second steps, and so on."""
    layer = [root]
    while layer:
        yield from layer
        layer = [child for node in layer for child in node.children.values()]


def _used_streams(queries: Iterable[Query], stores: Iterable[StorePlan], streams: Streams) -> tuple[Stream, ...]:
    """The streams that are read or stored, by name."""
    names = {relation.stream for query in queries for relation in query.join.relations}
    names |= {store.key.stream for store in stores if store.key.stream is not None}
    return tuple(streams[name] for name in sorted(names))


def _starts(queries: Iterable[Query], visibility: VisibilityBounds) -> tuple[tuple[str, int], ...]:
    """The queries without history and their first arrivals, as long as some store has rows from before."""
    starts = []
    for query in queries:
        if query.name in visibility.without_history:
            start = visibility.without_history[query.name]
            if any(oldest < start for oldest in visibility.oldest.values()):
                starts.append((query.name, start))
    return tuple(sorted(starts))
