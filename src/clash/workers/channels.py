"""Edges that leave with the same tuples for the same workers in the same round are one channel, and share one block.

The block has the union of their columns; where they want different rows of it, a boolean column per edge says which. Queries that
have stores of their own (`independent`) never share a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from clash.expressions.arrow_types import arrow_type
from clash.model.relation import Attribute
from clash.plan.topology import Address, Edge, ProbeRule
from clash.columnar.block import ARRIVAL, DEADLINE, EARLIEST, LATEST, TAU, part_tau, stored_name

if TYPE_CHECKING:
    from clash.workers.program import Program

_SPECIAL = pa.int64()
Groups = dict[tuple[Any, ...], list["_Leaving"]]


@dataclass(frozen=True)
class Channel:
    """`edges` are the labels served; `masks` the column that says which rows an edge wants, where it does not want all. `replay`: it is
    for stored tuples, that are probed once more to fill this store."""

    name: str
    edges: tuple[str, ...]
    address: Address
    stays: bool
    round: int
    schema: pa.Schema
    masks: Mapping[str, str]
    replay: str | None = None


class _Leaving(NamedTuple):
    """What leaves a stream: on an edge, or as an answer by itself, which any worker may write down."""

    label: str
    address: Address
    round: int
    columns: tuple[Attribute, ...]


def of_stream(program: Program, stream: str) -> Iterator[Channel]:
    """The channels on which raw tuples leave ingest."""
    groups: Groups = {}

    def add(edge: Edge, owner: str | None, replay: str | None = None, since: int = 0) -> None:
        key = () if edge.address.attribute is None else (edge.address.attribute,)
        leaving = _Leaving(edge.label, edge.address, edge.position.round, (*edge.columns, *key))
        groups.setdefault(((owner, replay, since), *_place(edge.address, raw=True), leaving.round), []).append(leaving)

    for edge in program.topology.ingest[stream]:
        add(edge, program.topology.store[edge.store].owner)
    for origin in program.topology.roots(stream):
        for label in origin.out:
            add(program.topology.edge[label], origin.owner, origin.replay, origin.since)
        if origin.emits:
            answer = _Leaving(origin.label, Address("any"), 1, program.outputs_of(origin.emits))
            groups.setdefault(((origin.owner, None, 0), "any", 1), []).append(answer)
    _join_anywhere(groups)
    for at, (((_, replay, _), *_), members) in enumerate(groups.items()):
        wanted = {a for leaving in members for a in leaving.columns if not program.is_time(a)}
        names = {stored_name(a): arrow_type(program.type_of(a)) for a in wanted}
        masks = {m.label: f"#for {m.label}" for m in members if program.conditions(m.label) or program.keeps(m.label)}
        if len(masks) == len(members) == 1:
            masks = {}  # the only edge: its rows are all that is sent
        fields = [(ARRIVAL, _SPECIAL), (TAU, _SPECIAL), *sorted(names.items()), *((mask, pa.bool_()) for mask in masks.values())]
        first, labels = members[0], tuple(leaving.label for leaving in members)
        yield Channel(f"{stream}:{at}", labels, first.address, False, first.round, pa.schema(fields), masks, replay)


def of_rule(program: Program, rule: ProbeRule, edges: Sequence[Edge]) -> Iterator[Channel]:
    """The channels on which the results of a step leave their worker."""
    groups: dict[tuple[object, ...], list[Edge]] = {}
    for edge in edges:
        groups.setdefault((edge.stays, *_place(edge.address, raw=False), edge.position.round), []).append(edge)
    specials = [ARRIVAL, *((EARLIEST,) if program.starts else ())]
    specials += (LATEST, DEADLINE, *map(part_tau, program.taus(rule))) if program.timed else ()
    for members in groups.values():
        names = sorted({a for edge in members for a in edge.columns})
        schema = pa.schema([pa.field(name, _SPECIAL) for name in specials] + [program.field(a) for a in names])
        first, labels = members[0], tuple(edge.label for edge in members)
        yield Channel(first.label, labels, first.address, first.stays, first.position.round, schema, {})


def _join_anywhere(groups: Groups) -> None:
    """Tuples that may go anywhere go along with a block that leaves anyway, in one copy, in the same round."""
    for key in [key for key in groups if key[1] == "any"]:
        other = next((k for k in groups if k != key and k[0] == key[0] and k[1] in ("key", "one") and k[-1] == key[-1]), None)
        if other is not None:
            groups[other] += groups.pop(key)


def _place(address: Address, raw: bool) -> tuple[object, ...]:
    """Addresses that lead every tuple to the same workers. NULL keys match nothing wherever they go, so `key` and `home` are one.
    A raw tuple has no role yet: the same column of any relation of its stream is the same key."""
    if address.attribute is not None:
        return "key", stored_name(address.attribute) if raw else str(address.attribute)
    return (address.kind,)
