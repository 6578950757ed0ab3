"""The set-up: the streams, the live queries, the workers and the options of planning at one time.

Invariant: a change is a function from one set-up to the next, and refuses what cannot be before anything runs under it. The job of a
program, calls at run time and a restart all become set-ups, so there is one way to change. A live query is parsed once, when it is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from clash.coordinator.control.job import JobSpec, QueryRequest, refuse_duplicates, refuse_taken_name
from clash.errors import OptionError
from clash.hints import did_you_mean, listed
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan, PlanRequest
from clash.plan.options import CostName, LayoutRule, StrategyName, check_workers
from clash.planner.optimize import plan_queries
from clash.planner.solver import SolverProcess
from clash.sql import parse_query
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

    @property
    def name(self) -> str:
        return self.request.name

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
            raise OptionError("there is a query of that name already", repr(request.name), hint)
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
        refuse_taken_name(stream.name, self.streams_by_name)
        return replace(self, streams=(*self.streams, stream))

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
    def streams_by_name(self) -> dict[str, Stream]:
        return {stream.name: stream for stream in self.streams}

    def query(self, name: str) -> LiveQuery:
        live = next((query for query in self.queries if query.name == name), None)
        if live is None:
            names = self.query_names
            raise OptionError("unknown query", repr(name), did_you_mean(str(name), names, f"queries are {listed(names)}"))
        return live

    def parse(self, request: QueryRequest, history: bool = True) -> LiveQuery:
        """The request as a query over these streams that has no batch yet."""
        return LiveQuery(request, parse_query(request.name, request.text, self.streams_by_name, dict(request.windows)), history=history)

    @property
    def needed(self) -> set[str]:
        """The streams that queries read, and those that are retained for queries to come."""
        retained = {stream.name for stream in self.streams if stream.keep == "all"}
        return retained | {relation.stream for live in self.queries for relation in live.query.join.relations}

    # ---- planning ----------------------------------------------------------------------------------------------

    def fits(self, plan: LogicalPlan) -> bool:
        """Whether the plan is one for these queries and workers."""
        windows = {name: tuple(given.items()) for name, given in plan.request.windows.items()}
        planned = {query.name: QueryRequest(query.name, query.text, windows.get(query.name, ())).meaning for query in plan.queries}
        return plan.workers == self.workers and planned == {query.name: query.request.meaning for query in self.queries}

    def has_plan_of(self, other: Setup) -> bool:
        """Whether both would be planned alike: streams that no query reads, and sinks, do not matter to a plan."""

        def relevant(setup: Setup) -> tuple[object, ...]:
            return [(query.name, query.request.meaning) for query in setup.queries], *(getattr(setup, name) for name in _OPTIONS)

        return relevant(self) == relevant(other)

    def optimize(
        self,
        statistics: Statistics | None,
        time_limit: float = 0,
        start: LogicalPlan | None = None,
        solver: SolverProcess | None = None,
    ) -> LogicalPlan:
        """A plan for the set-up. Without a time limit it is the heuristic's, which never waits for the solver."""
        request = PlanRequest(
            statistics=normal_statistics(statistics or Statistics(), self.streams_by_name),
            streams=self.streams_by_name,
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
        return plan_queries(tuple(live.query for live in self.queries), request, start=start, solver=solver)


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
        elif query.request.sink != old[name].request.sink:
            changes.append(f"query {name} writes elsewhere")
    changes += _each("stream", "added", set(after.streams_by_name) - set(before.streams_by_name))
    changes += _each("stream", "removed", set(before.streams_by_name) - set(after.streams_by_name))
    return changes + [
        f"{name} {getattr(before, name)} → {getattr(after, name)}" for name in _OPTIONS if getattr(before, name) != getattr(after, name)
    ]


def _each(kind: str, what: str, names: Iterable[str]) -> list[str]:
    return [f"{kind} {name} {what}" for name in sorted(names)]
