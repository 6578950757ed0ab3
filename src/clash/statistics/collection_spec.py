"""What is gathered of the streams: a pure function of the queries.

Attributes that some query compares, directly or through others, are one *domain*: their keys are hashed alike, as words of one type
that all of them can be brought to. (Statistics may round where a join must not.) Predicates are of streams, so those of all aliases of
a stream that say the same are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from clash.model.expressions import Call, Col, Expr, relations
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, exact, family
from clash.model.coercion import common

MOST_PREDICATES = 16  # of a stream: so many bits has a sampled row

Column = tuple[str, str]  # stream, column


@dataclass(frozen=True, slots=True)
class Key:
    """A joined column. `domain` is the smallest `stream.column` that it is compared with."""

    column: str
    type: str
    domain: str

    def __str__(self) -> str:
        return f"{self.column} {self.type}"


@dataclass(frozen=True, slots=True)
class OfStream:
    keys: tuple[Key, ...] = ()
    predicates: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """`links`: columns that some query compares, as pairs in order. `hints`: thresholds and shares at which samples of earlier tasks of
    this process came out, so that the next ones need not find them out; they change how long it takes, and nothing else."""

    streams: Mapping[str, OfStream] = field(default_factory=dict)
    links: tuple[tuple[Column, Column], ...] = ()
    hints: dict[str, float] = field(default_factory=dict, compare=False, repr=False)

    def key(self, stream: str, column: str) -> Key | None:
        return next((key for key in self.streams.get(stream, OfStream()).keys if key.column == column), None)


def wanted(queries: Iterable[Query], streams: Mapping[str, Stream]) -> Wanted:
    """The joined columns and the predicates on single tuples of all queries."""
    links: set[tuple[Column, Column]] = set()
    predicates: dict[str, dict[str, Expr]] = {}
    for query in queries:
        for equal in query.join.classes:
            members = sorted({(a.relation.stream, a.column) for a in equal})
            links |= {(a, b) for i, a in enumerate(members) for b in members[i:] if a != b or len(equal) > len(members)}
            for relation in {a.relation for a in equal}:
                first, *others = sorted(a.column for a in equal if a.relation == relation)
                for other in others:
                    found = same_tuple(relation.stream, first, other, streams)
                    predicates.setdefault(relation.stream, {})[str(found)] = found
        for filter_ in query.join.filters:
            if len(of := relations(filter_)) == 1:
                found = as_stream(filter_)
                predicates.setdefault(next(iter(of)).stream, {})[str(found)] = found
    keys: dict[str, list[Key]] = {}
    for group in _domains(links):
        kind = _type([_type_of(streams, column) for column in group])
        for stream, column in group:
            if kind is not None:
                keys.setdefault(stream, []).append(Key(column, kind, ".".join(group[0])))
    found_streams = {
        name: OfStream(
            tuple(sorted(keys.get(name, []), key=str)), tuple(e for _, e in sorted(predicates.get(name, {}).items())[:MOST_PREDICATES])
        )
        for name in sorted({*keys, *predicates})
    }
    return Wanted(found_streams, tuple(sorted(links)))


def as_stream(expr: Expr) -> Expr:
    """A predicate of one alias as one of its stream."""
    if isinstance(expr, Col):
        return Col(Relation(expr.relation.stream), expr.column, expr.type)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(as_stream(arg) for arg in expr.args), expr.type)
    return expr


def same_tuple(stream: str, left: str, right: str, streams: Mapping[str, Stream]) -> Expr:
    """`left = right` inside one tuple."""
    sides = tuple(Col(Relation(stream), column, _type_of(streams, (stream, column))) for column in sorted((left, right)))
    return Call("=", sides, "boolean")


def _domains(links: Iterable[tuple[Column, Column]]) -> list[list[Column]]:
    members: dict[Column, set[Column]] = {}
    for left, right in links:
        both = members.get(left, {left}) | members.get(right, {right})
        members.update(dict.fromkeys(both, both))
    return sorted(sorted(group) for group in {id(group): group for group in members.values()}.values())


def _type_of(streams: Mapping[str, Stream], column: Column) -> str:
    return (streams[column[0]].type_of(column[1]) if column[0] in streams else None) or UNKNOWN


def _type(kinds: list[str]) -> str | None:
    """The type that all are brought to; None where nobody knows one."""
    if UNKNOWN in kinds:
        return None
    if all(exact(kinds[0], kind) for kind in kinds):
        return {"integer": "bigint", "floating": "double"}.get(family(kinds[0]), kinds[0])
    found: str | None = kinds[0]
    for kind in kinds[1:]:
        found = None if found is None else common(found, kind)
    return found
