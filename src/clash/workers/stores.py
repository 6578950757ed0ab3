"""A worker's stores during one round: committed containers, what this batch wrote before, and what arrives now.

Invariant: all rows that a store gets in a round are in before it is first probed (positions see to that). They become one new
container, together with the newest old ones if those are not much larger, so a store has few containers, of falling sizes: a row is
rewritten, and a probe looks, about log₂(state / batch) times. What was merged is told to the driver; only its manifest removes it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow as pa

from clash.blocks.index import Index, build_index
from clash.blocks.words import key_words
from clash.driver.work import ContainerRecord, Work
from clash.model.relation import Attribute
from clash.state.container import Container, read_container, write_container
from clash.state.storage import open_storage
from clash.workers.blocks import ARRIVAL, TAU, Block, Ints, as_time, concat, of_batch, part_tau, stored_name
from clash.workers.program import Copy, Program

_LIVES = 8  # a merged container's rows expire within 1/8 of the horizon of one another, so that whole files expire
_cache: dict[tuple[str, str], Container] = {}  # containers never change: a process may keep what it has mapped


@dataclass(frozen=True)
class Stored:
    """An open container, read in the terms of a program."""

    record: ContainerRecord
    copy: Copy
    program: Program
    block: Block
    indexes: dict[str, Index]

    def column(self, attribute: Attribute) -> pa.Array:
        return _column(self.program, self.copy, self.block, attribute)

    def ints(self, name: str) -> Ints:
        return self.block.ints(name)

    def index(self, path: str) -> Index:
        if path not in self.indexes:
            self.indexes[path] = _index(self.program, self.copy, self.block, path)
        return self.indexes[path]


def _column(program: Program, copy: Copy, block: Block, attribute: Attribute) -> pa.Array:
    """The stored column that an attribute of a query reads."""
    if copy.store.join is not None:
        return block.columns[str(attribute)]
    if program.is_time(attribute):
        return as_time(block.columns[TAU], program.field(attribute).type)
    return block.columns[stored_name(attribute)]


def _index(program: Program, copy: Copy, block: Block, path: str) -> Index:
    columns = copy.paths[path]
    found = key_words([_column(program, copy, block, a) for a, _ in columns], [kind for _, kind in columns], program.timezone)
    return build_index(found.words, found.valid)


class Stores:
    def __init__(self, work: Work, worker: int, number: int) -> None:
        self.work, self.worker, self.round, self.program = work, worker, number, work.program
        self.storage = open_storage(work.uri)
        self.live: dict[tuple[str, int], list[ContainerRecord]] = {}
        for record in work.containers:
            if record.slot == worker:
                self.live.setdefault((record.store, record.copy), []).append(record)
        self.arrived: dict[tuple[str, int], list[Block]] = {}
        self.opened: dict[tuple[str, int], list[Stored]] = {}
        self.added: list[ContainerRecord] = []
        self.removed: list[str] = []
        known = {record.path for record in work.containers}
        for key in [key for key in _cache if key[0] == work.uri and key[1] not in known]:
            del _cache[key]

    def apply(self, added: list[ContainerRecord], removed: list[str]) -> None:
        """What this worker wrote in an earlier round of this batch."""
        for records in self.live.values():
            records[:] = [record for record in records if record.path not in removed]
        for record in added:
            self.live.setdefault((record.store, record.copy), []).append(record)

    def add(self, copy: Copy, block: Block) -> None:
        key = (copy.store.id, copy.number)
        if key in self.opened:
            raise AssertionError(f"{copy.store.id} gets rows after it was probed")
        if block.rows:
            self.arrived.setdefault(key, []).append(block.select(copy.schema.names))

    def open(self, copy: Copy) -> list[Stored]:
        """The store as a probe sees it, oldest container first."""
        key = (copy.store.id, copy.number)
        if key not in self.opened:
            fresh = self._write(copy)
            written = {stored.record.path: stored for stored in fresh}
            self.opened[key] = [written.get(record.path) or self._read(copy, record) for record in self.live.get(key, ())]
        return self.opened[key]

    def close(self) -> None:
        """Writes what arrived for stores that nobody probed in this round."""
        for store, number in list(self.arrived):
            self._write(self.program.copies[store, self.program.topology.store[store].layouts[number]])

    def _read(self, copy: Copy, record: ContainerRecord) -> Stored:
        key = (self.work.uri, record.path)
        container = _cache.get(key)
        if container is None:
            container = _cache[key] = read_container(self.storage, record.path)
        return Stored(record, copy, self.program, of_batch(container.batch), dict(container.indexes))

    def _write(self, copy: Copy) -> list[Stored]:
        key = (copy.store.id, copy.number)
        blocks = self.arrived.pop(key, [])
        if not blocks:
            return []
        block = concat(blocks)
        merged = self._partners(copy, block)
        if merged:
            old = [self._read(copy, record).block.select(copy.schema.names) for record in merged]
            block = concat([*old, block])
        batch = block.batch(copy.schema)
        indexes = {path: _index(self.program, copy, block, path) for path in copy.paths}
        name = f"b{self.work.batch:09d}-{self.work.attempt}-c{copy.number}-s{self.worker}-r{self.round}-{os.urandom(4).hex()}.clash"
        path = f"state/{copy.store.id}/{name}"
        size = write_container(self.storage, path, batch, indexes)
        record = ContainerRecord(
            path,
            copy.store.id,
            copy.number,
            self.work.generation,
            self.worker,
            block.rows,
            size,
            int(block.ints(ARRIVAL).max()),
            tuple((int(tau.min()), int(tau.max())) for tau in _taus(copy, block)),
        )
        gone = {r.path for r in merged}
        self.live[key] = [r for r in self.live.get(key, ()) if r.path not in gone] + [record]
        self.added = [r for r in self.added if r.path not in gone] + [record]
        self.removed += gone
        return [Stored(record, copy, self.program, block, indexes)]

    def _partners(self, copy: Copy, block: Block) -> list[ContainerRecord]:
        """The newest containers that are worth merging with what has arrived."""
        total = block.rows
        found: list[ContainerRecord] = []
        ends = _end(copy, [int(tau.max()) for tau in _taus(copy, block)])
        horizon = copy.store.horizon
        for record in reversed(self.live.get((copy.store.id, copy.number), ())):
            if record.rows >= 2 * total or record.rows + total > self.work.tuning.merge_rows:
                break
            if horizon is not None and ends is not None:
                other = _end(copy, [largest for _, largest in record.taus])
                if other is None or abs(ends - other) > horizon // _LIVES:
                    break
                ends = max(ends, other)
            total += record.rows
            found.append(record)
        return found[::-1]


def _taus(copy: Copy, block: Block) -> list[Ints]:
    if copy.store.join is None:
        return [block.ints(TAU)]
    names = [part_tau(relation) for relation in sorted(copy.store.join.relations)]
    return [block.ints(name) for name in names if name in block.columns]


def _end(copy: Copy, latest: list[int]) -> int | None:
    """The event time after which rows with these latest parts are needed by nobody."""
    spans = [span for _, span in copy.store.horizons]
    ends = [tau + span for tau, span in zip(latest, spans, strict=True) if span is not None] if len(spans) == len(latest) else []
    return min(ends) if ends else None
