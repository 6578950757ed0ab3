"""The topology as frozen data, complete in itself: stores, edges and rules, as the paper has them.

Invariant: every tuple travels on an edge with a label of its own, and (store, label) names exactly one rule. A probe rule stands for a node
of a probe tree: the orders of one origin that agree so far on stores, layouts and sub-joins are one path of rules. Everything is a tuple in
a fixed order, so equal plans give equal topologies, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from clash.codec import LATER
from clash.model.expressions import Expr
from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream

SourceKind = Literal["stream", "origin", "edge"]
AddressKind = Literal["key", "home", "all", "one", "any"]


class Position(NamedTuple):
    """When something happens inside a batch."""

    round: int
    """Rounds are separated by shuffles."""
    phase: int
    """In a phase all stores are filled before any is probed."""

    def __str__(self) -> str:
        return f"{self.round}.{self.phase}"


FIRST = Position(1, 0)


class Bounds(NamedTuple):
    """Which stored rows a step may see, by arrival."""

    since: int = 0
    """Those that arrived here or later, …"""
    before: int | None = None
    """… and, where it is given, before here."""


UNBOUNDED = Bounds()


class EdgeSource(NamedTuple):
    """Where an edge starts: at the raw tuples of a stream, at an origin, or at the probe rule that another edge leads to."""

    kind: SourceKind
    name: str
    """The name of the stream, or the label of the origin or edge."""


class Address(NamedTuple):
    """Which workers a tuple is sent to.

    `key`: the hash of its own `attribute`; NULL goes nowhere. `home`: likewise, but NULL goes to slot 0, because the target can be anywhere
    (a row into its store; a tuple into a replicated store, together with its own copy). `all`: every worker, because the key of the layout
    is unknown, or because the store is replicated and being filled. `one`: the worker that has all of the store, the same for all such
    stores. `any`: one worker, no matter which (by arrival; the one where it is).

    Tuples of which the attribute has a `hot` hash go elsewhere: under `key` to every worker, because the rows that they look for are on all
    of them; under `home` to the worker that their arrival names.
    """

    kind: AddressKind
    attribute: Attribute | None = None
    hot: Annotated[tuple[int, ...], LATER] = ()


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A row is retained if all filters are true of it and none of the keys is NULL. Columns belong to relation 0 of the stream."""

    filters: tuple[Expr, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """The tuples of a stream, the rows of a table or the rows of an intermediate result, kept once per layout."""

    id: str
    stream: str | None
    """The stream or table of a base store; None for an intermediate store."""
    join: SubJoin | None
    """The sub-join of an intermediate store; None for a base store."""
    owner: str | None
    """The only query that uses it, under the strategy `independent`."""
    layouts: tuple[Layout, ...]
    columns: tuple[Attribute, ...]
    """Those of a base store belong to relation 0 of its stream. The time column is left out: every stored tuple has its event time."""
    row_filters: tuple[RowFilter, ...]
    """Rows that none of the filters retains are not stored. All rows of an intermediate result are."""
    access: tuple[tuple[Attribute, ...], ...]
    """The sets of columns by which probes look rows up; the empty one stands for a scan."""
    horizons: tuple[tuple[Relation, int | None], ...]
    """Per part k, a span in microseconds: no query needs a row once min over k of event time + span lies below the watermark of every
    stream. None where nothing bounds it."""
    fill: Position
    """From then on it has the rows of the batch."""

    @property
    def horizon(self) -> int | None:
        """Microseconds after its earliest part for which a row may be needed; None where nothing bounds it."""
        spans = [span for _, span in self.horizons if span is not None]
        return max(spans) if spans and len(spans) == len(self.horizons) else None


@dataclass(frozen=True, slots=True)
class Origin:
    """The root of a probe tree: tuples of a relation."""

    label: str
    relation: Relation
    start: SubJoin
    """The relation alone: its tuples must pass its filters, and the equalities inside the tuple."""
    owner: str | None
    """The query whose stores the tree probes, under `independent`."""
    out: tuple[str, ...]
    """The labels of the edges that leave it."""
    emits: tuple[str, ...]
    """The queries that the tuple answers by itself."""
    backfills: str | None = None
    """The intermediate store that the tree backfills; its tuples are stored ones then."""
    since: int = 0
    """In a backfill, only tuples that arrived here or later: earlier ones lack a column."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What travels where."""

    label: str
    source: EdgeSource
    store: str
    """The store that it leads to."""
    layout: Layout
    carries: SubJoin | None
    """What has been joined so far; None for raw tuples on their way into the store of their stream."""
    address: Address
    stays: bool
    """Whether the tuples are on the right worker already or, from an origin, go where the copy for their own store goes anyway."""
    columns: tuple[Attribute, ...]
    """What travels beside arrivals, latest event time and deadline; a time column is listed where its value is used."""
    position: Position


class Key(NamedTuple):
    """`bound = stored`, by Spark's `=`."""

    bound: Attribute
    stored: Attribute
    exact: bool
    """False between types whose comparison rounds, as bigint and double."""


@dataclass(frozen=True, slots=True)
class StoreRule:
    """What arrives on the edge is added to the store."""

    store: str
    edge: str
    position: Position


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """What arrives on the edge looks up the keys in the store and continues as `bound`.

    A match must also lie before the probing tuple in the order of (arrival, number), and within the windows (latest ≤ deadline).
    """

    store: str
    edge: str
    origin: Relation
    adds: SubJoin
    """What the store adds."""
    bound: SubJoin
    """What has been joined after the step."""
    keys: tuple[Key, ...]
    filters: tuple[Expr, ...]
    """What must be true of the added row."""
    equal: tuple[tuple[Attribute, ...], ...]
    """Columns of one added relation that must be equal."""
    residuals: tuple[Expr, ...]
    """Predicates between relations that can be checked from here on."""
    out: tuple[str, ...]
    """The labels of the edges to the next steps."""
    feeds: tuple[str, ...]
    """The labels of the edges into intermediate stores."""
    emits: tuple[str, ...]
    """The queries that the results answer."""
    position: Position
    since: int = 0
    """Only rows that arrived here or later are matched, …"""
    before: int | None = None
    """… and, where it is given, before here: other branches have the rest."""


Rule = StoreRule | ProbeRule


@dataclass(frozen=True)
class Topology:
    workers: int
    rounds: int
    streams: tuple[Stream, ...]
    """The streams and tables that are read, by name."""
    queries: tuple[Query, ...]
    stores: tuple[Store, ...]
    origins: tuple[Origin, ...]
    edges: tuple[Edge, ...]
    """In the order of their labels: a parent before its children."""
    rules: tuple[Rule, ...]
    """In the order of their edges."""
    starts: tuple[tuple[str, int], ...] = ()
    """The queries without history, and the first arrival that they join."""

    @cached_property
    def store(self) -> Mapping[str, Store]:
        return {store.id: store for store in self.stores}

    @cached_property
    def query(self) -> Mapping[str, Query]:
        return {query.name: query for query in self.queries}

    @cached_property
    def edge(self) -> Mapping[str, Edge]:
        return {edge.label: edge for edge in self.edges}

    @cached_property
    def rule(self) -> Mapping[tuple[str, str], Rule]:
        """The rule set, as the paper has it: by store and incoming edge."""
        return {(rule.store, rule.edge): rule for rule in self.rules}

    @cached_property
    def ingest(self) -> Mapping[str, tuple[Edge, ...]]:
        """By stream: the edges on which its raw tuples go into stores."""
        return {s.name: tuple(e for e in self.edges if e.source == EdgeSource("stream", s.name)) for s in self.streams}

    @cached_property
    def arriving(self) -> tuple[Stream, ...]:
        """The streams that are no tables: their tuples arrive."""
        return tuple(stream for stream in self.streams if not stream.is_table)

    @cached_property
    def tables(self) -> frozenset[str]:
        """The names of the tables that are read."""
        return frozenset(stream.name for stream in self.streams if stream.is_table)

    @cached_property
    def timed(self) -> bool:
        """Whether some window or time band bounds something: tuples then carry event times."""
        bounded = any(window is not None for query in self.queries for _, window in query.join.windows)
        return bounded or any(span is not None for store in self.stores for _, span in store.horizons)

    def roots(self, stream: str) -> tuple[Origin, ...]:
        """The probe trees that the tuples of a stream start."""
        return tuple(origin for origin in self.origins if origin.relation.stream == stream)
