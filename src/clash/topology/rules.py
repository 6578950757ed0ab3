"""Edges with labels of their own, and the rule that each one meets at its store.

Raw tuples into the base stores come first, then every tree, parents before children, rows into MIRs beside the step that
completes them: e1, e2, … are the same for the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from clash.model.canonical_text import expression_key
from clash.model.layout import ALL, ONE, Layout
from clash.model.relation import Attribute, Relation
from clash.plan.logical import StoreKey
from clash.plan.topology import FIRST, Address, Edge, EdgeSource, Key, Origin, ProbeRule, Rule, Store, StoreRule
from clash.topology.columns import Needs, new_residuals
from clash.topology.equality import Streams, is_exact, linking
from clash.topology.placement import Placement
from clash.topology.positions import Schedule
from clash.topology.trees import Node

Written = tuple[tuple[Origin, ...], tuple[Edge, ...], tuple[Rule, ...]]


def write_rules(
    nodes: list[Node], stores: Mapping[StoreKey, Store], spots: Mapping[Node, Placement], times: Schedule, needs: Needs, streams: Streams
) -> Written:
    """`nodes` are all of the forest, parents first."""
    edges: list[Edge] = []
    rules: list[Rule] = []
    origins: list[Origin] = []

    def label() -> str:
        return f"e{len(edges) + 1}"

    for store in stores.values():
        if store.stream is not None:
            for layout in store.layouts:
                edge = Edge(
                    label(), EdgeSource("stream", store.stream), store.id, layout, None, _home(layout, store), False, store.columns, FIRST
                )
                edges.append(edge)
                rules.append(StoreRule(store.id, edge.label, FIRST))

    sources: dict[Node, EdgeSource] = {}
    into: dict[Node, str] = {}
    feeding: dict[Node, list[str]] = {}
    for node in nodes:
        if node.parent is None:
            sources[node] = EdgeSource("origin", f"o{len(sources) - len(into) + 1}")
            continue
        spot, store = spots[node], stores[_key(node)]
        if spot.address is None or node.layout is None:
            raise AssertionError("a step has an address")
        into[node] = label()
        sources[node] = EdgeSource("edge", into[node])
        edges.append(
            Edge(
                into[node],
                sources[node.parent],
                store.id,
                node.layout,
                node.parent.bound,
                spot.address,
                spot.stays,
                tuple(sorted(needs[node])),
                times.steps[node],
            )
        )
        for key, layout, address, stays in spot.feeds:
            fed, at = stores[key], times.feeds[node, key, layout]
            feeding.setdefault(node, []).append(label())
            rules.append(StoreRule(fed.id, label(), at))
            edges.append(Edge(label(), sources[node], fed.id, layout, node.bound, address, stays, fed.columns, at))
    for node in nodes:
        out = tuple(into[child] for child in node.children.values())
        if node.parent is None:
            backfills = None if node.backfills is None else stores[node.backfills].id
            origins.append(Origin(sources[node].name, node.origin, node.bound, node.owner, out, tuple(node.emits), backfills, node.since))
        else:
            rules.append(_probe(node, node.parent, into[node], stores[_key(node)], out, tuple(feeding.get(node, ())), times, streams))
    order = {edge.label: i for i, edge in enumerate(edges)}
    return tuple(origins), tuple(edges), tuple(sorted(rules, key=lambda rule: order[rule.edge]))


def _probe(
    node: Node, parent: Node, edge: str, store: Store, out: tuple[str, ...], feeds: tuple[str, ...], times: Schedule, streams: Streams
) -> ProbeRule:
    adds = node.adds
    if adds is None:
        raise AssertionError("a step adds something")
    base = store.stream is not None  # a MIR's rows have passed their filters and inner equalities already
    return ProbeRule(
        store.id,
        edge,
        node.origin,
        adds,
        node.bound,
        tuple(Key(bound, stored, is_exact(equal, streams)) for bound, stored, equal in linking(node.bound, parent.bound, adds)),
        tuple(sorted(adds.filters, key=expression_key)) if base else (),
        tuple(sorted(tuple(sorted(equal)) for equal in adds.classes)) if base else (),
        tuple(sorted(new_residuals(parent.bound, adds, node.bound), key=expression_key)),
        out,
        feeds,
        tuple(node.emits),
        times.steps[node],
        *node.bounds,
    )


def _key(node: Node) -> StoreKey:
    if node.store is None:
        raise AssertionError("only a root has no store")
    return node.store


def _home(layout: Layout, store: Store) -> Address:
    """Where a raw tuple is stored."""
    if layout == ALL:
        return Address("all")
    if layout == ONE:
        return Address("one")
    if layout.column is None:
        return Address("any")
    return Address("home", Attribute(Relation(str(store.stream)), layout.column))
