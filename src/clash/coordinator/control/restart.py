"""A program that starts again: what it declares now, compared with what it declared at its last start.

Invariant: only what the *program* changed since its last start is a change. What calls changed at run time stays: queries that were added,
removed or replaced, and the number of workers. A query that is live already under the same text is that query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from clash.coordinator.control.job import JobSpec, ProgramRecord, QueryRequest, refuse_duplicates
from clash.coordinator.control.setup import LiveQuery, Setup
from clash.errors import CheckpointError
from clash.model.durations import show_duration
from clash.model.stream import Stream

_OPTIONS = ("workers", "strategy", "cost", "layouts", "mirs")
_MAX_SHOWN = 5


def setup_after_restart(running: Setup, last: ProgramRecord, job: JobSpec, uri: str) -> Setup:
    """The set-up that the program wants now. `running`: the set-up of the checkpoint; `last`: what the program declared at its last
    start."""
    queries = _queries(running, last, job.queries)
    options = {name: getattr(job, name) for name in _OPTIONS if getattr(job, name) != getattr(last, name)}
    after = replace(running, queries=(), streams=job.streams, **options)
    refuse_duplicates(after.streams, [query.request if isinstance(query, LiveQuery) else query for query in queries])
    continuing = [query for query in queries if isinstance(query, LiveQuery)]
    read = {relation.stream for live in continuing for relation in live.query.join.relations}
    conflicts = [*_stream_conflicts(running, after, read), *_strategy_conflicts(running, after)]
    if conflicts:
        raise CheckpointError(
            "the checkpoint belongs to another job",
            f"{uri}: {'; '.join(conflicts[:_MAX_SHOWN])}"
            + (f"; and {len(conflicts) - _MAX_SHOWN} more" if len(conflicts) > _MAX_SHOWN else ""),
            "declare the streams as they were, or use another checkpoint folder",
        )
    return replace(after, queries=tuple(query if isinstance(query, LiveQuery) else after.parse(query) for query in queries))


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
            same_sink = was is not None and was.sink == request.sink
            queries.append(live if same_sink or live.request.sink == request.sink else replace(live, request=request))
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


def _stream_conflicts(old: Setup, new: Setup, read: set[str]) -> Iterable[str]:
    """Streams may be new, and those that no query reads may be missing; otherwise they have to be what they were."""
    for name, stream in old.streams_by_name.items():
        now = new.streams_by_name.get(name)
        if now is None and name in read:
            yield f"stream {name} is missing"
        elif now is not None:
            yield from _differences(stream, now)


def _differences(old: Stream, new: Stream) -> Iterable[str]:
    name, before, now = old.name, dict(old.columns), dict(new.columns)
    for column in sorted({*before, *now}):
        if column not in now:
            yield f"column {name}.{column} is missing"
        elif column not in before:
            yield f"column {name}.{column} is new"
        elif before[column] != now[column]:
            yield f"column {name}.{column} was {before[column]}, now {now[column]}"
    for field in fields(Stream):
        was, is_now = getattr(old, field.name), getattr(new, field.name)
        if field.name != "columns" and was != is_now:
            yield f"{field.name} of stream {name} was {_shown(field.name, was)}, now {_shown(field.name, is_now)}"


def _shown(field: str, value: Any) -> str:
    """As a user writes it, not as it is recorded."""
    return repr(show_duration(value)) if field in ("window", "lateness", "idle") and value is not None else repr(value)
