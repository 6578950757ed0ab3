"""What a program asked for, as the checkpoint remembers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from clash.errors import CheckpointError, OptionError
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.costs import CostName, LayoutRule
from clash.planner.space import StrategyName

SinkKind = Literal["checkpoint", "parquet", "memory", "console", "foreach"]
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """Where a query's results go. `path` is a Parquet sink's; the others' files are under the checkpoint."""

    kind: SinkKind = "checkpoint"
    path: str | None = None

    @property
    def handed_over(self) -> bool:
        """Is it a function that gets the results of a batch, rather than a folder that keeps them?"""
        return self.kind in ("memory", "console", "foreach")

    def place(self, uri: str, query: str) -> tuple[str, str]:
        """The storage, and the folder in it, for the result files."""
        if self.kind == "parquet":
            return str(self.path), ""
        return uri, f"{'handover' if self.handed_over else 'results'}/{query}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as the program wrote it."""

    name: str
    text: str
    windows: tuple[tuple[str, str], ...] = ()
    sink: SinkRecord = SinkRecord()


@dataclass(frozen=True)
class Job:
    streams: tuple[Stream, ...]
    queries: tuple[Asked, ...]
    workers: int = 4
    strategy: StrategyName = "global"
    cost: CostName = "full"
    layouts: LayoutRule = "one"
    mirs: bool = True
    statistics: Statistics | None = None

    def __post_init__(self) -> None:
        if not self.queries:
            raise OptionError("there is no query to run", "", 'call engine.query("q1", "SELECT …") before engine.start()')
        for what, values in (
            ("queries of one name", [q.name for q in self.queries]),
            ("streams of one name", [s.name for s in self.streams]),
            ("queries write to one folder", [q.sink.path for q in self.queries if q.sink.path is not None]),
        ):
            twice = [value for at, value in enumerate(values) if value in values[:at]]
            if twice:
                raise OptionError(f"two {what}", repr(twice[0]), "give one of them another name")

    def to_json(self) -> dict[str, Any]:
        """What a restart has to agree with. Statistics are not part of it: the plan that they led to is recorded."""
        return {
            "format": _FORMAT,
            "streams": {stream.name: _stream(stream) for stream in self.streams},
            "queries": {
                q.name: {"text": " ".join(q.text.split()), "windows": dict(q.windows), "sink": asdict(q.sink)} for q in self.queries
            },
            "options": {
                "workers": self.workers,
                "strategy": self.strategy,
                "cost": self.cost,
                "layouts": self.layouts,
                "mirs": self.mirs,
            },
        }


def reading_order(streams: Iterable[Stream], statistics: Statistics | None) -> list[str]:
    """The fastest stream in the middle, the others on both sides of it, so that halves of the list have about as many tuples.

    Spark cuts what is read into ranges of this order, one per ingest task, and knows nothing of their sizes. Else as declared.
    """
    names = [stream.name for stream in streams]
    if statistics is None:
        return names
    first, *others = sorted(names, key=lambda name: -statistics.rate(name))
    sides: tuple[list[str], list[str]] = ([], [])
    for name in others:
        lighter = min(sides, key=lambda side: (sum(map(statistics.rate, side)), len(side)))
        lighter.append(name)
    return [*reversed(sides[0]), first, *sides[1]]


def _stream(stream: Stream) -> dict[str, Any]:
    return {**asdict(stream), "columns": [list(column) for column in stream.columns]}


def check_same(recorded: Mapping[str, Any], asked: Mapping[str, Any], uri: str) -> None:
    """Refuses to go on from the checkpoint of another job, and says what differs."""
    if recorded.get("format") != asked["format"]:
        raise CheckpointError(
            "the checkpoint was written by another version of clash",
            f"{uri} has format {recorded.get('format')}, this version writes {asked['format']}",
            "use another checkpoint folder, or the version that wrote it",
        )
    found = list(_differences(recorded, asked))
    if found:
        raise CheckpointError(
            "the checkpoint belongs to another job",
            f"{uri}: {'; '.join(found[:5])}" + (f"; and {len(found) - 5} more" if len(found) > 5 else ""),
            "start with the same streams and queries, or use another checkpoint folder",
        )


def _differences(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterable[str]:
    for kind, one in (("streams", "stream"), ("queries", "query")):
        old, new = recorded[kind], asked[kind]
        for name in sorted({*old, *new}):
            if name not in new:
                yield f"{one} {name} is missing"
            elif name not in old:
                yield f"{one} {name} is new"
            elif one == "stream":
                yield from _columns(name, old[name], new[name])
            else:
                yield from (f"{what} of query {name} was {old[name][what]!r}, now {new[name][what]!r}"
                            for what in old[name] if old[name][what] != new[name].get(what))  # fmt: skip
    yield from (f"{name} was {value!r}, now {asked['options'].get(name)!r}"
                for name, value in recorded["options"].items() if value != asked["options"].get(name))  # fmt: skip


def _columns(stream: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:
    before, now = dict(map(tuple, old["columns"])), dict(map(tuple, new["columns"]))
    for column in sorted({*before, *now}):
        if column not in now:
            yield f"column {stream}.{column} is missing"
        elif column not in before:
            yield f"column {stream}.{column} is new"
        elif before[column] != now[column]:
            yield f"column {stream}.{column} was {before[column]}, now {now[column]}"
    for what in old:
        if what != "columns" and old[what] != new.get(what):
            yield f"{what} of stream {stream} was {old[what]!r}, now {new.get(what)!r}"
