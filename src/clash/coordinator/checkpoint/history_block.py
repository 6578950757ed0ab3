"""A block of the generation history: consecutive generations in few bytes, and the queries that ended with them.

Invariant: `unpack_generations` and `unpack_queries` give what was packed. A generation's list of queries is stored as its difference from
the list before, because a change concerns few of them: a block stays small however many queries are live. Queries are packed as JSON data:
the last block is packed anew with every generation, and encoding a query takes longer than all the rest.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clash.codec import Codec, dump
from clash.coordinator.checkpoint.generation_outline import EndedGeneration, GenerationOutline, MeasuredCost
from clash.coordinator.control.setup import LiveQuery
from clash.plan.codecs import SHARED

_MAX_BYTES = 1 << 28  # of a part of a block, unpacked; a larger one was not written by us


@dataclass(frozen=True)
class HistoryBlock:
    """A block as it is stored."""

    first: int
    """Its first generation."""
    last: int
    names: tuple[str, ...]
    """Of the queries that ended, each once: a block is searched for a name without being unpacked."""
    generations: bytes
    queries: bytes


@dataclass(frozen=True)
class _Row:
    """A generation; its number follows from its place."""

    batch: int
    reason: str
    head: int
    """So many queries are the first ones of the list before,"""
    between: tuple[str, ...]
    """then come these,"""
    tail: int
    """and so many are the last ones of the list before."""
    workers: int
    stores: int
    cost: float
    measured: MeasuredCost
    predicted_old: float | None = None
    predicted_new: float | None = None


_ROWS: Codec[tuple[_Row, ...]] = Codec(tuple[_Row, ...], compact=True)
_QUERY: Codec[LiveQuery] = Codec(LiveQuery, SHARED, compact=True)


class EndedQuery(NamedTuple):
    """A query that the generation after its last one does not have."""

    name: str
    data: Any

    @staticmethod
    def of(query: LiveQuery) -> EndedQuery:
        return EndedQuery(query.name, _QUERY.encode(query))

    def decode(self) -> LiveQuery:
        """ValueError if the data is damaged."""
        return _QUERY.decode(self.data)


def pack(generations: Sequence[EndedGeneration], queries: Sequence[EndedQuery]) -> HistoryBlock:
    """`generations` have consecutive numbers; `queries` are in the order in which they ended."""
    return HistoryBlock(
        first=generations[0].outline.generation,
        last=generations[-1].outline.generation,
        names=tuple(dict.fromkeys(query.name for query in queries)),
        generations=_deflate(_ROWS.dumps(tuple(_rows(generations)))),
        queries=_deflate(dump(queries)),
    )


def unpack_generations(block: HistoryBlock) -> list[EndedGeneration]:
    """ValueError if the block is damaged."""
    rows = _ROWS.loads(_inflate(block.generations))
    if len(rows) != block.last - block.first + 1:
        raise ValueError(f"{len(rows)} generations for the numbers {block.first} to {block.last}")
    return list(_generations(block.first, rows))


def unpack_queries(block: HistoryBlock) -> list[EndedQuery]:
    """ValueError if the block is damaged."""
    queries = json.loads(_inflate(block.queries))
    try:
        return [EndedQuery(str(name), data) for name, data in queries]
    except TypeError as error:
        raise ValueError(str(error)) from error


def _rows(generations: Iterable[EndedGeneration]) -> Iterator[_Row]:
    before: list[str] = []
    for outline, measured in generations:
        now = outline.queries
        shorter = min(len(before), len(now))
        head = next((at for at in range(shorter) if before[at] != now[at]), shorter)
        rest = shorter - head
        tail = next((at for at in range(rest) if before[-1 - at] != now[-1 - at]), rest)
        yield _Row(
            batch=outline.batch,
            reason=outline.reason,
            head=head,
            between=tuple(now[head : len(now) - tail]),
            tail=tail,
            workers=outline.workers,
            stores=outline.stores,
            cost=outline.cost,
            measured=measured,
            predicted_old=outline.predicted_old,
            predicted_new=outline.predicted_new,
        )
        before = now


def _generations(first: int, rows: Iterable[_Row]) -> Iterator[EndedGeneration]:
    before: list[str] = []
    for number, row in enumerate(rows, first):
        queries = [*before[: row.head], *row.between, *before[len(before) - row.tail :]]
        outline = GenerationOutline(
            generation=number,
            batch=row.batch,
            reason=row.reason,
            queries=queries,
            workers=row.workers,
            stores=row.stores,
            cost=row.cost,
            predicted_old=row.predicted_old,
            predicted_new=row.predicted_new,
        )
        yield EndedGeneration(outline, row.measured)
        before = queries


def _deflate(text: str) -> bytes:
    return zlib.compress(text.encode(), 9)


def _inflate(content: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(content, _MAX_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not inflater.eof:
        raise ValueError("its end is missing" if not inflater.unconsumed_tail else f"more than {_MAX_BYTES:,} bytes")
    return text
