"""Random histories of tests/oracle, made fit for Spark, where a batch is a file of each stream and time passes by itself.

Invariant: what a history must give follows from its seed alone. All rows and columns are retained and no window is longer than its
stream's, so every query is complete from its first batch on; every row has a time of its own and no stream is idle, so the machine's clock
counts for nothing. Every batch begins an epoch, with its own plan; every life of a query has a name of its own, to be read by at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from clash.model.stream import Stream
from clash.sql import parse_query

from ..oracle.case import Ask, Batch, Case, Change, Life, table
from ..oracle.histories import random_history
from .shapes import set_age

MAX_BATCHES = 8
_HINT = re.compile(r"/\*\+ WINDOW\([^)]*\) \*/ ")


def history(seed: int) -> Case:
    return fitted(random_history(Random(seed)), seed)


def fitted(case: Case, seed: int) -> Case:
    """The history made fit; `seed`: for what it lacks."""
    streams = tuple(replace(stream, keep="all", idle=None) for stream in case.streams)
    if any(stream.time is None for stream in streams):
        raise AssertionError(f"history {seed} has a stream without a time column")
    by_name = {stream.name: stream for stream in streams}
    draw = Random(seed)
    names = _Names([ask.name for ask in case.queries])
    batches = []
    for number, batch in enumerate([batch for batch in case.batches if not batch.quiet][:MAX_BATCHES]):
        changes = tuple(made for change in batch.changes for made in names.renamed(change, by_name))
        plan_seed = draw.randrange(10**6) if number and batch.plan_seed is None else batch.plan_seed
        batches.append(Batch(batch.now, batch.rows, changes=changes, plan_seed=plan_seed))
    strategy = "global" if case.setting.strategy == "independent" else case.setting.strategy  # stores of one's own keep nothing for others
    queries = tuple(_within(ask, by_name) for ask in case.queries)
    return Case(streams, queries, tuple(batches), replace(case.setting, epoch=1, strategy=strategy, adaptive=False))


class _Names:
    """`live`: by the name in the random history, the name that its life has here."""

    def __init__(self, first: list[str]) -> None:
        self.live = {name: name for name in first}
        self.used = set(first)

    def renamed(self, change: Change, streams: Mapping[str, Stream]) -> Iterator[Change]:
        if change.kind == "rescale":
            yield change
        elif change.ask is None:
            if change.name in self.live and len(self.live) > 1:  # some histories leave out changes that others build on
                yield Change("remove", name=self.live.pop(change.name))
        elif (change.ask.name in self.live) == (change.kind == "replace"):
            before = self.live.get(change.ask.name)
            yield Change("add", _within(replace(change.ask, name=self._next(change.ask.name)), streams), history=change.history)
            if before is not None:
                yield Change("remove", name=before)  # after the other: the last query stays

    def _next(self, name: str) -> str:
        free = next(f"{name}_{n}" if n else name for n in range(100) if (f"{name}_{n}" if n else name) not in self.used)
        self.used.add(free)
        self.live[name] = free
        return free


def _within(ask: Ask, streams: Mapping[str, Stream]) -> Ask:
    """The query, without its windows if one of them is longer than its stream's: what came before it would be gone."""
    for relation, window in parse_query(ask.name, ask.text, streams, dict(ask.windows)).join.windows:
        longest = streams[relation.stream].window
        if longest is not None and (window is None or window > longest):
            return Ask(ask.name, _HINT.sub("", ask.text))
    return ask


def lives(case: Case) -> list[Life]:
    found = {ask.name: Life(ask) for ask in case.queries}
    for number, batch in enumerate(case.batches):
        for change in batch.changes:
            if change.kind == "add" and change.ask is not None:
                found[change.ask.name] = Life(change.ask, number, None, change.history)
            elif change.kind == "remove":
                found[change.name] = replace(found[change.name], end=number)
    return [life for life in found.values() if life.end != life.first]  # else it never ran


def handed(case: Case) -> str:
    """The query whose results go to a function. A new start has to be given that, so it is one that the program lists: that which lives
    longest."""
    first = [life for life in lives(case) if life.first == 0]
    return max(first, key=lambda life: len(case.batches) if life.end is None else life.end).ask.name


def deliver(folder: Path, case: Case) -> None:
    """File i of every stream is batch i, also where it has no rows."""
    for stream in case.streams:
        (folder / stream.name).mkdir(parents=True)
        for number, batch in enumerate(case.batches):
            file = folder / stream.name / f"{number:03d}.parquet"
            pq.write_table(table(stream, batch.rows.get(stream.name, ())), file)
            set_age(file, number)
