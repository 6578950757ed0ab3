"""What is asked for after a change, and after another program has started: by the words of docs/changing.md alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clash.errors import QueryError
from clash.model.stream import Stream
from clash.sql import parse_query

from .case import Ask, Change, Program

Live = Mapping[str, Ask]


def after(change: Change, live: Live) -> dict[str, Ask]:
    if change.ask is not None:
        return {**live, change.ask.name: change.ask}
    return {name: ask for name, ask in live.items() if change.kind != "remove" or name != change.name}


def all_after(changes: tuple[Change, ...], live: Live) -> dict[str, Ask]:
    for change in changes:
        live = after(change, live)
    return dict(live)


def started(live: Live, last: Program, now: Program) -> tuple[Change, ...]:
    """What a program changes by its start. It is compared with itself at its `last` start, so what was done at run time stays done where it
    lists the same; what it no longer lists goes; what is live as it says is that query, and lives on."""
    then, lists = ({ask.name: ask for ask in program.queries} for program in (last, now))
    found = [Change("remove", name=name) for name in then if name not in lists and name in live]
    for name, ask in lists.items():
        if same(then.get(name), ask) or same(live.get(name), ask):
            continue
        found.append(Change("replace" if name in live else "add", ask))
    if now.workers != last.workers:
        found.append(Change("rescale", workers=now.workers))
    return tuple(found)


def changed_streams(change: Change, runs: Mapping[str, Stream]) -> tuple[Stream, ...]:
    """The streams that a change declares otherwise."""
    if change.kind == "options" and change.name in runs:
        return (runs[change.name].with_options(**dict(change.options)),)  # type: ignore[arg-type]
    return change.streams


def readable(ask: Ask, streams: Mapping[str, Stream]) -> bool:
    """Are the streams and columns of a query there?"""
    try:
        parse_query(ask.name, ask.text, streams, dict(ask.windows))
    except QueryError:
        return False
    return True


def merged(listed: Mapping[str, Stream], last: Mapping[str, Stream], runs: Mapping[str, Stream]) -> dict[str, Stream]:
    """The streams as a program wants them. Options that it declares as at its `last` start stay as they are, whoever changed them."""
    found = {}
    for name, stream in listed.items():
        if name in last and name in runs:
            kept = [option for option in ("window", "lateness", "idle", "keep") if getattr(stream, option) == getattr(last[name], option)]
            stream = replace(stream, **{option: getattr(runs[name], option) for option in kept})
        found[name] = stream
    return found


def same(one: Ask | None, other: Ask) -> bool:
    return one is not None and one.text.split() == other.text.split() and sorted(one.windows) == sorted(other.windows)
