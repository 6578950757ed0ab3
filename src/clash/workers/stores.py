"""A worker's stores during one round: committed containers, what this batch wrote before, and what arrives now.

Invariant: all rows that a store gets in a round are in before it is first probed (positions see to that). They become one new
container, together with those before it if they are not much larger, so a store has few containers, of falling sizes: a row is
rewritten, and a probe looks, about log₂(state / batch) times. What was merged is told to the driver; only its manifest removes it.
Containers of older generations are read (`clash.workers.older_layouts`) and never merged, but for those that the batch rewrites.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clash.columnar.index import Index, build_index
from clash.columnar.slots import slots
from clash.columnar.key_words import key_words
from clash.coordinator.lifecycle.split_points import marks
from clash.coordinator.lifecycle.relayout import trimmed
from clash.protocol.batch import ContainerRecord, Laid, Work
from clash.model.relation import Attribute, Relation
from clash.state.container import read_container, write_container
from clash.state.storage import open_storage
from clash.columnar.block import ARRIVAL, EARLIEST, NUMBER_BITS, TAU, Block, Ints, as_time, concat, of_batch, part_tau, stored_name
from clash.workers.older_layouts import seen
from clash.workers.program import Copy, Program

Bools = npt.NDArray[np.bool_]
_LIVES = 8  # a merged container's rows expire within 1/8 of the horizon of one another, so that whole files expire


class _Opened:
    """A container that a process has mapped, with what it had to work out itself: an index that the file lacks, rows by worker."""

    def __init__(self, batch: pa.RecordBatch, indexes: Mapping[str, Index]) -> None:
        self.block = of_batch(batch)
        self.indexes = dict(indexes)
        self.mine: dict[tuple[str, int, int], Bools] = {}


_cache: dict[tuple[str, str], _Opened] = {}  # containers never change


@dataclass(frozen=True)
class Stored:
    """An open container, read in the terms of a program. `worker`: whose rows count, where those of others are among them."""

    record: ContainerRecord
    copy: Copy
    program: Program
    block: Block
    opened: _Opened
    worker: int | None = None

    def column(self, attribute: Attribute) -> pa.Array:
        return _column(self.program, self.copy, self.block, attribute)

    def ints(self, name: str) -> Ints:
        return self.block.ints(name)

    def index(self, path: str) -> Index:
        if path not in self.opened.indexes:
            self.opened.indexes[path] = _index(self.program, self.copy, self.block, path)
        return self.opened.indexes[path]

    def within(self, since: int, before: int | None, rows: npt.NDArray[np.int32]) -> Bools | None:
        """Which of the rows count and arrived in the bounds; None for all."""
        since = max(since, self.record.moved)
        if self.record.first >= since and (before is None or self.record.last < before):
            return None
        arrivals = self.ints(ARRIVAL)[rows]
        return (arrivals >= since) if before is None else (arrivals >= since) & (arrivals < before)

    def rows(self, before: int) -> npt.NDArray[np.int32]:
        """The rows that count, are the worker's and arrived before."""
        arrivals = self.ints(ARRIVAL)
        counts = (arrivals >= self.record.moved) & (arrivals < before)
        mine = self.mine()
        return np.flatnonzero(counts if mine is None else counts & mine).astype(np.int32)

    def mine(self, rows: npt.NDArray[np.int32] | None = None) -> Bools | None:
        """Which of the rows today's layout gives to the worker; None for all."""
        if self.worker is None:
            return None
        key = (str(self.copy.layout), self.program.topology.workers, self.worker)
        if key not in self.opened.mine:
            self.opened.mine[key] = self._places() == self.worker
        found = self.opened.mine[key]
        return found if rows is None else found[rows]

    def _places(self) -> npt.NDArray[np.int32]:
        workers, store = self.program.topology.workers, self.copy.store
        if self.copy.layout.column is None:
            return ((self.ints(ARRIVAL) >> NUMBER_BITS) % workers).astype(np.int32)
        relation = self.copy.layout.relation if store.join is not None else Relation(str(store.stream))
        if relation is None:
            raise AssertionError(f"{store.id} is laid out by a column of nothing")
        return slots(self.column(Attribute(relation, self.copy.layout.column)), workers, self.program.timezone)


def _column(program: Program, copy: Copy, block: Block, attribute: Attribute) -> pa.Array:
    """The stored column that an attribute of a query reads."""
    if copy.store.join is not None:
        return block.columns[str(attribute)]
    if program.is_time(attribute):
        return as_time(block.columns[TAU], program.field(attribute).type)
    return block.columns[stored_name(attribute)]


def _complete(copy: Copy, block: Block) -> Block:
    """The block with columns for which nothing was kept when it was written: nobody who needs them reads its rows."""
    missing = [field for field in copy.schema if field.name not in block.columns]
    if not missing:
        return block
    empty = {f.name: pa.array(np.zeros(block.rows, np.int64)) if f.name == EARLIEST else pa.nulls(block.rows, f.type) for f in missing}
    return Block(block.rows, {**block.columns, **empty})


def _index(program: Program, copy: Copy, block: Block, path: str) -> Index:
    columns = copy.paths[path]
    found = key_words([_column(program, copy, block, a) for a, _ in columns], [kind for _, kind in columns], program.timezone)
    return build_index(found.words, found.valid)


