"""Random histories in which streams change, too: columns come and go, types, windows, lateness and what is retained change, by calls and by
programs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from clash.model.stream import Stream

from .case import Case, Change, Program
from .histories import random_history
from .programs import readable

_DURATIONS = (None, "0 seconds", "1 second", "2 seconds", "5 seconds", "20 seconds")
_SHORT = ("0 seconds", "1 second", "2 seconds", "5 seconds")
_LATENESS = (None, "0 seconds", "0 seconds", "1 second", "3 seconds", "10 seconds")
_WIDENED = ("tinyint", "smallint", "int")


def evolving_history(rng: Random, most_rows: int = 24) -> Case:
    """A random history, with more to it: what it asks for otherwise is asked for as far as the streams of the time allow."""
    case = random_history(rng, most_rows)
    case = _expiring(rng, case) if rng.random() < 0.5 else case
    case = _hidden(rng, case)
    often = rng.choice([0.2, 0.4, 0.7])
    restarts = rng.choice([0.1, 0.3])
    listed = {stream.name: case.shown(stream) for stream in case.streams}
    last = Program(case.queries, case.setting.workers)
    batches = []
    for at, batch in enumerate(case.batches):
        if at and not batch.quiet:
            if not batch.restart and rng.random() < restarts:
                batch = replace(batch, restart=True)
            if batch.restart and rng.random() < 0.7:
                batch = replace(batch, program=_declaring(rng, case, batch.program or last, listed))
            if batch.second is not None and rng.random() < 0.5:
                batch = replace(batch, second=_declaring(rng, case, batch.second, listed))
            changes = [*batch.changes]
            while rng.random() < often and len(changes) < 5:
                stream = rng.choice(case.streams)
                changes.insert(rng.randint(0, len(changes)), Change("options", name=stream.name, options=_options(rng)))
            batch = replace(batch, changes=tuple(changes))
        for program in (batch.program, batch.second):
            last = last if program is None else replace(program, streams=(), declared=())
        batches.append(batch)
    return replace(case, batches=tuple(batches))


def _expiring(rng: Random, case: Case) -> Case:
    """Rows go soon: a window that becomes longer finds them gone."""
    options = [{"window": rng.choice(_SHORT), "lateness": rng.choice(["0 seconds", "1 second"]), "idle": None} for _ in case.streams]
    streams = (stream.with_options(**given) for stream, given in zip(case.streams, options, strict=True))  # type: ignore[arg-type]
    return replace(case, streams=tuple(streams))


def _hidden(rng: Random, case: Case) -> Case:
    """Some columns come later, as long as the first program has something to ask."""
    share = rng.choice([0.0, 0.2, 0.4])
    columns = [(stream.name, column) for stream in case.streams for column, _ in stream.columns[1:] if column != stream.time]
    hidden = replace(case, hidden=tuple(column for column in columns if rng.random() < share))
    shown = {stream.name: stream for stream in hidden.first_streams}
    queries = tuple(ask for ask in case.queries if readable(ask, shown))
    return replace(hidden, queries=queries) if queries else case


def _options(rng: Random) -> tuple[tuple[str, str | None], ...]:
    found: dict[str, str | None] = {}
    while not found:
        if rng.random() < 0.6:
            found["window"] = rng.choice(_DURATIONS)
        if rng.random() < 0.4:
            found["lateness"] = rng.choice(_LATENESS)
            found["idle"] = None if found["lateness"] is None else rng.choice([None, None, "2 seconds"])
        if rng.random() < 0.15:
            found["keep"] = rng.choice(["all", "needed"])
    return tuple(found.items())


def _declaring(rng: Random, case: Case, program: Program, listed: dict[str, Stream]) -> Program:
    """The program, with some streams declared otherwise; those that may not be so stay as they are."""
    declared = []
    for stream in case.streams:
        if rng.random() < 0.6:
            now = _columns(rng, listed[stream.name], stream)
            now = now.with_options(**dict(_options(rng))) if rng.random() < 0.6 else now  # type: ignore[arg-type]
            listed[stream.name] = now
            declared.append(now)
    return replace(program, declared=tuple(declared))


def _columns(rng: Random, now: Stream, whole: Stream) -> Stream:
    """Columns in the order of the whole stream: what is shown, what is hidden, what has another type."""
    kept = []
    for at, (column, kind) in enumerate(whole.columns):
        there = now.type_of(column)
        always = at == 0 or column == whole.time
        if there is None and rng.random() < 0.5:
            kept.append((column, kind))
        elif there is not None and (always or rng.random() < 0.9):
            other = "bigint" if there == kind and kind in _WIDENED else kind
            kept.append((column, other if rng.random() < 0.15 else there))
    return replace(now, columns=tuple(kept))
