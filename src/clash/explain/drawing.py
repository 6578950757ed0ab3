"""What every picture shows: the probe forest, read off the topology, without coordinates.

A box is an origin or a probe rule; its children are the steps that follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clash.explain.computed import computed_parts
from clash.explain.wording import number
from clash.model.query import Query
from clash.plan.logical import LogicalPlan
from clash.plan.topology import Edge, ProbeRule, Store, Topology

Travels = Literal["", "network", "local", "everywhere"]
NETWORK: Travels = "network"
LOCAL: Travels = "local"
EVERYWHERE: Travels = "everywhere"


@dataclass(frozen=True, slots=True)
class Box:
    """One node of the probe forest."""

    name: str
    """The label of the origin, or of the edge into the rule."""
    label: str
    """The text in the box."""
    tooltip: str
    store: str
    """The id of the store that is probed; "" at an origin."""
    travels: Travels
    """How the tuples reach this box: to one worker over the network, on the worker where they are, or to all workers; "" at an origin."""
    position: str
    """Round and phase of the probe; "" at an origin."""
    emits: tuple[str, ...]
    """The queries whose results are complete here."""
    feeds: tuple[tuple[str, str], ...]
    """Id and label of the intermediate stores that are filled from here."""
    children: tuple[Box, ...]


def forest_boxes(topology: Topology) -> tuple[Box, ...]:
    """The roots of the forest: one box per origin."""
    computed: dict[str, list[str]] = {}
    for part in computed_parts(topology.streams, topology.queries):
        by = "Spark computes" if part.by_spark else "tasks compute"
        computed.setdefault(part.stream, []).append(f"{by} {part.name} = {part.expression}")
    return tuple(
        Box(
            name=origin.label,
            label=str(origin.relation) if origin.owner is None else f"{origin.owner}: {origin.relation}",
            tooltip="; ".join([f"tuples of stream {origin.relation.stream}", *computed.get(origin.relation.stream, ())]),
            store="",
            travels="",
            position="",
            emits=origin.emits,
            feeds=(),
            children=tuple(_probe_box(topology, topology.edge[label]) for label in origin.out),
        )
        for origin in topology.origins
    )


def store_label(store: Store) -> str:
    return str(store.stream) if store.join is None else f"({store.join})"


def describe_stores(plan: LogicalPlan, topology: Topology) -> list[tuple[str, str]]:
    """For every store its id, and a text with its owner, name, layouts and estimated rows."""
    rows = {(s.key.stream, s.key.join, s.key.owner): s.rows for s in plan.stores}
    descriptions = []
    for store in topology.stores:
        owner = "" if store.owner is None else f"{store.owner}: "
        layouts = " ".join(f"[{layout}]" for layout in store.layouts)
        estimated = number(rows[store.stream, store.join, store.owner])
        kind = "table " if store.stream in topology.tables else ""
        descriptions.append((store.id, f"{owner}{kind}{store_label(store)}{layouts}, {estimated} rows"))
    return descriptions


def spark_parts(query: Query) -> str:
    """What Spark does behind the join, for a tooltip; "" if it does nothing."""
    parts = [
        *(["Spark computes results of joined rows"] if query.projection is not None else []),
        *(["Spark runs an outer query over the results"] if query.outer is not None else []),
    ]
    return "; ".join(parts)


def _probe_box(topology: Topology, edge: Edge) -> Box:
    rule, store = topology.rule[edge.store, edge.label], topology.store[edge.store]
    if not isinstance(rule, ProbeRule):
        raise AssertionError("a probe tree holds probe rules only")
    keys = ", ".join(f"{key.bound} = {key.stored}" for key in rule.keys) or "every stored row"
    fed_stores = dict.fromkeys(topology.edge[label].store for label in rule.feeds)
    return Box(
        name=edge.label,
        label=f"{store_label(store)}[{edge.layout}]",
        tooltip=(
            f"{edge.label}: {edge.carries} probes {store_label(store)} by {keys}; round {edge.position.round}, phase {edge.position.phase}"
        ),
        store=store.id,
        travels=EVERYWHERE if edge.address.kind == "all" and topology.workers > 1 else LOCAL if edge.stays else NETWORK,
        position=str(edge.position),
        emits=rule.emits,
        feeds=tuple((fed, store_label(topology.store[fed])) for fed in fed_stores),
        children=tuple(_probe_box(topology, topology.edge[label]) for label in rule.out),
    )
