"""Which attributes hold equal values in every row of a sub-join, and which equalities link two sub-joins.

Invariant: attributes may replace each other in an address only if they belong to one equality class and their types compare without
rounding. `int = double` joins two columns, but their values hash differently, so rows that match may be on different workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from clash.model.query import EqualityClass, SubJoin
from clash.model.relation import Attribute
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, exact

Streams = Mapping[str, Stream]


class Link(NamedTuple):
    """An equality class that links what has been joined with what a step adds."""

    bound: Attribute
    """The smallest member that has been joined already."""
    added: Attribute
    """The smallest member that the step adds."""
    equal: EqualityClass


def is_exact(equal: Iterable[Attribute], streams: Streams) -> bool:
    """Whether `=` between any two of the attributes compares without rounding."""
    kinds = sorted({_type(attribute, streams) for attribute in equal})
    return all(exact(a, b) for i, a in enumerate(kinds) for b in kinds[i + 1 :])


def equal_attributes(attribute: Attribute, join: SubJoin, streams: Streams) -> frozenset[Attribute]:
    """The attributes that have the same value as `attribute` in every row of `join`, itself included."""
    attributes = {attribute}
    for equal in join.classes:
        if attribute in equal and is_exact(equal, streams):
            attributes |= equal
    return frozenset(attributes)


def links_between(join: SubJoin, bound: SubJoin, adds: SubJoin) -> list[Link]:
    """The classes of `join` with members in both `bound` and `adds`, in a fixed order."""
    links = []
    for equal in join.classes:
        bound_members = [a for a in equal if a.relation in bound.relations]
        added_members = [a for a in equal if a.relation in adds.relations]
        if bound_members and added_members:
            links.append(Link(min(bound_members), min(added_members), equal))
    return sorted(links, key=lambda link: (link.added, link.bound))


def _type(attribute: Attribute, streams: Streams) -> str:
    stream = streams.get(attribute.relation.stream)
    return (stream.type_of(attribute.column) if stream is not None else None) or UNKNOWN
