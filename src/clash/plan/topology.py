"""The topology as plain frozen data, complete in itself: a worker needs nothing else to know what a message means.

Invariant: every tuple travels on an edge with a label of its own, and (store, label) names exactly one rule. A probe rule
stands for a node of a probe tree: the orders of one origin that agree so far on stores, layouts and sub-joins are one
path of rules. Everything is a tuple in a fixed order, so equal plans give equal topologies, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from clash.model.expressions import Expr
from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream

SourceKind = Literal["stream", "origin", "edge"]
AddressKind = Literal["key", "home", "all", "one", "any"]


class Position(NamedTuple):
    """When something happens inside a batch: rounds are separated by shuffles; in a phase all stores fill before any probe."""

    round: int
    phase: int

    def __str__(self) -> str:
        return f"{self.round}.{self.phase}"


FIRST = Position(1, 0)


class Bounds(NamedTuple):
    """Which stored rows a step may meet: those that arrived at `since` or later, and before `before`."""

    since: int = 0
    before: int | None = None


UNBOUNDED = Bounds()


class Source(NamedTuple):
    """Where an edge starts: raw tuples of a stream, an origin's label, or the probe rule that another edge leads to."""

    kind: SourceKind
    name: str


class Address(NamedTuple):
    """Which workers a tuple goes to.

    `key`: the hash of its own `attribute`; NULL goes nowhere. `home`: likewise, but NULL goes to slot 0, because the
    target can be anywhere (a row into its store; a tuple into a replicated store beside its own copy). `all`: every
    worker, as the layout's key is unknown, or as the store is replicated and being filled. `one`: the worker that has
    all of the store, the same for all such stores. `any`: one worker, no matter which (by arrival; the one where it is).
    """

    kind: AddressKind
    attribute: Attribute | None = None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A row is worth keeping if all `filters` are true of it and no column of `keys` is NULL. Columns belong to relation 0."""

    filters: tuple[Expr, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """A stream's tuples or a MIR's rows, kept once per layout.

    `columns` of a base store belong to relation 0 of its stream and leave the time column out: every stored tuple has its
    τ. `keeps`: rows that pass none of them need not be stored (a MIR's rows all pass). `access`: the column sets by which
    probes look rows up; the empty one means a scan. `horizons`: a row is needed by nobody once min over its parts k of
    τ_k + horizon_k lies below the watermark of every stream; None: never. `fill`: from then on it has this batch's rows.
    """

    id: str
    stream: str | None
    join: SubJoin | None
    owner: str | None
    layouts: tuple[Layout, ...]
    columns: tuple[Attribute, ...]
    keeps: tuple[RowFilter, ...]
    access: tuple[tuple[Attribute, ...], ...]
    horizons: tuple[tuple[Relation, int | None], ...]
    fill: Position

    @property
    def horizon(self) -> int | None:
        """Microseconds after its earliest part for which a row may be needed; None where nothing bounds it."""
        spans = [span for _, span in self.horizons if span is not None]
        return max(spans) if len(spans) == len(self.horizons) else None


@dataclass(frozen=True, slots=True)
class Origin:
    """The root of a probe tree: tuples of `relation` that pass the filters, and the equalities inside the tuple, of `start`. With `replay`
    they are stored ones, that arrived at `since` or later, and what they find goes into that store."""

    label: str
    relation: Relation
    start: SubJoin
    owner: str | None
    out: tuple[str, ...]
    emits: tuple[str, ...]
    replay: str | None = None
    since: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """What travels where. `carries` is None for raw tuples on their way into their stream's store.

    `stays`: the tuples are on the right worker already, or (from an origin) go where their own store's copy goes anyway.
    `columns` are what must travel beside arrivals, latest and deadline; a time column is listed where its value is used.
    """

    label: str
    source: Source
    store: str
    layout: Layout
    carries: SubJoin | None
    address: Address
    stays: bool
    columns: tuple[Attribute, ...]
    position: Position


class Key(NamedTuple):
    """`bound = stored`, by Spark's `=`; not `exact`: between types whose comparison rounds, as bigint and double."""

    bound: Attribute
    stored: Attribute
    exact: bool


@dataclass(frozen=True, slots=True)
class StoreRule:
    """What arrives on `edge` is added to the store."""

    store: str
    edge: str
    position: Position


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """What arrives on `edge` looks up `keys` in the store and goes on as `bound`.

    A match must also lie before the probing tuple's (arrival, number), be in the windows (latest ≤ deadline), and pass
    `filters` (of what is added), `equal` (columns of one added relation) and `residuals` (checkable from here on). It must have arrived at
    `since` or later, and before `before`: other branches have the rest.
    """

    store: str
    edge: str
    origin: Relation
    adds: SubJoin
    bound: SubJoin
    keys: tuple[Key, ...]
    filters: tuple[Expr, ...]
    equal: tuple[tuple[Attribute, ...], ...]
    residuals: tuple[Expr, ...]
    out: tuple[str, ...]
    feeds: tuple[str, ...]
    emits: tuple[str, ...]
    position: Position
    since: int = 0
    before: int | None = None


Rule = StoreRule | ProbeRule


@dataclass(frozen=True)
class Topology:
    """`origins`, then `edges` and `rules` in order of their labels: a parent before its children. `starts`: queries that want no
    tuple that arrived before."""

    workers: int
    rounds: int
    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    stores: tuple[Store, ...]
    origins: tuple[Origin, ...]
    edges: tuple[Edge, ...]
    rules: tuple[Rule, ...]
    starts: tuple[tuple[str, int], ...] = ()

    @cached_property
    def store(self) -> Mapping[str, Store]:
        return {store.id: store for store in self.stores}

    @cached_property
    def edge(self) -> Mapping[str, Edge]:
        return {edge.label: edge for edge in self.edges}

    @cached_property
    def rule(self) -> Mapping[tuple[str, str], Rule]:
        """The ruleset, as the paper has it: by store and incoming edge."""
        return {(rule.store, rule.edge): rule for rule in self.rules}

    @cached_property
    def ingest(self) -> Mapping[str, tuple[Edge, ...]]:
        """By stream: the edges on which its raw tuples go into stores."""
        return {s.name: tuple(e for e in self.edges if e.source == Source("stream", s.name)) for s in self.streams}

    @cached_property
    def timed(self) -> bool:
        """Does some window or time band bound something? Tuples then carry event times."""
        bounded = any(window is not None for query in self.queries for _, window in query.join.windows)
        return bounded or any(span is not None for store in self.stores for _, span in store.horizons)

    def roots(self, stream: str) -> tuple[Origin, ...]:
        """By stream: the probe trees that its tuples start."""
        return tuple(origin for origin in self.origins if origin.relation.stream == stream)
