"""A program that starts again: what it declares now, compared with what it declared at its last start.

Invariant: only what the *program* changed since its last start is a change. What calls changed at run time stays: queries that were added,
removed or replaced, options of streams, and the number of workers. A query that is live already under the same text is that query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from clash.coordinator.control.job import JobSpec, ProgramRecord, QueryRequest, refuse_duplicates
from clash.coordinator.control.setup import LiveQuery, Setup
from clash.coordinator.control.stream_changes import merge_options, refused_differences
from clash.errors import CheckpointError
from clash.model.query import Query

_OPTIONS = ("workers", "strategy", "cost", "layouts", "mirs")
_MAX_SHOWN = 5
_POSSIBLE = (
    "declare it as it was, or first remove the queries that read it, in a start of their own; columns that no query reads, window, "
    "lateness, idle and keep may change at any start; for anything else use another checkpoint folder"
)


def setup_after_restart(running: Setup, last: ProgramRecord, job: JobSpec, uri: str, committed: Setup | None = None) -> Setup:
    """The set-up that the program wants now. `running`: the set-up of the checkpoint; `last`: what the program declared at its last
    start; `committed`: the set-up of the last committed batch, where the running one has no batch yet."""
    queries = _queries(running, last, job.queries)
    options = {name: getattr(job, name) for name in _OPTIONS if getattr(job, name) != getattr(last, name)}
    listed = {stream.name: stream for stream in last.streams}
    streams = [merge_options(stream, listed.get(stream.name), running.streams_by_name.get(stream.name)) for stream in job.streams]
    after = replace(running, queries=(), streams=tuple(streams), **options)
    refuse_duplicates(after.streams, [query.request if isinstance(query, LiveQuery) else query for query in queries])
    continuing = [branch for query in queries if isinstance(query, LiveQuery) for branch in query.query.branches]
    before = [running] if committed is None or committed == running else [running, committed]
    conflicts = [*dict.fromkeys(_stream_conflicts(before, after, continuing)), *_strategy_conflicts(running, after)]
    if conflicts:
        raise CheckpointError(
            "the checkpoint belongs to another job",
            f"{uri}: {'; '.join(conflicts[:_MAX_SHOWN])}"
            + (f"; and {len(conflicts) - _MAX_SHOWN} more" if len(conflicts) > _MAX_SHOWN else ""),
            _POSSIBLE,
        )
    names = after.streams_by_name
    return replace(after, queries=tuple(query.over(names) if isinstance(query, LiveQuery) else after.parse(query) for query in queries))


def _queries(running: Setup, last: ProgramRecord, declared: Iterable[QueryRequest]) -> list[LiveQuery | QueryRequest]:
    """The queries to run: those that continue, and requests for those that begin."""
    before = {request.name: request for request in last.queries}
    now = {request.name: request for request in declared}
    queries: list[LiveQuery | QueryRequest] = []
    for live in running.queries:
        request, was = now.get(live.name), before.get(live.name)
        if request is None and was is not None:
            continue  # the program has dropped it
        if request is None or (was is not None and was.meaning == request.meaning and live.request.meaning != request.meaning):
            queries.append(live)  # of a call at run time: it stays
        elif live.request.meaning == request.meaning:
            same_sink = was is not None and was.final_sink == request.final_sink
            queries.append(live if same_sink or live.request.final_sink == request.final_sink else replace(live, request=request))
        else:
            queries.append(request)
    names = {query.name for query in queries}
    for name, request in now.items():
        removed_at_run_time = name in before and before[name].meaning == request.meaning and name not in running.query_names
        if name not in names and not removed_at_run_time:
            queries.append(request)
    return queries


def _strategy_conflicts(old: Setup, new: Setup) -> Iterable[str]:
    if old.strategy != new.strategy and "independent" in (old.strategy, new.strategy):
        yield f"strategy was {old.strategy!r}, now {new.strategy!r}: their stores are not the same"


def _stream_conflicts(before: Iterable[Setup], after: Setup, continuing: Iterable[Query]) -> Iterable[str]:
    """Streams may be new, and those that no query reads may be missing; otherwise stored rows and running queries say what may change."""
    continuing = tuple(continuing)
    read = {relation.stream for query in continuing for relation in query.join.relations}
    for setup in before:
        for name, stream in setup.streams_by_name.items():
            now = after.streams_by_name.get(name)
            if now is None and name in read:
                yield f"{stream.kind} {name} is missing"
            elif now is not None:
                yield from refused_differences(stream, now, setup.branches, continuing)
