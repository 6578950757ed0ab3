"""A history as plain data: streams, queries, batches and how they are run. Its `repr` is Python, so a small one can become a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.sql import parse_queries, parse_query

Row = tuple[Any, ...]
Windows = tuple[tuple[str, str], ...]
_KINDS = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "boolean": pa.bool_(), "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"), "array<int>": pa.list_(pa.int32()), "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "struct<x:int,y:array<string>>": pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
}  # fmt: skip


@dataclass(frozen=True)
class Ask:
    """A query: `SELECT …\\nFROM …[ WHERE …]`, every condition in parentheses, so that the oracle can add its own behind."""

    name: str
    text: str
    windows: Windows = ()


@dataclass(frozen=True)
class Change:
    """What is asked for while it runs: `add` or `replace` (by `ask`), `remove` (`name`), `rescale` (`workers`), one more `stream` (`name`),
    of which nothing comes before it is read, or other `options` of a stream (`name`). `declare`: what a program does by its start."""

    kind: str
    ask: Ask | None = None
    name: str = ""
    history: bool = True
    workers: int = 0
    options: tuple[tuple[str, str | None], ...] = ()
    streams: tuple[Stream, ...] = ()


@dataclass(frozen=True)
class Program:
    """What a program asks for at its start. `streams`: those that it declares beside the ones that were there; `declared`: those that it
    declares otherwise than before."""

    queries: tuple[Ask, ...]
    workers: int = 2
    streams: tuple[str, ...] = ()
    declared: tuple[Stream, ...] = ()


@dataclass(frozen=True)
class Batch:
    """`now` in microseconds; `restart`: a new driver before it, of a changed `program` if there is one; `fail`: the fail point, and which
    time it is reached, at which its first attempt ends; a new driver, of the program `second` if there is one, then finds what it left.
    `changes` are asked for before it, after a restart; `plan_seed`: and a random plan. `quiet`: nothing changes, and every stream has a
    row long after all before. `tables`: the rows of tables from this batch on; those of the first batch are there from the start."""

    now: int
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    tables: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    restart: bool = False
    program: Program | None = None
    fail: tuple[str, int] | None = None
    second: Program | None = None
    changes: tuple[Change, ...] = ()
    plan_seed: int | None = None
    quiet: bool = False


@dataclass(frozen=True)
class Setting:
    """How it is run. `plan_seed` None: the optimiser's plan, else a random valid one. `epoch` in batches. `adaptive`: the planner looks at
    what was seen in each epoch, and takes whatever differs."""

    workers: int = 2
    strategy: str = "global"
    cost: str = "full"
    layouts: str = "one"
    mirs: bool = True
    statistics: Statistics = field(default_factory=Statistics)
    partitions: int = 2
    seed: int = 0
    timezone: str = "UTC"
    plan_seed: int | None = None
    options: tuple[tuple[str, int], ...] = ()
    epoch: int = 1
    adaptive: bool = False


@dataclass(frozen=True)
class Life:
    """A query, under the same windows, from the batch in which it was first asked to that in which it no longer was; a name may have
    several. `complete`: the batch from which on nothing is missing; None: not known yet. `began`: the first batch, if it had other windows
    then. `streams`: as they were declared when it was asked, with the windows of its time; none: as the case has them. `since`: the
    columns that were not there from the first, and the batch from which on they are."""

    ask: Ask
    first: int = 0
    end: int | None = None
    history: bool = True
    complete: int | None = 0
    began: int | None = None
    streams: tuple[Stream, ...] = ()
    since: tuple[tuple[str, str, int], ...] = ()

    @property
    def key(self) -> str:
        return f"{self.ask.name}@{self.first}" if self.first else self.ask.name

    @property
    def origin(self) -> int:
        return self.first if self.began is None else self.began

    def lives(self, batch: int) -> bool:
        return self.first <= batch and (self.end is None or batch < self.end)


@dataclass(frozen=True)
class Case:
    streams: tuple[Stream, ...]
    queries: tuple[Ask, ...]
    batches: tuple[Batch, ...]
    setting: Setting = field(default_factory=Setting)
    hidden: tuple[tuple[str, str], ...] = ()
    """Columns that the first program does not declare; rows have them all the same, for later ones."""

    @property
    def by_name(self) -> dict[str, Stream]:
        return {stream.name: stream for stream in self.streams}

    @property
    def texts(self) -> dict[str, str]:
        return {ask.name: ask.text for ask in self.queries}

    @property
    def windows(self) -> dict[str, dict[str, str]]:
        return {ask.name: dict(ask.windows) for ask in self.queries if ask.windows}

    @cached_property
    def parsed(self) -> tuple[Query, ...]:
        return parse_queries(self.texts, self.by_name, self.windows)[0]

    @property
    def kept(self) -> frozenset[str]:
        """Streams that are read whatever is asked, for queries to come."""
        return frozenset(s.name for s in self.streams if s.keep == "all")

    def parse(self, ask: Ask, streams: tuple[Stream, ...] = ()) -> Query:
        return _parse(ask, streams or self.streams)

    @property
    def programs(self) -> tuple[Program, ...]:
        """All that are ever started, the first one first."""
        others = (program for batch in self.batches for program in (batch.program, batch.second) if program is not None)
        return (Program(self.queries, self.setting.workers), *others)

    @property
    def asks(self) -> tuple[Ask, ...]:
        """All that are ever asked."""
        listed = (ask for program in self.programs for ask in program.queries)
        return (*listed, *(c.ask for batch in self.batches for c in batch.changes if c.ask is not None))

    @property
    def first_streams(self) -> tuple[Stream, ...]:
        """Those that the first program declares: the others come later."""
        later = {name for program in self.programs for name in program.streams}
        later |= {change.name for batch in self.batches for change in batch.changes if change.kind == "stream"}
        return tuple(self.shown(stream) for stream in self.streams if stream.name not in later)

    def shown(self, stream: Stream) -> Stream:
        """The stream as it is declared first."""
        return replace(stream, columns=tuple(column for column in stream.columns if (stream.name, column[0]) not in self.hidden))

    @property
    def evolves(self) -> bool:
        """Is a stream ever declared otherwise?"""
        programs = any(program.declared for program in self.programs)
        return bool(self.hidden) or programs or any(change.kind == "options" for batch in self.batches for change in batch.changes)

    @property
    def changes(self) -> bool:
        """Does anything change while it runs?"""
        more = any(batch.changes or batch.program or batch.second or batch.plan_seed is not None for batch in self.batches)
        return more or self.setting.adaptive or self.evolves

    def reads(self, ask: Ask) -> frozenset[str]:
        """Streams, not tables."""
        return frozenset(relation.stream for relation in self.parse(ask).streams)

    def count(self) -> int:
        return sum(len(rows) for batch in self.batches for rows in batch.rows.values())


@lru_cache(1000)
def _parse(ask: Ask, streams: tuple[Stream, ...]) -> Query:
    return parse_query(ask.name, ask.text, {stream.name: stream for stream in streams}, dict(ask.windows))


def arrow_kind(kind: str) -> pa.DataType:
    if kind.startswith("decimal("):
        precision, scale = kind[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _KINDS[kind]


def table(stream: Stream, rows: Sequence[Row], whole: Stream | None = None) -> pa.Table:
    """`whole`: the stream with the columns that the rows have, if the table is to have others."""
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len((whole or stream).columns)
    if whole is not None:
        by_name = dict(zip((name for name, _ in whole.columns), columns, strict=True))
        columns = [by_name[name] for name, _ in stream.columns]
    fields = [pa.field(name, arrow_kind(kind)) for name, kind in stream.columns]
    return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, fields, strict=True)], schema=pa.schema(fields))


def micros(moment: datetime) -> int:
    delta = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def tau(stream: Stream, row: Row, now: int) -> int | None:
    if stream.time is None:
        return now
    value = row[[name for name, _ in stream.columns].index(stream.time)]
    return None if value is None else micros(value)


def plain(value: Any) -> Any:
    """Equal values, and only they, become equal: NaN is itself, -0.0 is not 0.0, a moment is its microseconds."""
    if value is None or isinstance(value, int | str | bytes):
        return value
    if isinstance(value, float):
        return f"{value!r}"
    if isinstance(value, datetime):
        return micros(value)
    if isinstance(value, Mapping):
        return tuple((key, plain(inner)) for key, inner in sorted(value.items()))
    if isinstance(value, list | tuple):
        return tuple(plain(inner) for inner in value)
    return value


def plain_rows(columns: Iterable[pa.ChunkedArray]) -> list[Row]:
    return list(zip(*([plain(value) for value in column.to_pylist()] for column in columns), strict=True))
