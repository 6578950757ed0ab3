"""A program that starts again: what it asks for now, beside what it asked for at its last start.

Invariant: only what the *program* changed since its last start is a change. What calls changed at run time stays so: queries that were
added, removed or replaced, and the number of workers. A query that is live already under the same text is that query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from clash.coordinator.checkpoint.generation import Generation
from clash.coordinator.control.job import FORMAT, Asked, Job, refuse_twice
from clash.coordinator.control.setup import Live, Setup
from clash.errors import CheckpointError
from clash.model.durations import show_duration
from clash.model.stream import Stream
from clash.plan.json_codecs import stream_to_json


def check_format(recorded: Mapping[str, Any], uri: str) -> None:
    if recorded.get("format") != FORMAT:
        raise CheckpointError(
            "the checkpoint was written by another version of clash",
            f"{uri} has format {recorded.get('format')}, this version writes {FORMAT}",
            "use another checkpoint folder, or the version that wrote it",
        )


def check_timezone(recorded: str, now: str, uri: str) -> None:
    if recorded != now:
        raise CheckpointError(
            "the checkpoint belongs to another job",
            f"{uri}: timezone was {recorded!r}, now {now!r}",
            "set spark.sql.session.timeZone as it was, or use another checkpoint folder",
        )


def restarted(generation: Generation, job: Job, uri: str) -> Setup:
    """The set-up that the program wants now."""
    running, last = generation.setup, generation.program
    before = {data["name"]: Asked.from_json(data) for data in last["queries"]}
    now = {asked.name: asked for asked in job.queries}
    queries = []
    for live in running.queries:
        asked, was = now.get(live.name), before.get(live.name)
        if asked is None and was is not None:
            continue  # the program has dropped it
        if asked is None or (was is not None and was.meaning == asked.meaning and live.asked.meaning != asked.meaning):
            queries.append(live)  # of a call at run time: it stays
        elif live.asked.meaning == asked.meaning:
            same_sink = was is not None and was.sink == asked.sink
            queries.append(live if same_sink or live.asked.sink == asked.sink else replace(live, asked=asked))
        else:
            queries.append(Live(asked))
    there = {query.name for query in queries}
    for name, asked in now.items():
        removed = name in before and before[name].meaning == asked.meaning and name not in running.names
        if name not in there and not removed:
            queries.append(Live(asked))
    options = {name: value for name, value in job.to_json()["options"].items() if value != last["options"].get(name)}
    after = replace(running, queries=tuple(queries), streams=job.streams, **options)
    refuse_twice(after.streams, [query.asked for query in after.queries])
    kept = {query.name for query in queries if query.batch is not None}
    read = {relation.stream for query in generation.plan.queries if query.name in kept for relation in query.join.relations}
    found = [*_streams(running, after, read), *_strategy(running, after)]
    if found:
        raise CheckpointError(
            "the checkpoint belongs to another job",
            f"{uri}: {'; '.join(found[:5])}" + (f"; and {len(found) - 5} more" if len(found) > 5 else ""),
            "declare the streams as they were, or use another checkpoint folder",
        )
    return after


def _strategy(old: Setup, new: Setup) -> Iterable[str]:
    if old.strategy != new.strategy and "independent" in (old.strategy, new.strategy):
        yield f"strategy was {old.strategy!r}, now {new.strategy!r}: their stores are not the same"


def _streams(old: Setup, new: Setup, read: set[str]) -> Iterable[str]:
    """Streams may be new, and those that no query reads may be missing; else they have to be what they were."""
    for name, stream in old.by_name.items():
        now = new.by_name.get(name)
        if now is None and name in read:
            yield f"stream {name} is missing"
        elif now is not None:
            yield from _columns(stream, now)


def _columns(old: Stream, new: Stream) -> Iterable[str]:
    name, before, now = old.name, dict(old.columns), dict(new.columns)
    for column in sorted({*before, *now}):
        if column not in now:
            yield f"column {name}.{column} is missing"
        elif column not in before:
            yield f"column {name}.{column} is new"
        elif before[column] != now[column]:
            yield f"column {name}.{column} was {before[column]}, now {now[column]}"
    was, is_ = stream_to_json(old), stream_to_json(new)
    for what in was:
        if what != "columns" and was[what] != is_[what]:
            yield f"{what} of stream {name} was {_shown(what, was[what])}, now {_shown(what, is_[what])}"


def _shown(what: str, value: Any) -> str:
    """As a user writes it, not as it is recorded."""
    return repr(show_duration(value)) if what in ("window", "lateness", "idle") and value is not None else repr(value)
