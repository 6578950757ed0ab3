"""A topology, compiled once per process: what every task looks up while it works."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import pyarrow as pa

from clash.errors import OptionError, StateError
from clash.expressions.arrow_types import arrow_type
from clash.model.expressions import Call, Col, Expr, columns
from clash.model.layout import Layout
from clash.model.query import Query
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.model.types import exact, family
from clash.model.coercion import common
from clash.state.storage import open_storage
from clash.statistics import Wanted, collection_spec
from clash.topology import Topology, from_json
from clash.plan.topology import Origin, ProbeRule, RowFilter, Store, StoreRule
from clash.columnar.block import ARRIVAL, DEADLINE, EARLIEST, FOREVER, LATEST, TAU, part_tau
from clash.workers.channels import Channel, of_rule, of_stream

_SPECIAL = pa.int64()


@dataclass(frozen=True)
class Key:
    """One column of a lookup, and the type in which both sides are compared."""

    bound: Attribute
    stored: Attribute
    type: str


@dataclass(frozen=True)
class Copy:
    """A store under one of its layouts: what a container of it holds. `paths`: index name → the columns indexed, with types."""

    store: Store
    number: int
    layout: Layout
    schema: pa.Schema
    paths: Mapping[str, tuple[tuple[Attribute, str], ...]]


@dataclass(frozen=True)
class Step:
    """A probe rule with everything looked up. `checks`: what must be true of the stored tuple alone. `left` and `right` are the
    attributes that its results carry on. `spread`: every worker asks, and each answers for the rows that are its own."""

    rule: ProbeRule
    copy: Copy
    keys: tuple[Key, ...]
    path: str | None
    number: int
    window: int
    checks: tuple[Expr, ...]
    left: tuple[str, ...]
    right: tuple[Attribute, ...]
    taus: tuple[Relation, ...]
    local: tuple[str, ...]
    channels: tuple[Channel, ...]
    spread: bool


class Program:
    """`timed`: some window or time band bounds something, so tuples carry their event times. `starts`: queries without history, and the
    first arrival that they want; where there are any, tuples carry the arrival of their earliest part."""

    def __init__(self, topology: Topology, timezone: str) -> None:
        self.topology, self.timezone = topology, timezone
        self.streams: Mapping[str, Stream] = {stream.name: stream for stream in topology.streams}
        self.starts: Mapping[str, int] = dict(topology.starts)
        self.queries: Mapping[str, Query] = {query.name: query for query in topology.queries}
        self.timed = topology.timed

    # ---- types -------------------------------------------------------------------------------------------------

    def type_of(self, attribute: Attribute) -> str:
        kind = self.streams[attribute.relation.stream].type_of(attribute.column)
        if kind is None:
            raise AssertionError(f"{attribute} has no type")
        return kind

    def is_time(self, attribute: Attribute) -> bool:
        return self.streams[attribute.relation.stream].time == attribute.column

    def field(self, attribute: Attribute) -> pa.Field:
        return pa.field(str(attribute), arrow_type(self.type_of(attribute)))

    def result_schema(self, query: str) -> pa.Schema:
        return self._result_schemas[query]

    @cached_property
    def _result_schemas(self) -> Mapping[str, pa.Schema]:
        return {name: result_schema(query) for name, query in self.queries.items()}

    # ---- ingest ------------------------------------------------------------------------------------------------

    def ingest_columns(self, stream: str) -> tuple[str, ...]:
        """What must be read of a stream: what is stored, sent, looked at or told in its results."""
        declared = self.streams.get(stream)
        if declared is None:
            return ()
        names = {declared.time} if declared.time is not None else set()
        for channel in self.stream_channels[stream]:
            names |= {name.removeprefix(f"{stream}.") for name in channel.schema.names if name.startswith(f"{stream}.")}
            for label in channel.edges:
                names |= {column.column for condition in self.conditions(label) for column in columns(condition)}
                names |= {key for choice in self.keeps(label) for key in choice.keys}
        # rows of which nothing is read are rows all the same: a CROSS JOIN counts them, and a block without columns has none
        return tuple(name for name, _ in declared.columns if name in names) or (declared.columns[0][0],)

    def late_schema(self, stream: str) -> pa.Schema:
        """Late rows are kept with the columns that are read."""
        return pa.schema([(name, arrow_type(str(self.streams[stream].type_of(name)))) for name in self.ingest_columns(stream)])

    @cached_property
    def stream_channels(self) -> Mapping[str, tuple[Channel, ...]]:
        return {name: tuple(of_stream(self, name)) for name in self.streams}

    def conditions(self, label: str) -> tuple[Expr, ...]:
        """What must be true of a tuple that leaves on the edge (or that is an answer by itself)."""
        origin = self._origins.get(label)
        return () if origin is None else (*sorted(origin.start.filters, key=str), *self._equalities(origin.start.classes))

    def _equalities(self, classes: Iterable[Iterable[Attribute]]) -> tuple[Expr, ...]:
        """Classes inside one tuple, as expressions."""
        found: list[Expr] = []
        for first, *others in sorted(sorted(equal) for equal in classes):
            found += [Call("=", (self._col(first), self._col(other)), "boolean") for other in others]
        return tuple(found)

    def _col(self, attribute: Attribute) -> Col:
        return Col(attribute.relation, attribute.column, self.type_of(attribute))

    def keeps(self, label: str) -> tuple[RowFilter, ...]:
        """The row filters of the store that a raw tuple is on its way to; empty if it keeps all."""
        edge = self.topology.edge.get(label)
        if edge is None or edge.carries is not None:
            return ()
        keeps = self.topology.store[edge.store].keeps
        return () if any(not keep.filters and not keep.keys for keep in keeps) else keeps

    @cached_property
    def _origins(self) -> Mapping[str, Origin]:
        found = {origin.label: origin for origin in self.topology.origins}
        return found | {label: origin for origin in self.topology.origins for label in origin.out}

    def origin_of(self, label: str) -> Origin:
        return self._origins[label]

    def outputs_of(self, queries: Iterable[str]) -> tuple[Attribute, ...]:
        found = {Attribute(c.relation, c.column) for q in queries for o in self.queries[q].outputs for c in columns(o.expression)}
        return tuple(sorted(found))

    @cached_property
    def collection_spec(self) -> Wanted:
        """What is gathered of the streams for the planner."""
        return collection_spec(self.topology.queries, self.streams)

    # ---- stores ------------------------------------------------------------------------------------------------

    @cached_property
    def copies(self) -> Mapping[tuple[str, Layout], Copy]:
        return {
            (store.id, layout): self._copy(store, at, layout) for store in self.topology.stores for at, layout in enumerate(store.layouts)
        }

    def _copy(self, store: Store, number: int, layout: Layout) -> Copy:
        fields = [pa.field(ARRIVAL, _SPECIAL)]
        if store.join is None:
            fields.append(pa.field(TAU, _SPECIAL))
        elif self.timed:
            fields += [pa.field(name, _SPECIAL) for name in (LATEST, DEADLINE, *map(part_tau, sorted(store.join.relations)))]
        if store.join is not None and self.starts:
            fields.append(pa.field(EARLIEST, _SPECIAL))
        fields += [self.field(attribute) for attribute in store.columns]
        paths: dict[str, tuple[tuple[Attribute, str], ...]] = {}
        for rule in self.topology.rules:
            if isinstance(rule, ProbeRule) and rule.store == store.id and self.topology.edge[rule.edge].layout == layout and rule.keys:
                path = tuple(sorted((self._as_stored(store, key.stored), key.type) for key in self._keys(rule)))
                paths[_path_name(path)] = path
        return Copy(store, number, layout, pa.schema(fields), paths)

    def _as_stored(self, store: Store, attribute: Attribute) -> Attribute:
        return attribute if store.join is not None else Attribute(Relation(str(store.stream)), attribute.column)

    def store_rule(self, label: str) -> Copy:
        edge = self.topology.edge[label]
        return self.copies[edge.store, edge.layout]

    def is_store(self, label: str) -> bool:
        return label in self._store_edges

    @cached_property
    def _store_edges(self) -> frozenset[str]:
        return frozenset(rule.edge for rule in self.topology.rules if isinstance(rule, StoreRule))

    def serves(self, label: str) -> tuple[str, ...]:
        """The queries that hear of what travels on the edge, for messages to people."""
        edge = self.topology.edge.get(label)
        if edge is None:
            return self.origin_of(label).emits
        rule = self.topology.rule[edge.store, label]
        join = rule.bound if isinstance(rule, ProbeRule) else self.topology.store[edge.store].join
        if join is None:
            return tuple(q.name for q in self.topology.queries if any(r.stream == edge.source.name for r in q.join.relations))
        return tuple(query.name for query in self.topology.queries if query.contains(join))

    # ---- steps -------------------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        return {rule.edge: self._step(rule) for rule in self.topology.rules if isinstance(rule, ProbeRule)}

    def _keys(self, rule: ProbeRule) -> list[Key]:
        return [Key(key.bound, key.stored, self._compared(key.bound, key.stored)) for key in rule.keys]

    def _compared(self, a: Attribute, b: Attribute) -> str:
        one, other = self.type_of(a), self.type_of(b)
        if exact(one, other):
            return {"integer": "bigint", "floating": "double"}.get(family(one), one)
        kind = common(one, other)
        if kind is None:
            raise AssertionError(f"{a} and {b} cannot be compared")
        return kind

    def _step(self, rule: ProbeRule) -> Step:
        edge = self.topology.edge[rule.edge]
        copy = self.copies[rule.store, edge.layout]
        keys = sorted(self._keys(rule), key=lambda key: (self._as_stored(copy.store, key.stored), key.type))
        path = tuple((self._as_stored(copy.store, key.stored), key.type) for key in keys)
        base = copy.store.join is None
        outgoing = [self.topology.edge[label] for label in (*rule.out, *rule.feeds)]
        local = tuple(e.label for e in outgoing if e.stays and e.position.round == rule.position.round)
        carried = {a for e in outgoing for a in e.columns} | set(self.outputs_of(rule.emits))
        relation = min(rule.adds.relations)
        window = dict(rule.adds.windows)[relation] if base else 0
        return Step(
            rule,
            copy,
            tuple(keys),
            _path_name(path) if path else None,
            relation.number if base else 0,
            FOREVER if window is None else window,
            (*rule.filters, *self._equalities(rule.equal)),
            tuple(sorted(str(a) for a in carried if a.relation not in rule.adds.relations)),
            tuple(sorted(a for a in carried if a.relation in rule.adds.relations)),
            self.taus(rule),
            local,
            tuple(of_rule(self, rule, [e for e in outgoing if e.label not in local])),
            edge.address.kind == "all" and edge.layout.kind == "hash",
        )

    def taus(self, rule: ProbeRule) -> tuple[Relation, ...]:
        """Whose event time results carry along: that of parts of intermediate results that are yet to be stored."""
        if not self.timed:
            return ()
        found: set[Relation] = set()
        for label in rule.feeds:
            store = self.topology.store[self.topology.edge[label].store]
            found |= store.join.relations if store.join is not None else frozenset()
        for label in rule.out:
            child = self.topology.rule[self.topology.edge[label].store, label]
            if isinstance(child, ProbeRule):
                found |= set(self.taus(child))
        return tuple(sorted(found & rule.bound.relations))

    @cached_property
    def channels(self) -> Mapping[str, Channel]:
        """Every channel that a task may receive on, by name."""
        found = {channel.name: channel for channels in self.stream_channels.values() for channel in channels}
        return found | {channel.name: channel for step in self.steps.values() for channel in step.channels}


def result_schema(query: Query) -> pa.Schema:
    return pa.schema([pa.field(o.name, arrow_type(o.expression.type)) for o in query.outputs])


def _path_name(path: tuple[tuple[Attribute, str], ...]) -> str:
    return ", ".join(f"{attribute} {kind}" for attribute, kind in path)


@lru_cache(maxsize=16)
def load_program(uri: str, plan: str, timezone: str) -> Program:
    """The program of a plan file, which is called after its content."""
    storage = open_storage(uri)
    try:
        topology = from_json(bytes(storage.read(plan)).decode())
    except (OptionError, UnicodeDecodeError) as error:
        reason = error.detail if isinstance(error, OptionError) else str(error)
        hint = "restore that file from a copy, or start with an empty checkpoint"
        raise StateError("a plan is corrupt", f"{storage.label(plan)}: {reason}", hint) from error
    return Program(topology, timezone)