class Stores:
    def __init__(self, work: Work, worker: int, number: int) -> None:
        self.work, self.worker, self.round, self.program = work, worker, number, work.program
        self.storage = open_storage(work.uri)
        self.live: dict[tuple[str, int], list[ContainerRecord]] = {}
        self.older: dict[str, dict[int, list[ContainerRecord]]] = {}
        for record in work.containers:
            if record.generation != self._today(record.store).generation:
                self.older.setdefault(record.store, {}).setdefault(record.generation, []).append(record)
            elif record.slot == worker:
                self.live.setdefault((record.store, record.copy), []).append(record)
        self.live = {key: _by_age(records) for key, records in self.live.items()}
        self.arrived: dict[tuple[str, int], list[Block]] = {}
        self.opened: dict[tuple[str, int], list[Stored]] = {}
        self.added: list[ContainerRecord] = []
        self.removed: list[str] = []
        known = {record.path for record in work.containers}
        for key in [key for key in _cache if key[0] == work.uri and key[1] not in known]:
            del _cache[key]
        if number == 1 and work.rewrite:
            self._rewrite()

    def _today(self, store: str) -> Laid:
        return self.work.layouts[store][-1]

    def apply(self, added: list[ContainerRecord], removed: list[str]) -> None:
        """What this worker wrote in an earlier round of this batch."""
        for records in self.live.values():
            records[:] = [record for record in records if record.path not in removed]
        for record in added:
            self.live.setdefault((record.store, record.copy), []).append(record)
        self.live = {key: _by_age(records) for key, records in self.live.items()}

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
            old = [replace(s, record=left) for s in self._older(copy) if (left := trimmed(s.record, self.work.rewrite)) is not None]
            self.opened[key] = old + [written.get(record.path) or self._read(copy, record) for record in self.live.get(key, ())]
        return self.opened[key]

    def close(self) -> None:
        """Writes what arrived for stores that nobody probed in this round."""
        for store, number in list(self.arrived):
            self._write(self.program.copies[store, self.program.topology.store[store].layouts[number]])

    def _older(self, copy: Copy) -> Iterator[Stored]:
        """The rows of older generations that are this worker's today."""
        older = self.older.get(copy.store.id, {})
        for laid in self.work.layouts[copy.store.id][:-1]:
            for record, mixed in seen(laid, copy.layout, self.work.workers, self.worker, older.get(laid.generation, ())):
                yield self._read(copy, record, self.worker if mixed else None)

    def _rewrite(self) -> None:
        """Every worker takes its rows; in the containers they do not count any more with the same commit. Where rows expire, those that
        do so together go into one container, and not with what arrives."""
        upto = {(moved.store, moved.generation): moved.upto for moved in self.work.rewrite}
        for copy in self.program.copies.values():
            moved: list[tuple[int, Block]] = []
            for stored in self._older(copy):
                before = upto.get((copy.store.id, stored.record.generation), 0)
                if stored.record.oldest < before:
                    end = _end(copy, [largest for _, largest in stored.record.taus])
                    moved.append((end or 0, stored.block.take(stored.rows(before))))
            begun = None
            for end, block in sorted(moved, key=lambda one: one[0]):
                if begun is None or _apart(copy, begun, end):
                    self._write(copy)
                    begun = end
                self.add(copy, block)
            if copy.store.horizon is not None:
                self._write(copy)

    def _read(self, copy: Copy, record: ContainerRecord, worker: int | None = None) -> Stored:
        key = (self.work.uri, record.path)
        opened = _cache.get(key)
        if opened is None:
            container = read_container(self.storage, record.path)
            opened = _cache[key] = _Opened(container.batch, container.indexes)
        return Stored(record, copy, self.program, _complete(copy, opened.block), opened, worker)

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
        arrivals = block.ints(ARRIVAL)
        record = ContainerRecord(
            path,
            copy.store.id,
            copy.number,
            self._today(copy.store.id).generation,
            self.worker,
            block.rows,
            size,
            int(arrivals.min()),
            int(arrivals.max()),
            tuple((int(tau.min()), int(tau.max())) for tau in _taus(copy, block)),
            marks=marks(arrivals, self.work.tuning.rewrite_rows),
        )
        gone = {r.path for r in merged}
        self.live[key] = _by_age(r for r in (*self.live.get(key, ()), record) if r.path not in gone)
        self.added = [r for r in self.added if r.path not in gone] + [record]
        self.removed += gone
        return [Stored(record, copy, self.program, block, _Opened(batch, indexes))]

    def _partners(self, copy: Copy, block: Block) -> list[ContainerRecord]:
        """The containers that are worth merging with a block, of those that are older the newest."""
        total, last = block.rows, int(block.ints(ARRIVAL).max())
        found: list[ContainerRecord] = []
        ends = _end(copy, [int(tau.max()) for tau in _taus(copy, block)])
        for record in reversed([r for r in self.live.get((copy.store.id, copy.number), ()) if r.last <= last]):
            if record.rows >= 2 * total or record.rows + total > self.work.tuning.merge_rows:
                break
            if copy.store.horizon is not None and ends is not None:
                other = _end(copy, [largest for _, largest in record.taus])
                if other is None or _apart(copy, ends, other):
                    break
                ends = max(ends, other)
            total += record.rows
            found.append(record)
        return found[::-1]


def _apart(copy: Copy, end: int, other: int) -> bool:
    """Do rows with these ends expire too far apart for one container?"""
    return copy.store.horizon is not None and abs(end - other) > copy.store.horizon // _LIVES


def _by_age(records: Iterable[ContainerRecord]) -> list[ContainerRecord]:
    return sorted(records, key=lambda record: record.last)


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
