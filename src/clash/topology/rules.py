"""Edges, each with a label of its own, and the rule that each one has at its store.

Labels are given in a fixed order, so equal plans have equal labels e1, e2, …: first raw tuples into the base stores, then every tree,
parents before children, and the edges into MIRs right after the edge into the step that completes their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clash.model.canonical_text import expression_key
from clash.model.layout import ALL, ONE, Layout
from clash.model.relation import Attribute, Relation
from clash.plan.logical import StoreKey
from clash.plan.topology import FIRST, Address, Edge, EdgeSource, Key, Origin, ProbeRule, Rule, Store, StoreRule
from clash.topology.columns import TravellingColumns, new_residuals
from clash.topology.equality import Streams, is_exact, links_between
from clash.topology.placement import Placement
from clash.topology.positions import Schedule
from clash.topology.trees import Node


class RuleSet(NamedTuple):
    """The origins, edges and rules of a topology."""

    origins: tuple[Origin, ...]
    edges: tuple[Edge, ...]
    rules: tuple[Rule, ...]
    """In the order of their edges."""


def write_rules(
    nodes: Sequence[Node],
    stores: Mapping[StoreKey, Store],
    placements: Mapping[Node, Placement],
    schedule: Schedule,
    travelling: TravellingColumns,
    streams: Streams,
) -> RuleSet:
    """The edges and rules of all trees; `nodes` are those of all trees, parents first."""
    edges: list[Edge] = []
    rules: list[Rule] = []
    origins: list[Origin] = []

    def next_label() -> str:
        return f"e{len(edges) + 1}"

    for store in stores.values():
        if store.stream is not None and not streams[store.stream].is_table:
            for layout in store.layouts:
                edge = Edge(
                    label=next_label(),
                    source=EdgeSource("stream", store.stream),
                    store=store.id,
                    layout=layout,
                    carries=None,
                    address=_base_address(layout, store),
                    stays=False,
                    columns=store.columns,
                    position=FIRST,
                )
                edges.append(edge)
                rules.append(StoreRule(store.id, edge.label, FIRST))

    sources: dict[Node, EdgeSource] = {}
    incoming: dict[Node, str] = {}
    feeding: dict[Node, list[str]] = {}
    for node in nodes:
        if node.parent is None:
            sources[node] = EdgeSource("origin", f"o{len(sources) - len(incoming) + 1}")
            continue
        placement, store = placements[node], stores[_store_key(node)]
        if placement.address is None or node.layout is None:
            raise AssertionError("a step has an address")
        incoming[node] = next_label()
        sources[node] = EdgeSource("edge", incoming[node])
        edge = Edge(
            label=incoming[node],
            source=sources[node.parent],
            store=store.id,
            layout=node.layout,
            carries=node.parent.bound,
            address=placement.address,
            stays=placement.stays,
            columns=tuple(sorted(travelling[node])),
            position=schedule.steps[node],
        )
        edges.append(edge)
        for key, layout, address, stays in placement.feeds:
            mir, label, position = stores[key], next_label(), schedule.feeds[node, key, layout]
            feeding.setdefault(node, []).append(label)
            rules.append(StoreRule(mir.id, label, position))
            edges.append(Edge(label, sources[node], mir.id, layout, node.bound, address, stays, mir.columns, position))
    for node in nodes:
        out = tuple(incoming[child] for child in node.children.values())
        if node.parent is None:
            backfills = None if node.backfills is None else stores[node.backfills].id
            origins.append(Origin(sources[node].name, node.origin, node.bound, node.owner, out, tuple(node.emits), backfills, node.since))
        else:
            feeds = tuple(feeding.get(node, ()))
            rules.append(_probe_rule(node, node.parent, incoming[node], stores[_store_key(node)], out, feeds, schedule, streams))
    numbers = {edge.label: i for i, edge in enumerate(edges)}
    return RuleSet(tuple(origins), tuple(edges), tuple(sorted(rules, key=lambda rule: numbers[rule.edge])))


def _probe_rule(
    node: Node, parent: Node, edge: str, store: Store, out: tuple[str, ...], feeds: tuple[str, ...], schedule: Schedule, streams: Streams
) -> ProbeRule:
    adds = node.adds
    if adds is None:
        raise AssertionError("a step adds something")
    is_base = store.stream is not None  # rows of a MIR have passed their filters and inner equalities already
    links = links_between(node.bound, parent.bound, adds)
    return ProbeRule(
        store=store.id,
        edge=edge,
        origin=node.origin,
        adds=adds,
        bound=node.bound,
        keys=tuple(Key(link.bound, link.added, is_exact(link.equal, streams)) for link in links),
        filters=tuple(sorted(adds.filters, key=expression_key)) if is_base else (),
        equal=tuple(sorted(tuple(sorted(equal)) for equal in adds.classes)) if is_base else (),
        residuals=tuple(sorted(new_residuals(parent.bound, adds, node.bound), key=expression_key)),
        out=out,
        feeds=feeds,
        emits=tuple(node.emits),
        position=schedule.steps[node],
        since=node.bounds.since,
        before=node.bounds.before,
    )


def _store_key(node: Node) -> StoreKey:
    if node.store is None:
        raise AssertionError("only a root has no store")
    return node.store


def _base_address(layout: Layout, store: Store) -> Address:
    """Where a raw tuple is stored under a layout of its base store."""
    if layout == ALL:
        return Address("all")
    if layout == ONE:
        return Address("one")
    if layout.column is None:
        return Address("any")
    return Address("home", Attribute(Relation(str(store.stream)), layout.column), layout.hot)
