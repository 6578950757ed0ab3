"""Which attributes surely hold the same value: those of one class whose types compare without rounding.

Only such attributes may stand for each other when a tuple is addressed; `int = double` joins, but hashes apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clash.model.query import EqualityClass, SubJoin
from clash.model.relation import Attribute
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, exact

Streams = Mapping[str, Stream]


def is_exact(equal: Iterable[Attribute], streams: Streams) -> bool:
    """Does `=` between any two of them compare without rounding?"""
    kinds = sorted({_type(attribute, streams) for attribute in equal})
    return all(exact(a, b) for i, a in enumerate(kinds) for b in kinds[i + 1 :])


def same_values(attribute: Attribute, join: SubJoin, streams: Streams) -> frozenset[Attribute]:
    """The attributes that rows of `join` have in common with `attribute`, itself included."""
    found = {attribute}
    for equal in join.classes:
        if attribute in equal and is_exact(equal, streams):
            found |= equal
    return frozenset(found)


def linking(join: SubJoin, bound: SubJoin, adds: SubJoin) -> list[tuple[Attribute, Attribute, EqualityClass]]:
    """Per class of `join` between `bound` and `adds`: its smallest member on either side, in a fixed order."""
    found = []
    for equal in join.classes:
        inside = [a for a in equal if a.relation in bound.relations]
        added = [a for a in equal if a.relation in adds.relations]
        if inside and added:
            found.append((min(inside), min(added), equal))
    return sorted(found, key=lambda link: (link[1], link[0]))


def _type(attribute: Attribute, streams: Streams) -> str:
    stream = streams.get(attribute.relation.stream)
    return (stream.type_of(attribute.column) if stream is not None else None) or UNKNOWN
