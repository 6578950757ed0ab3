"""Random histories in which some streams are tables instead: what came as their rows are rows of versions."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from clash.model.stream import Stream

from .case import Ask, Batch, Case, Change, Program, Row

_HINT = re.compile(r"/\*\+ WINDOW\(.*?\) \*/ ", re.DOTALL)


def with_tables(rng: Random, case: Case) -> Case:
    """The case with at least one table, if every query keeps a stream then; otherwise the case as it is."""
    read = [{relation.stream for relation in case.parse(ask).join.relations} for ask in case.asks]
    tables: set[str] = set()
    candidates = [stream.name for stream in case.first_streams]
    rng.shuffle(candidates)
    for name in candidates:
        if rng.random() < 0.7 and any(name in names for names in read) and not any(names <= {*tables, name} for names in read):
            tables.add(name)
    if not tables or case.evolves:
        return case
    streams = tuple(Stream.table(s.name, dict(s.columns)) if s.name in tables else s for s in case.streams)
    versions = {name: _versions(rng, case, name) for name in sorted(tables)}
    batches = tuple(_batch(case, batch, tables, {n: v[at] for n, v in versions.items()}) for at, batch in enumerate(case.batches))
    return replace(case, streams=streams, queries=tuple(_ask(case, ask, tables) for ask in case.queries), batches=batches)


def _versions(rng: Random, case: Case, name: str) -> list[tuple[Row, ...] | None]:
    """Per batch the rows from then on; None where they stay. Rows come, go, and occur more than once."""
    pool = [row for batch in case.batches for row in batch.rows.get(name, ())]
    now = [row for row in pool if rng.random() < 0.5]
    versions: list[tuple[Row, ...] | None] = [tuple(now)]
    share = rng.choice([0.1, 0.5, 0.9])
    for _ in case.batches[1:]:
        if rng.random() < share:
            gone = rng.choice([0.0, 0.2, 0.8, 1.0])
            now = [row for row in now if rng.random() >= gone] + [row for row in pool if rng.random() < rng.choice([0.0, 0.2, 0.6])]
            rng.shuffle(now)
            versions.append(tuple(now))
        else:
            versions.append(None)
    return versions


def _batch(case: Case, batch: Batch, tables: set[str], versions: dict[str, tuple[Row, ...] | None]) -> Batch:
    changes = [_change(case, change, tables) for change in batch.changes]
    return replace(
        batch,
        rows={name: rows for name, rows in batch.rows.items() if name not in tables},
        tables={name: rows for name, rows in versions.items() if rows is not None},
        changes=tuple(change for change in changes if change is not None),
        program=_program(case, batch.program, tables),
        second=_program(case, batch.second, tables),
    )


def _change(case: Case, change: Change, tables: set[str]) -> Change | None:
    if change.kind == "options" and change.name in tables:
        return None
    return change if change.ask is None else replace(change, ask=_ask(case, change.ask, tables))


def _program(case: Case, program: Program | None, tables: set[str]) -> Program | None:
    return None if program is None else replace(program, queries=tuple(_ask(case, ask, tables) for ask in program.queries))


def _ask(case: Case, ask: Ask, tables: set[str]) -> Ask:
    """Without windows of tables."""
    query = case.parse(ask)
    of_tables = {alias for alias, relation in query.aliases if relation.stream in tables} | tables
    if not query.join.relations or not any(relation.stream in tables for relation in query.join.relations):
        return ask
    return replace(ask, text=_HINT.sub("", ask.text), windows=tuple(pair for pair in ask.windows if pair[0] not in of_tables))
