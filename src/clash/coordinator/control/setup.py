"""The set-up: the streams, the live queries, the workers and the options of planning at one time.

Invariant: a change is a function from one set-up to the next, and refuses what cannot be before anything runs under it. The job of a
program, calls at run time and a restart all become set-ups, so there is one way to change. A live query is parsed once, when it is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from clash.coordinator.control.job import JobSpec, QueryRequest, refuse_duplicates, refuse_taken_name
from clash.coordinator.control.stream_changes import stream_differences
from clash.errors import OptionError, TakenNameError, UnknownNameError
from clash.hints import did_you_mean, listed
from clash.model.computed import REFUSED, with_computed
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan, PlanRequest
from clash.plan.options import CostName, LayoutRule, StrategyName, check_workers
from clash.planner.optimize import plan_queries
from clash.planner.solver import SolverProcess
from clash.sql import parse_query, with_stream_windows
from clash.sql.statistics_text import normal_statistics

_GAP = 0.05  # a plan that is provably this close to the optimum is not worth more of the solver's time
_OPTIONS = ("workers", "strategy", "cost", "layouts", "mirs")


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """A query of the set-up, and since when it is answered."""

    request: QueryRequest
    query: Query
    """The request, parsed over the streams of the set-up."""
    batch: int | None = None
    """The first batch that answers it; None before there is one."""
    arrival: int | None = None
    """The first arrival of that batch."""
    history: bool = True
    """Whether it also joins tuples that arrived before that batch."""
    folder: str | None = None
    """The folder of its results below the checkpoint, where that is not its name: another query of that name has left other columns
    there."""
    changed_batch: int | None = None
    """The first batch under its present windows, where the window of a stream has changed since it began."""
    changed_arrival: int | None = None
    """The first arrival of that batch."""

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def since(self) -> int | None:
        """The first arrival under its present windows. What was stored before was retained for other windows, or for other queries."""
        return self.arrival if self.changed_arrival is None else self.changed_arrival

    def begins_with(self, batch: int) -> bool:
        """Whether the batch is the first that answers it, or the first under its present windows."""
        return batch in (self.batch, self.changed_batch)

    def over(self, streams: Mapping[str, Stream]) -> LiveQuery:
        """The query with the windows that its streams have now."""
        query = with_stream_windows(self.query, streams, dict(self.request.windows))
        return self if query is self.query else replace(self, query=query)

    def result_location(self, uri: str) -> tuple[str, str]:
        """The storage and the folder in it for the query's result files; `uri` is the checkpoint's."""
        return self.request.sink.location(uri, self.folder or self.name)


@dataclass(frozen=True)
class Setup:
    streams: tuple[Stream, ...]
    queries: tuple[LiveQuery, ...]
    workers: int
    strategy: StrategyName
    cost: CostName
    layouts: LayoutRule
    mirs: bool

    @staticmethod
    def of(job: JobSpec) -> Setup:
        empty = Setup(job.streams, (), job.workers, job.strategy, job.cost, job.layouts, job.mirs)
        return replace(empty, queries=tuple(empty.parse(request) for request in job.queries))

    # ---- changes -----------------------------------------------------------------------------------------------

    def add_query(self, request: QueryRequest, history: bool = True) -> Setup:
        if request.name in self.query_names:
            hint = "give the new one another name, or replace_query"
            raise TakenNameError("there is a query of that name already", repr(request.name), hint)
        return self._with_queries(request, lambda added: (*self.queries, added), history)

    def replace_query(self, request: QueryRequest, history: bool = True) -> Setup:
        self.query(request.name)
        return self._with_queries(request, lambda added: tuple(added if q.name == request.name else q for q in self.queries), history)

    def remove_query(self, name: str) -> Setup:
        """The last query may be removed, too: the run keeps reading and waits for others."""
        self.query(name)
        return replace(self, queries=tuple(q for q in self.queries if q.name != name))

    def rescale(self, workers: int) -> Setup:
        check_workers(workers)
        return replace(self, workers=workers)

    def add_stream(self, stream: Stream) -> Setup:
        if stream.name in self.streams_by_name:
            taken = self.streams_by_name[stream.name]
            hint = "run.change_stream changes its options; for other columns, start the program again with the new DataFrame"
            hint = hint if not taken.is_table else "run.refresh reads it again; for other columns, start the program again"
            raise OptionError(f"there is a {taken.kind} of that name already", repr(stream.name), hint)
        refuse_taken_name(stream.name, self.streams_by_name)
        return replace(self, streams=(*self.streams, stream))

    def change_stream(self, name: str, options: Mapping[str, Any]) -> Setup:
        """Other options of a stream, as users write them. Queries that do not give a window of their own have that of the stream."""
        stream = self.streams_by_name.get(name)
        if stream is None:
            names = self.streams_by_name
            raise OptionError("unknown stream", repr(name), did_you_mean(str(name), names, f"streams are {listed(names)}"))
        if stream.is_table:
            raise OptionError("a table has no such options", name, "rows of tables have no event time: windows do not restrict them")
        changed = stream.with_options(**options)
        if changed.idle is not None and changed.lateness is None:
            raise OptionError("idle needs lateness", f"stream {name}", "write idle=None as well, or a lateness")
        return self.over(changed if other.name == name else other for other in self.streams)

    def over(self, streams: Iterable[Stream]) -> Setup:
        """The same queries over streams of the same names, which may be declared otherwise."""
        after = replace(self, streams=tuple(streams))
        return replace(after, queries=tuple(live.over(after.streams_by_name) for live in self.queries))

    def before_batch(self, batch: int) -> Setup:
        """The set-up as it was before that batch: queries that the batch is the first for have not begun."""
        return replace(self, queries=tuple(replace(q, batch=None, arrival=None) if q.batch == batch else q for q in self.queries))

    def _with_queries(self, request: QueryRequest, arrange: Arrange, history: bool) -> Setup:
        others = [query.request for query in self.queries if query.name != request.name]
        refuse_duplicates(self.streams, [*others, request])
        return replace(self, queries=arrange(self.parse(request, history)))

    # ---- reading -----------------------------------------------------------------------------------------------

    @property
    def query_names(self) -> tuple[str, ...]:
        return tuple(query.name for query in self.queries)

    @property
    def branches(self) -> tuple[Query, ...]:
        """The joins to plan: those of all queries."""
        return tuple(branch for live in self.queries for branch in live.query.branches)

    @property
    def streams_by_name(self) -> dict[str, Stream]:
        return {stream.name: stream for stream in self.streams}

    @property
    def tables(self) -> tuple[Stream, ...]:
        """The tables with the columns that are computed for the queries."""
        return tuple(stream for stream in self.read_streams.values() if stream.is_table)

    @property
    def read_streams(self) -> dict[str, Stream]:
        """The streams with the columns that are computed for the queries."""
        computed = (column for live in self.queries for column in live.request.computed if column.type != REFUSED)
        return with_computed(self.streams_by_name, computed)

    def query(self, name: str) -> LiveQuery:
        live = next((query for query in self.queries if query.name == name), None)
        if live is None:
            names = self.query_names
            raise UnknownNameError("unknown query", repr(name), did_you_mean(str(name), names, f"queries are {listed(names)}"))
        return live

    def parse(self, request: QueryRequest, history: bool = True) -> LiveQuery:
        """The request as a query over these streams that has no batch yet."""
        query = parse_query(request.name, request.text, self.streams_by_name, dict(request.windows), request.computed)
        if (query.outer is None) != (request.outer is None):
            hint = "declare it with clash.Engine, which starts a query of Spark's for them"
            raise OptionError("aggregates and DISTINCT need Spark", f"query {request.name}", hint)
        return LiveQuery(request, query, history=history)

    @property
    def needed(self) -> set[str]:
        """The streams that queries read, and those that are retained for queries to come; no tables."""
        retained = {stream.name for stream in self.streams if stream.keep == "all"}
        return retained | {relation.stream for branch in self.branches for relation in branch.streams}

    # ---- planning ----------------------------------------------------------------------------------------------

    def fits(self, plan: LogicalPlan) -> bool:
        """Whether the plan is one for these queries and workers."""
        planned, branches = {query.name: query for query in plan.queries}, self.branches
        same_queries = planned.keys() == {branch.name for branch in branches} and all(b.means(planned[b.name]) for b in branches)
        return plan.workers == self.workers and same_queries

    def has_plan_of(self, other: Setup) -> bool:
        """Whether both would be planned alike: streams that no query reads, and sinks, do not matter to a plan."""
        if self.query_names != other.query_names or any(getattr(self, name) != getattr(other, name) for name in _OPTIONS):
            return False
        return all(mine.query.means(its.query) for mine, its in zip(self.queries, other.queries, strict=True))

    def optimize(
        self,
        statistics: Statistics | None,
        time_limit: float = 0,
        start: LogicalPlan | None = None,
        solver: SolverProcess | None = None,
    ) -> LogicalPlan:
        """A plan for the set-up. Without a time limit it is the heuristic's, which never waits for the solver."""
        request = PlanRequest(
            statistics=normal_statistics(statistics or Statistics(), self.read_streams),
            streams=self.read_streams,
            windows={query.name: dict(query.request.windows) for query in self.queries},
            declared=True,
            workers=self.workers,
            strategy=self.strategy,
            formulation="compact",
            cost=self.cost,
            layouts=self.layouts,
            mirs=self.mirs,
            time_limit=float(time_limit),
            gap=_GAP,
        )
        return plan_queries(self.branches, request, start=start, solver=solver)


