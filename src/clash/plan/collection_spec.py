"""Which statistics are collected of the streams: a pure function of the queries.

Columns that some query compares, directly or by way of others, form one *domain*: their keys are hashed alike, as words of one type that
all of them are converted to. (Statistics may round where a join must not.) Predicates belong to streams: equal predicates of several
aliases of a stream are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from clash.model.coercion import common
from clash.model.expressions import Call, Col, Expr, relations
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, exact, family

MAX_PREDICATES = 16  # per stream: a sampled row records one bit for each, in 16 bits

Column = tuple[str, str]
"""A stream, and a column of it."""


@dataclass(frozen=True, slots=True)
class Key:
    """A joined column."""

    column: str
    type: str
    """The type that all keys of the domain are converted to."""
    domain: str
    """The smallest `stream.column` of the domain."""

    def __str__(self) -> str:
        return f"{self.column} {self.type}"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """What is collected of one stream."""

    keys: tuple[Key, ...] = ()
    """The joined columns whose types are known and comparable."""
    predicates: tuple[Expr, ...] = ()
    """Predicates on single tuples, over relation 0 of the stream, whose selectivity is estimated."""


@dataclass(frozen=True)
class CollectionSpec:
    """What is collected for a set of queries."""

    streams: Mapping[str, StreamSpec] = field(default_factory=dict)
    """By stream; a stream that no query joins or filters is missing."""
    links: tuple[tuple[Column, Column], ...] = ()
    """Columns that some query compares, as ordered pairs."""

    def key(self, stream: str, column: str) -> Key | None:
        """The joined column of that name; None where it has no key statistics."""
        return next((key for key in self.streams.get(stream, StreamSpec()).keys if key.column == column), None)


def build_collection_spec(queries: Iterable[Query], streams: Mapping[str, Stream]) -> CollectionSpec:
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
                    predicate = equality_in_tuple(relation.stream, first, other, streams)
                    predicates.setdefault(relation.stream, {})[str(predicate)] = predicate
        for filter_ in query.join.filters:
            if len(read := relations(filter_)) == 1:
                predicate = without_alias(filter_)
                predicates.setdefault(next(iter(read)).stream, {})[str(predicate)] = predicate
    keys: dict[str, list[Key]] = {}
    for domain in _domains(links):
        kind = _domain_type([_column_type(streams, column) for column in domain])
        for stream, column in domain:
            if kind is not None:
                keys.setdefault(stream, []).append(Key(column, kind, ".".join(domain[0])))
    specs = {
        name: StreamSpec(
            tuple(sorted(keys.get(name, []), key=str)), tuple(e for _, e in sorted(predicates.get(name, {}).items())[:MAX_PREDICATES])
        )
        for name in sorted({*keys, *predicates})
    }
    return CollectionSpec(specs, tuple(sorted(links)))


def without_alias(expr: Expr) -> Expr:
    """An expression over one alias, as one over tuples of its stream, which have no role yet: relation 0 of the stream."""
    if isinstance(expr, Col):
        return Col(Relation(expr.relation.stream), expr.column, expr.type)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(without_alias(arg) for arg in expr.args), expr.type)
    return expr


def equality_in_tuple(stream: str, left: str, right: str, streams: Mapping[str, Stream]) -> Expr:
    """The predicate `left = right` on two columns of one tuple."""
    sides = tuple(Col(Relation(stream), column, _column_type(streams, (stream, column))) for column in sorted((left, right)))
    return Call("=", sides, "boolean")


def _domains(links: Iterable[tuple[Column, Column]]) -> list[list[Column]]:
    """The connected components of the compared columns."""
    members: dict[Column, set[Column]] = {}
    for left, right in links:
        both = members.get(left, {left}) | members.get(right, {right})
        members.update(dict.fromkeys(both, both))
    return sorted(sorted(group) for group in {id(group): group for group in members.values()}.values())


def _column_type(streams: Mapping[str, Stream], column: Column) -> str:
    return (streams[column[0]].type_of(column[1]) if column[0] in streams else None) or UNKNOWN


def _domain_type(kinds: list[str]) -> str | None:
    """The type that all keys of a domain are converted to; None where a type is unknown or the types have none in common."""
    if UNKNOWN in kinds:
        return None
    if all(exact(kinds[0], kind) for kind in kinds):
        return {"integer": "bigint", "floating": "double"}.get(family(kinds[0]), kinds[0])
    shared: str | None = kinds[0]
    for kind in kinds[1:]:
        shared = None if shared is None else common(shared, kind)
    return shared
