"""A stream that is declared otherwise than it was: what differs, and what must not.

Invariant: stored rows stay what they are. So the type of a column that some query reads, or that `keep="all"` retains, must not change, nor
may such a column vanish while a query goes on reading it, nor may the event time become another column. Options may change at any
boundary: they say for how long rows are retained, which windows queries have, and when later rows are late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from clash.model.durations import show_duration
from clash.model.query import Query, query_of
from clash.model.stream import Stream

OPTIONS = ("window", "lateness", "idle", "keep")
Streams = Mapping[str, Stream]


def merge_options(declared: Stream, last: Stream | None, running: Stream | None) -> Stream:
    """The stream as the program wants it now. `last`: as it declared it at its last start, None where that is not known; `running`: as it
    is, perhaps by a call at run time, which stays where the program itself has changed nothing."""
    if running is None or last is None:
        return declared
    kept = [option for option in OPTIONS if getattr(declared, option) == getattr(last, option)]
    return replace(declared, **{option: getattr(running, option) for option in kept})


def stream_differences(old: Stream, new: Stream) -> Iterator[str]:
    """What differs between two declarations of a stream, in words."""
    name, before, now = new.name, dict(old.columns), dict(new.columns)
    for column in sorted({*before, *now}):
        if column not in now:
            yield f"column {name}.{column} removed"
        elif column not in before:
            yield f"column {name}.{column} added"
        elif before[column] != now[column]:
            yield f"column {name}.{column} {before[column]} → {now[column]}"
    for option in ("time", *OPTIONS):
        was, is_now = getattr(old, option), getattr(new, option)
        if was != is_now:
            yield f"{option} of stream {name} {_shown(option, was)} → {_shown(option, is_now)}"


def refused_differences(old: Stream, new: Stream, readers: Iterable[Query], continuing: Iterable[Query]) -> Iterator[str]:
    """Why stored rows or running queries forbid a declaration. `readers`: the queries that run until now; `continuing`: those of them that
    go on."""
    readers, name, types = tuple(readers), new.name, dict(new.columns)
    reading, going_on = _readers_by_column(name, readers), _readers_by_column(name, continuing)
    for column, kind in old.columns:
        now = types.get(column)
        if now is None and column in going_on:
            yield f"column {name}.{column} is missing, and query {going_on[column]} reads it"
        elif now is not None and now != kind and (used_by := _user(old, reading.get(column))) is not None:
            yield f"column {name}.{column} was {kind}, now {now}, and {used_by} it"
    reader = next((query_of(query.name) for query in readers if any(r.stream == name for r in query.join.relations)), None)
    if old.is_table != new.is_table and (used_by := _user(old, reader)) is not None:
        yield f"{name} was a {old.kind}, now a {new.kind}, and {used_by} it"
    elif old.time != new.time and (used_by := _user(old, reader)) is not None:
        yield f"time of stream {name} was {old.time!r}, now {new.time!r}, and {used_by} the stream"
    if new.idle is not None and new.lateness is None and old.lateness is not None:
        yield f"stream {name} has idle={show_duration(new.idle)!r}, but no lateness any more"


def _readers_by_column(stream: str, queries: Iterable[Query]) -> dict[str, str]:
    """By column of the stream, a query that reads it."""
    return {column: query_of(query.name) for query in queries for column in query.columns_of(stream)}


def _user(old: Stream, query: str | None) -> str | None:
    """Who has stored what is to change, in words; None where nothing has."""
    if query is not None:
        return f"query {query} reads"
    return 'keep="all" retains' if old.keep == "all" else None


def _shown(option: str, value: Any) -> str:
    """As a user writes it, not as it is recorded."""
    return repr(show_duration(value)) if option in ("window", "lateness", "idle") and value is not None else repr(value)
