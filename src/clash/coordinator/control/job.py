"""What a program asks for, as the checkpoint remembers it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from clash.errors import OptionError
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.cost_model import CostName, LayoutRule
from clash.planner.search_space import StrategyName

SinkKind = Literal["checkpoint", "parquet", "memory", "console", "foreach"]
FORMAT = 5
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """Where a query's results go. `path` is a Parquet sink's; the others' files are under the checkpoint."""

    kind: SinkKind = "checkpoint"
    path: str | None = None

    @property
    def folder(self) -> str | None:
        """A Parquet sink's folder in one spelling, whichever way its path is written; None for other sinks."""
        if self.path is None:
            return None
        local = re.sub("^file:/*", "/", self.path)
        return self.path.rstrip("/") if _SCHEME.match(local) else os.path.realpath(local)

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

    @property
    def meaning(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Two that agree in it are the same query: the layout of a text does not matter."""
        return " ".join(self.text.split()), tuple(sorted(self.windows))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "text": self.text, "windows": dict(self.windows), "sink": asdict(self.sink)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Asked:
        return Asked(data["name"], data["text"], tuple(data["windows"].items()), SinkRecord(**data["sink"]))


@dataclass(frozen=True)
class Job:
    """`epoch`: a duration, or a number of micro-batches. Not `adaptive`: the plan changes only with queries, streams and workers."""

    streams: tuple[Stream, ...]
    queries: tuple[Asked, ...]
    workers: int = 4
    strategy: StrategyName = "global"
    cost: CostName = "full"
    layouts: LayoutRule = "one"
    mirs: bool = True
    statistics: Statistics | None = None
    epoch: str | int = "1 second"
    adaptive: bool = True

    def __post_init__(self) -> None:
        refuse_twice(self.streams, self.queries)

    def to_json(self) -> dict[str, Any]:
        """What the next start is compared with. Statistics are not part of it: the plan that they led to is recorded."""
        return {
            "queries": [{**query.to_json(), "text": query.meaning[0]} for query in self.queries],
            "options": {
                "workers": self.workers,
                "strategy": self.strategy,
                "cost": self.cost,
                "layouts": self.layouts,
                "mirs": self.mirs,
            },
        }


def refuse_taken(stream: str, there: Iterable[str]) -> None:
    """Queries may write a name in another case, as long as one stream is meant: another one must not change what they mean."""
    taken = next((name for name in there if name.lower() == stream.lower()), None)
    if taken is not None:
        told = repr(stream) if taken == stream else f"{stream!r} and {taken!r} differ in case only"
        raise OptionError("there is a stream of that name already", told, "give the new one another name")


def refuse_twice(streams: Iterable[Stream], queries: Iterable[Asked]) -> None:
    """Names are unique, and so are folders."""
    queries, names = tuple(queries), [stream.name for stream in streams]
    for at, name in enumerate(names):
        refuse_taken(name, names[:at])
    for what, values, hint in (
        ("queries of one name", [q.name for q in queries], "give one of them another name"),
        ("queries write to one folder", [q.sink.folder for q in queries if q.sink.folder is not None], "give each a folder of its own"),
    ):
        twice = [value for at, value in enumerate(values) if value in values[:at]]
        if twice:
            raise OptionError(f"two {what}", repr(twice[0]), hint)


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
