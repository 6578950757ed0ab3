"""What is collected of the streams: a pure function of the queries.

Columns that some query compares, directly or through others, form one *domain*: their keys are hashed alike, as words of one type that all
of them can be converted to. (Statistics may round where a join must not.) Predicates belong to streams, so predicates of several aliases
of a stream that say the same are one.
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

MAX_PREDICATES = 16  # of a stream: a sampled row has as many bits

Column = tuple[str, str]  # stream, column


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
    predicates: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class CollectionSpec:
    """What is collected for a set of queries."""

    streams: Mapping[str, StreamSpec] = field(default_factory=dict)
    links: tuple[tuple[Column, Column], ...] = ()
    """Columns that some query compares, as ordered pairs."""

    def key(self, stream: str, column: str) -> Key | None:
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
    """A predicate on one alias as one on its stream."""
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
    """The type that all are converted to; None where a type is unknown or there is no common one."""
    if UNKNOWN in kinds:
        return None
    if all(exact(kinds[0], kind) for kind in kinds):
        return {"integer": "bigint", "floating": "double"}.get(family(kinds[0]), kinds[0])
    shared: str | None = kinds[0]
    for kind in kinds[1:]:
        shared = None if shared is None else common(shared, kind)
    return shared
