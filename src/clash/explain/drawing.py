"""What the pictures show: the probe forest, read off the topology, without any coordinates.

A box is an origin or a probe rule; a box's children are the steps that follow. Marks say what ends there.
"""

from __future__ import annotations

from dataclasses import dataclass

from clash.explain.wording import number
from clash.planner.plan import Plan
from clash.plan.topology import Edge, ProbeRule, Store, Topology

NETWORK, LOCAL, EVERYWHERE = "network", "local", "everywhere"


@dataclass(frozen=True, slots=True)
class Box:
    """`name` is the label of an origin or of the edge into it; `travels` says how its tuples come, "" at an origin."""

    name: str
    label: str
    hint: str
    store: str
    travels: str
    position: str
    emits: tuple[str, ...]
    feeds: tuple[tuple[str, str], ...]  # id and label of the stores
    children: tuple[Box, ...]


def boxes(plan: Plan) -> tuple[Box, ...]:
    """The roots of the forest."""
    topology = plan.topology
    return tuple(
        Box(
            origin.label,
            str(origin.relation) if origin.owner is None else f"{origin.owner}: {origin.relation}",
            f"tuples of stream {origin.relation.stream}",
            "",
            "",
            "",
            origin.emits,
            (),
            tuple(_box(topology, topology.edge[label]) for label in origin.out),
        )
        for origin in topology.origins
    )


def store_label(store: Store) -> str:
    return str(store.stream) if store.join is None else f"({store.join})"


def legend_stores(plan: Plan) -> list[tuple[str, str]]:
    """(id, what is to be said of it) for every store."""
    rows = {(s.key.stream, s.key.join, s.key.owner): s.rows for s in plan.stores}
    found = []
    for store in plan.topology.stores:
        owner = "" if store.owner is None else f"{store.owner}: "
        layouts = " ".join(f"[{layout}]" for layout in store.layouts)
        found.append((store.id, f"{owner}{store_label(store)}{layouts}, {number(rows[store.stream, store.join, store.owner])} rows"))
    return found


def _box(topology: Topology, edge: Edge) -> Box:
    rule, store = topology.rule[edge.store, edge.label], topology.store[edge.store]
    if not isinstance(rule, ProbeRule):
        raise AssertionError("a tree is made of probes")
    keys = ", ".join(f"{key.bound} = {key.stored}" for key in rule.keys) or "every stored row"
    return Box(
        edge.label,
        f"{store_label(store)}[{edge.layout}]",
        f"{edge.label}: {edge.carries} probes {store_label(store)} by {keys}; round {edge.position.round}, phase {edge.position.phase}",
        store.id,
        EVERYWHERE if edge.address.kind == "all" and topology.workers > 1 else LOCAL if edge.stays else NETWORK,
        str(edge.position),
        rule.emits,
        tuple((fed, store_label(topology.store[fed])) for fed in dict.fromkeys(topology.edge[label].store for label in rule.feeds)),
        tuple(_box(topology, topology.edge[label]) for label in rule.out),
    )