Arrange = Callable[[LiveQuery], tuple[LiveQuery, ...]]


def differences(before: Setup, after: Setup) -> list[str]:
    """What changes from one set-up to the other, in words."""
    old, new = {q.name: q for q in before.queries}, {q.name: q for q in after.queries}
    changes = [f"query {name} removed" for name in old if name not in new]
    for name, query in new.items():
        if name not in old:
            changes.append(f"query {name} added" + ("" if query.history else " without history"))
        elif query.batch is None:
            changes.append(f"query {name} replaced" + ("" if query.history else " without history"))
        elif query.request.final_sink != old[name].request.final_sink:
            changes.append(f"query {name} writes elsewhere")
    old_streams, new_streams = before.streams_by_name, after.streams_by_name
    for name in sorted(old_streams.keys() & new_streams.keys()):
        changes += stream_differences(old_streams[name], new_streams[name])
    changes += _each("added", new_streams, new_streams.keys() - old_streams.keys())
    changes += _each("removed", old_streams, old_streams.keys() - new_streams.keys())
    return changes + [
        f"{name} {getattr(before, name)} → {getattr(after, name)}" for name in _OPTIONS if getattr(before, name) != getattr(after, name)
    ]


def _each(what: str, streams: Mapping[str, Stream], names: Iterable[str]) -> list[str]:
    return [f"{streams[name].kind} {name} {what}" for name in sorted(names)]
