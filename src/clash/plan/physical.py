"""The physical plan: a topology and everything that a task needs in order to run it, worked out once.

`clash.topology` writes it, the checkpoint keeps it as a plan file, and workers load it: they derive nothing again. Types are Spark's names;
a worker only turns them into Arrow types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from clash.model.expressions import Expr
from clash.model.layout import Layout
from clash.model.relation import Attribute, Relation
from clash.plan.collection_spec import CollectionSpec
from clash.plan.topology import Address, RowFilter, Topology


class TypedColumn(NamedTuple):
    """A column of a block, a container or a result, and its Spark type."""

    name: str
    type: str


class TypedKey(NamedTuple):
    """One column of a lookup, and the type in which both sides are compared."""

    bound: Attribute
    """The attribute of the probing tuple."""
    stored: Attribute
    """The attribute of the stored row, in the role in which the query reads it."""
    type: str


class IndexedColumn(NamedTuple):
    """A column of an access path, and the type in which it is compared."""

    attribute: Attribute
    type: str


@dataclass(frozen=True, slots=True)
class AccessPath:
    """The columns by which probes look up rows of a store; containers have one index per access path."""

    name: str
    columns: tuple[IndexedColumn, ...]


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """A store under one of its layouts."""

    store: str
    number: int
    """The number of the layout among those of the store."""
    layout: Layout
    columns: tuple[TypedColumn, ...]
    """The columns of its containers."""
    paths: tuple[AccessPath, ...]
    part_times: tuple[str, ...]
    """The columns with the event times of the parts of a row, in order of the parts."""
    is_base: bool
    """Whether it holds the tuples of a stream, rather than intermediate results."""
    partition_column: Attribute | None
    """The column whose hash decides on which worker a row is; None where the arrival does, or where all rows are together."""
    table: str | None = None
    """The table whose rows it holds, which are in files of their own rather than in containers."""


@dataclass(frozen=True, slots=True)
class BackfillSource:
    """A channel for stored tuples that are probed once more, so that an intermediate store gets the rows that were completed before it."""

    fills: str
    """The intermediate store."""
    scans: str
    """The base store whose tuples are read."""
    since: int
    """Tuples that arrived earlier lack a column, and are left out."""


@dataclass(frozen=True, slots=True)
class Channel:
    """Edges that leave with the same tuples for the same workers in the same round; they share one block."""

    name: str
    edges: tuple[str, ...]
    """The labels of the edges, or of the origin whose tuples are results by themselves."""
    address: Address
    stays: bool
    round: int
    """The round in which the block is received."""
    columns: tuple[TypedColumn, ...]
    masks: Mapping[str, str]
    """By edge label, the boolean column that says which rows the edge takes; edges that take all rows have none."""
    backfill: BackfillSource | None = None


@dataclass(frozen=True, slots=True)
class EdgeFilter:
    """Which tuples leave on an edge: those of which all of `conditions` hold and, where there are `row_filters`, that one of them keeps."""

    conditions: tuple[Expr, ...]
    row_filters: tuple[RowFilter, ...]


@dataclass(frozen=True, slots=True)
class StreamIngest:
    """What ingest does with the tuples of a stream."""

    stream: str
    columns: tuple[TypedColumn, ...]
    """The columns that are read: those that are stored, sent, compared or part of a result. Late rows are written with the same columns."""
    channels: tuple[Channel, ...]
    filters: Mapping[str, EdgeFilter]
    """By edge label; an edge without an entry takes every tuple."""
    evaluated: tuple[tuple[str, Expr], ...] = ()
    """Name and expression of columns that are computed of those that are read."""


@dataclass(frozen=True, slots=True)
class OriginEntry:
    """How a raw tuple becomes the start of a probe tree."""

    relation: Relation
    window: int
    """The window of the relation in microseconds."""
    columns: tuple[Attribute, ...]
    """The attributes that the edge carries on, or that the results need."""
    emits: tuple[str, ...]
    """The queries that the tuple answers by itself; empty for an edge into a store."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """Which results of a step answer a query, where they are those of a weaker join."""

    query: str
    conditions: tuple[Expr, ...]
    """What must be true of them: filters and residuals of the query that the step has not checked."""
    windows: tuple[tuple[Relation, int], ...]
    """The windows in microseconds that are shorter than those that the step has checked."""


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """A probe rule, complete: how a block of partial results meets a store, and where the results go."""

    edge: str
    store: str
    copy: int
    """The number of the store's layout that is probed."""
    keys: tuple[TypedKey, ...]
    """Sorted as the columns of the access path; empty for a scan."""
    path: str | None
    """The name of the access path; None for a scan."""
    adds: tuple[Relation, ...]
    """The relations that the store adds, sorted."""
    number: int
    """The number of the added relation in the order of arrivals; 0 for an intermediate store, whose rows carry theirs."""
    window: int
    """The window of the added relation in microseconds; 0 for an intermediate store, whose rows carry a deadline."""
    stored_conditions: tuple[Expr, ...]
    """What must be true of the stored row alone."""
    residuals: tuple[Expr, ...]
    """What must be true of the match, and can be checked from here on."""
    since: int
    """Only stored rows that arrived here or later are matched, …"""
    before: int | None
    """… and, where it is given, only those that arrived before here: other branches have the rest."""
    left: tuple[str, ...]
    """The columns of the probing block that the results carry on."""
    right: tuple[Attribute, ...]
    """The attributes of the store that the results carry on."""
    part_times: tuple[Relation, ...]
    """The relations whose event times the results carry on, because they are stored later."""
    emits: tuple[str, ...]
    """The queries that the results answer."""
    local: tuple[str, ...]
    """The edges on which results go on without leaving the worker or the round."""
    channels: tuple[Channel, ...]
    """How the other results leave."""
    broadcast: bool
    """Whether every worker gets the same block, so that each counts its share of it."""
    own_rows_only: bool
    """Whether every worker probes with the same tuples, all or those with hot keys, and each answers for the stored rows of its own."""
    spread: Address | None = None
    """The address of the tuples, where every worker gets those with hot keys: each counts its share of these."""
    refinements: tuple[Refinement, ...] = ()
    """For those of `emits` that not every result answers."""


@dataclass(frozen=True)
class PhysicalPlan:
    """What a plan file holds."""

    topology: Topology
    copies: tuple[StoreCopy, ...]
    ingest: tuple[StreamIngest, ...]
    entries: Mapping[str, OriginEntry]
    """By the label of an edge that leaves an origin, or of an origin whose tuples are results by themselves."""
    steps: tuple[ProbeStep, ...]
    results: Mapping[str, tuple[TypedColumn, ...]]
    """By query, the columns of its results."""
    readers: Mapping[str, tuple[str, ...]]
    """By the label of an edge or origin, the queries that depend on what travels there, for error messages."""
    statistics: CollectionSpec
    """What ingest collects for the planner."""

    @cached_property
    def channels(self) -> Mapping[str, Channel]:
        """Every channel that a task may receive on, by name."""
        channels = [channel for stream in self.ingest for channel in stream.channels]
        channels += [channel for step in self.steps for channel in step.channels]
        return {channel.name: channel for channel in channels}
