"""What a program declares: streams, queries, sinks and options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from clash.errors import OptionError
from clash.model.computed import REFUSED, ComputedColumn, with_computed
from clash.model.outer_query import OutputMode
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.options import CostName, LayoutRule, StrategyName
from clash.protocol.result_files import HANDOVER, OUTER

SinkKind = Literal["checkpoint", "parquet", "memory", "console", "foreach", "kafka", "postgres", "outer"]
TRANSACTIONAL: frozenset[SinkKind] = frozenset({"kafka", "postgres"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """Where the results of a query go, as far as it is recorded: functions and secrets are not."""

    kind: SinkKind = "checkpoint"
    path: str | None = None
    """The folder of a Parquet sink; result files of other sinks are under the checkpoint."""
    settings: tuple[tuple[str, str], ...] = ()
    """Of a sink that takes results in transactions: where it is and how it writes them, without anything secret."""

    @property
    def folder(self) -> str | None:
        """The folder of a Parquet sink in one spelling, whichever way its path is written; None for other sinks."""
        if self.path is None:
            return None
        local = re.sub("^file:/*", "/", self.path)
        return self.path.rstrip("/") if _SCHEME.match(local) else os.path.realpath(local)

    @property
    def is_function(self) -> bool:
        """Whether a function, or another system, gets the results of each batch, rather than a folder that keeps them."""
        return self.kind in ("memory", "console", "foreach") or self.is_transactional

    @property
    def is_transactional(self) -> bool:
        """Whether another system takes the results of each batch in a transaction."""
        return self.kind in TRANSACTIONAL

    def location(self, uri: str, folder: str) -> tuple[str, str]:
        """The storage, and the folder in it, for result files; `uri` is the checkpoint's, `folder` that of the query in it."""
        if self.kind == "parquet":
            return str(self.path), ""
        if self.kind == "outer":
            return uri, f"{OUTER}{folder}"
        return uri, f"{HANDOVER if self.is_function else 'results/'}{folder}"


@dataclass(frozen=True, slots=True)
class OuterRequest:
    """What a program says about a query with aggregates or DISTINCT beside its text."""

    mode: OutputMode
    sink: SinkSpec = SinkSpec()
    """Where the results of the outer query go; those of its join core go to the outer query."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query as the program wrote it."""

    name: str
    text: str
    windows: tuple[tuple[str, str], ...] = ()
    """Windows by alias or stream that differ from those of the streams."""
    sink: SinkSpec = SinkSpec()
    outer: OuterRequest | None = None
    """Of a query with aggregates or DISTINCT, whose `sink` is of the kind `outer`."""
    computed: tuple[ComputedColumn, ...] = ()
    """What Spark computes for it where streams are read."""

    @property
    def meaning(self) -> tuple[str, tuple[tuple[str, str], ...], OutputMode | None, tuple[ComputedColumn, ...]]:
        """Two requests that agree in it are the same query: the layout of a text does not matter."""
        mode = None if self.outer is None else self.outer.mode
        return " ".join(self.text.split()), tuple(sorted(self.windows)), mode, self.computed

    @property
    def final_sink(self) -> SinkSpec:
        """Where the results of the whole query go."""
        return self.sink if self.outer is None else self.outer.sink


@dataclass(frozen=True)
class ProgramRecord:
    """What the next start of a program is compared with. Statistics are not part of it: the plan that they led to is recorded."""

    queries: tuple[QueryRequest, ...]
    workers: int
    strategy: StrategyName
    cost: CostName
    layouts: LayoutRule
    mirs: bool
    streams: tuple[Stream, ...] = ()
    """As it declared them, without their columns: those are always what the DataFrames have. Earlier versions did not record them."""


@dataclass(frozen=True)
class JobSpec:
    streams: tuple[Stream, ...]
    queries: tuple[QueryRequest, ...]
    workers: int = 4
    strategy: StrategyName = "global"
    cost: CostName = "full"
    layouts: LayoutRule = "one"
    mirs: bool = True
    statistics: Statistics | None = None
    epoch: str | int = "1 second"
    """A duration, or a number of micro-batches."""
    adaptive: bool = True
    """Otherwise the plan changes only with queries, streams and workers."""

    def __post_init__(self) -> None:
        refuse_duplicates(self.streams, self.queries)

    @property
    def tables(self) -> tuple[Stream, ...]:
        """The tables with the columns that are computed for the queries."""
        computed = (column for query in self.queries for column in query.computed if column.type != REFUSED)
        return tuple(stream for stream in with_computed({s.name: s for s in self.streams}, computed).values() if stream.is_table)

    def record(self) -> ProgramRecord:
        queries = tuple(replace(query, text=query.meaning[0], windows=query.meaning[1]) for query in self.queries)
        streams = tuple(replace(stream, columns=()) for stream in self.streams)
        return ProgramRecord(queries, self.workers, self.strategy, self.cost, self.layouts, self.mirs, streams)


def refuse_taken_name(stream: str, names: Iterable[str]) -> None:
    """Queries may write a name in another case, as long as one stream is meant: another stream must not change what they mean."""
    taken = next((name for name in names if name.lower() == stream.lower()), None)
    if taken is not None:
        detail = repr(stream) if taken == stream else f"{stream!r} and {taken!r} differ in case only"
        raise OptionError("there is a stream or table of that name already", detail, "give the new one another name")


def refuse_duplicates(streams: Iterable[Stream], queries: Iterable[QueryRequest]) -> None:
    """Names are unique, and so are the folders of results."""
    queries, names = tuple(queries), [stream.name for stream in streams]
    for at, name in enumerate(names):
        refuse_taken_name(name, names[:at])
    for what, values, hint in (
        ("queries of one name", [q.name for q in queries], "give one of them another name"),
        (
            "queries write to one folder",
            [q.final_sink.folder for q in queries if q.final_sink.folder is not None],
            "give each a folder of its own",
        ),
    ):
        twice = [value for at, value in enumerate(values) if value in values[:at]]
        if twice:
            raise OptionError(f"two {what}", repr(twice[0]), hint)


def initial_source_order(streams: Iterable[Stream], statistics: Statistics | None) -> list[str]:
    """The fastest stream in the middle and the others on both sides of it, so that halves of the list have about as many tuples.

    Spark cuts what is read into ranges of this order, one per ingest task, and knows nothing of their sizes. Without statistics the streams
    are in the order in which they were declared.
    """
    names = [stream.name for stream in streams if not stream.is_table]  # the engine reads tables itself
    if statistics is None or not names:
        return names
    first, *others = sorted(names, key=lambda name: -statistics.rate(name))
    sides: tuple[list[str], list[str]] = ([], [])
    for name in others:
        lighter = min(sides, key=lambda side: (sum(map(statistics.rate, side)), len(side)))
        lighter.append(name)
    return [*reversed(sides[0]), first, *sides[1]]
