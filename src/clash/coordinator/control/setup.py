"""What is asked for at a time: streams, live queries, workers and how to plan.

Invariant: a change is a function from one set-up to the next; whatever cannot be is refused here, before anything runs under it. The
set-up of the program, what calls added and what a restart brings are all of this form, so there is one way to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from clash.coordinator.control.job import Asked, Job, refuse_taken, refuse_twice
from clash.errors import OptionError
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.cost_model import CostName, LayoutRule
from clash.planner.solver import Aside
from clash.planner.optimize import MOST_WORKERS, optimize, plan_nothing
from clash.planner.plan import Plan
from clash.planner.search_space import StrategyName
from clash.sql import parse_query
from clash.sql.name_lookup import did_you_mean, listed
from clash.plan.json_codecs import stream_from_json, stream_to_json

_GAP = 0.05  # a plan that is provably this close to the best is not worth more of the solver's time


@dataclass(frozen=True, slots=True)
class Live:
    """A query and since when it is asked: the first batch under it and that batch's first arrival; None before it has one. `folder`:
    where its results are, if not in the folder of its name, because another query of that name has left others there."""

    asked: Asked
    batch: int | None = None
    arrival: int | None = None
    history: bool = True
    folder: str | None = None

    @property
    def name(self) -> str:
        return self.asked.name

    def place(self, uri: str) -> tuple[str, str]:
        return self.asked.sink.place(uri, self.folder or self.name)

    def to_json(self) -> dict[str, Any]:
        told = {"batch": self.batch, "arrival": self.arrival, "history": self.history, "folder": self.folder}
        return {"asked": self.asked.to_json(), **told}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Live:
        return Live(Asked.from_json(data["asked"]), data["batch"], data["arrival"], data["history"], data["folder"])


@dataclass(frozen=True)
class Setup:
    streams: tuple[Stream, ...]
    queries: tuple[Live, ...]
    workers: int
    strategy: StrategyName
    cost: CostName
    layouts: LayoutRule
    mirs: bool

    @staticmethod
    def of(job: Job) -> Setup:
        queries = tuple(Live(asked) for asked in job.queries)
        return Setup(job.streams, queries, job.workers, job.strategy, job.cost, job.layouts, job.mirs)

    # ---- changing ----------------------------------------------------------------------------------------------

    def add_query(self, asked: Asked, history: bool = True) -> Setup:
        if asked.name in self.names:
            raise OptionError("there is a query of that name already", repr(asked.name), "give the new one another name, or replace_query")
        return self._checked(replace(self, queries=(*self.queries, Live(asked, history=history))), asked)

    def replace_query(self, asked: Asked, history: bool = True) -> Setup:
        self.query(asked.name)
        new = Live(asked, history=history)
        return self._checked(replace(self, queries=tuple(new if q.name == asked.name else q for q in self.queries)), asked)

    def remove_query(self, name: str) -> Setup:
        """The last one may go, too: the run reads on, and waits for others."""
        self.query(name)
        return replace(self, queries=tuple(q for q in self.queries if q.name != name))

    def rescale(self, workers: int) -> Setup:
        if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
            raise OptionError("the number of workers is out of range", repr(workers), f"write a whole number from 1 to {MOST_WORKERS:,}")
        return replace(self, workers=workers)

    def add_stream(self, stream: Stream) -> Setup:
        refuse_taken(stream.name, self.by_name)
        return replace(self, streams=(*self.streams, stream))

    def not_begun(self, batch: int) -> Setup:
        """Before that batch: the queries that it was the first for are still to begin."""
        return replace(self, queries=tuple(replace(q, batch=None, arrival=None) if q.batch == batch else q for q in self.queries))

    def _checked(self, after: Setup, asked: Asked) -> Setup:
        refuse_twice(after.streams, [query.asked for query in after.queries])
        self.parse(asked)
        return after

    # ---- looking -----------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(query.name for query in self.queries)

    @property
    def by_name(self) -> dict[str, Stream]:
        return {stream.name: stream for stream in self.streams}

    def query(self, name: str) -> Live:
        found = next((query for query in self.queries if query.name == name), None)
        if found is None:
            raise OptionError("unknown query", repr(name), did_you_mean(str(name), self.names, f"queries are {listed(self.names)}"))
        return found

    def parse(self, asked: Asked) -> Query:
        return parse_query(asked.name, asked.text, self.by_name, dict(asked.windows))

    @property
    def parsed(self) -> dict[str, Query]:
        return {query.name: self.parse(query.asked) for query in self.queries}

    @property
    def needed(self) -> set[str]:
        """The streams that its queries read, and those that are kept for queries to come."""
        kept = {stream.name for stream in self.streams if stream.keep == "all"}
        return kept | {relation.stream for query in self.parsed.values() for relation in query.join.relations}

    def fits(self, plan: Plan) -> bool:
        """Is it a plan for these queries and workers?"""
        windows = {name: tuple(given.items()) for name, given in plan.asked.windows.items()}
        planned = {query.name: Asked(query.name, query.text, windows.get(query.name, ())).meaning for query in plan.queries}
        return plan.workers == self.workers and planned == {query.name: query.asked.meaning for query in self.queries}

    def planned_as(self, other: Setup) -> bool:
        """Would both have the same plan? Streams that nobody reads, and sinks, do not matter to it."""

        def asked(setup: Setup) -> tuple[object, ...]:
            texts = [(query.name, query.asked.meaning) for query in setup.queries]
            return texts, setup.workers, setup.strategy, setup.cost, setup.layouts, setup.mirs

        return asked(self) == asked(other)

    def optimize(self, statistics: Statistics | None, time_limit: float = 0, start: Plan | None = None, aside: Aside | None = None) -> Plan:
        """Without a time limit by the heuristic alone, which never waits for the solver."""
        if not self.queries:
            return plan_nothing(self.streams, statistics, self.workers, self.strategy, self.cost, self.layouts, self.mirs)
        return optimize(
            {query.name: query.asked.text for query in self.queries},
            statistics,
            streams=self.streams,
            windows={query.name: dict(query.asked.windows) for query in self.queries},
            workers=self.workers,
            strategy=self.strategy,
            cost=self.cost,
            layouts=self.layouts,
            mirs=self.mirs,
            time_limit=time_limit,
            gap=_GAP,
            start=start,
            aside=aside,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "streams": [stream_to_json(stream) for stream in self.streams],
            "queries": [query.to_json() for query in self.queries],
            "workers": self.workers,
            "strategy": self.strategy,
            "cost": self.cost,
            "layouts": self.layouts,
            "mirs": self.mirs,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Setup:
        read = {"streams": tuple(map(stream_from_json, data["streams"])), "queries": tuple(map(Live.from_json, data["queries"]))}
        return Setup(**{**data, **read})


def differences(before: Setup, after: Setup) -> list[str]:
    """What changes from one to the other, in words."""
    old, new = {q.name: q for q in before.queries}, {q.name: q for q in after.queries}
    found = [f"query {name} removed" for name in old if name not in new]
    for name, query in new.items():
        if name not in old:
            found.append(f"query {name} added" + ("" if query.history else " without history"))
        elif query.batch is None:
            found.append(f"query {name} replaced" + ("" if query.history else " without history"))
        elif query.asked.sink != old[name].asked.sink:
            found.append(f"query {name} writes elsewhere")
    found += _names("stream", "added", set(after.by_name) - set(before.by_name))
    found += _names("stream", "removed", set(before.by_name) - set(after.by_name))
    options = ("workers", "strategy", "cost", "layouts", "mirs")
    return found + [
        f"{name} {getattr(before, name)} → {getattr(after, name)}" for name in options if getattr(before, name) != getattr(after, name)
    ]


def _names(kind: str, what: str, names: Iterable[str]) -> list[str]:
    return [f"{kind} {name} {what}" for name in sorted(names)]
