"""Channels: edges that leave with the same tuples for the same workers in the same round share one block.

The block has the union of their columns; where they take different rows of it, a boolean column per edge says which. Queries that have
stores of their own (`independent`) never share a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clash.model.block_columns import ARRIVAL, DEADLINE, EARLIEST, EVENT_TIME, LATEST, edge_mask, part_event_time, stored_name
from clash.model.relation import Attribute, Relation
from clash.plan.physical import BackfillSource, Channel, EdgeFilter, TypedColumn
from clash.plan.topology import Address, Edge, Origin, Topology
from clash.topology.columns import output_attributes
from clash.topology.key_types import AttributeTypes

SPECIAL = "bigint"  # the type of the columns that every tuple carries beside its attributes


class _Leaving(NamedTuple):
    """What leaves a stream: an edge, or an origin whose tuples are results by themselves, which any worker may write."""

    label: str
    address: Address
    round: int
    columns: tuple[Attribute, ...]


class Outgoing(NamedTuple):
    """The edges on which the results of a step leave their worker."""

    part_times: tuple[Relation, ...]
    """The relations whose event times the results carry."""
    edges: tuple[Edge, ...]


Groups = dict[tuple[Any, ...], list[_Leaving]]


def stream_channels(topology: Topology, types: AttributeTypes, stream: str, filters: Mapping[str, EdgeFilter]) -> Iterator[Channel]:
    """The channels on which raw tuples of a stream leave ingest."""
    groups: Groups = {}
    for edge in topology.ingest[stream]:
        _add(groups, edge, (topology.store[edge.store].owner, None))
    for origin in topology.roots(stream):
        shared_by = origin.owner, _backfill_source(topology, origin)
        for label in origin.out:
            _add(groups, topology.edge[label], shared_by)
        if origin.emits:
            outputs = output_attributes(topology, origin.emits, origin.start)
            groups.setdefault((shared_by, "any", 1), []).append(_Leaving(origin.label, Address("any"), 1, outputs))
    _send_along(groups)
    for at, (((_, backfill), *_), members) in enumerate(groups.items()):
        attributes = {a for member in members for a in member.columns if not types.is_time(a)}
        columns = {stored_name(a): types.of(a) for a in attributes}
        masks = {member.label: edge_mask(member.label) for member in members if member.label in filters}
        if len(masks) == len(members) == 1:
            masks = {}  # the only edge: its rows are all that is sent
        typed = [(ARRIVAL, SPECIAL), (EVENT_TIME, SPECIAL), *sorted(columns.items()), *((mask, "boolean") for mask in masks.values())]
        yield Channel(
            name=f"{stream}:{at}",
            edges=tuple(member.label for member in members),
            address=members[0].address,
            stays=False,
            round=members[0].round,
            columns=tuple(TypedColumn(*column) for column in typed),
            masks=masks,
            backfill=backfill,
        )


def step_channels(topology: Topology, types: AttributeTypes, outgoing: Outgoing) -> Iterator[Channel]:
    """The channels on which the results of a step leave their worker."""
    groups: dict[tuple[object, ...], list[Edge]] = {}
    for edge in outgoing.edges:
        groups.setdefault((edge.stays, *_destination(edge.address, raw=False), edge.position.round), []).append(edge)
    special = [ARRIVAL, *((EARLIEST,) if topology.starts else ())]
    special += (LATEST, DEADLINE, *map(part_event_time, outgoing.part_times)) if topology.timed else ()
    for members in groups.values():
        attributes = sorted({a for edge in members for a in edge.columns})
        first = members[0]
        yield Channel(
            name=first.label,
            edges=tuple(edge.label for edge in members),
            address=first.address,
            stays=first.stays,
            round=first.position.round,
            columns=(*(TypedColumn(name, SPECIAL) for name in special), *(TypedColumn(str(a), types.of(a)) for a in attributes)),
            masks={},
        )


def _add(groups: Groups, edge: Edge, shared_by: tuple[str | None, BackfillSource | None]) -> None:
    key = () if edge.address.attribute is None else (edge.address.attribute,)
    leaving = _Leaving(edge.label, edge.address, edge.position.round, (*edge.columns, *key))
    groups.setdefault((shared_by, *_destination(edge.address, raw=True), leaving.round), []).append(leaving)


def _backfill_source(topology: Topology, origin: Origin) -> BackfillSource | None:
    if origin.backfills is None:
        return None
    scanned = next(s.id for s in topology.stores if s.stream == origin.relation.stream and s.owner == origin.owner)
    return BackfillSource(origin.backfills, scanned, origin.since)


def _send_along(groups: Groups) -> None:
    """Tuples that any worker may take go along with a block that leaves in one copy in the same round anyway."""
    for key in [key for key in groups if key[1] == "any"]:
        other = next((k for k in groups if k != key and k[0] == key[0] and k[1] in ("key", "home", "one") and k[-1] == key[-1]), None)
        if other is not None:
            groups[other] += groups.pop(key)


def _destination(address: Address, raw: bool) -> tuple[object, ...]:
    """Equal for addresses that lead every tuple to the same workers. NULL keys match nothing wherever they go, so `key` and `home` are
    one where no key is hot. A raw tuple has no role yet: the same column of any relation of its stream is the same key."""
    if address.attribute is None:
        return (address.kind,)
    name = stored_name(address.attribute) if raw else str(address.attribute)
    if not address.hot:
        return "key", name
    return "holders" if address.kind == "key" else "home", name, address.hot
