"""A worker's stores during one round: committed containers, what this batch wrote before, and what arrives now.

Invariant: all rows that a store gets in a round are in it before it is first probed (positions ensure that). They become one new container,
merged with those before it where that pays (`merge_policy`), so a store has few containers, of falling sizes. What was merged is reported
to the coordinator; only its manifest removes it.
Containers of older layouts are read (`older_layouts`) and never merged, except for those whose rows the batch moves into today's layout.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from clash.columnar.block import Block, concat
from clash.model.block_columns import ARRIVAL
from clash.model.layout import ALL, ONE
from clash.plan.physical import StoreCopy
from clash.protocol.batch import BatchSpec
from clash.protocol.containers import ALL_SLOTS, ContainerRecord, LayoutVersion, after_relayout, describe, split_points
from clash.protocol.reports import StoreChanges
from clash.state.container import write_container
from clash.state.storage import open_storage
from clash.workers.loaded_plan import plan_of
from clash.workers.merge_policy import merge_policy
from clash.workers.older_layouts import containers_for_worker
from clash.workers.stored_container import OpenFile, StoredContainer, close_files_except, index_block, open_file, with_all_columns
from clash.workers.table_rows import TableRows, open_table

_EXPIRY_FRACTION = 8  # rows of a merged container expire within this fraction of the horizon of one another, so that whole files expire

CopyKey = tuple[str, int]  # a store, and the number of its layout


class WorkerStores:
    """The stores of one worker in one round."""

    def __init__(self, spec: BatchSpec, worker: int, round_number: int) -> None:
        self.spec, self.worker, self.round, self.plan = spec, worker, round_number, plan_of(spec)
        self.storage = open_storage(spec.uri)
        self.live: dict[CopyKey, list[ContainerRecord]] = {}  # under today's layout
        self.older: dict[str, dict[int, list[ContainerRecord]]] = {}  # by store and by the generation of their layout
        for record in spec.containers:
            if record.generation != self._today(record.store).generation:
                self.older.setdefault(record.store, {}).setdefault(record.generation, []).append(record)
            elif self._sees(record):
                self.live.setdefault((record.store, record.copy), []).append(record)
        self.live = {key: _by_age(records) for key, records in self.live.items()}
        self.arrived: dict[CopyKey, list[Block]] = {}
        self.opened: dict[CopyKey, list[StoredContainer]] = {}
        self.added: list[ContainerRecord] = []
        self.removed: list[str] = []
        tables = {path for files in spec.tables.values() for file in files for path in file.paths()}
        close_files_except(self.storage, {record.path for record in spec.containers} | tables)
        if round_number == 1 and spec.relayout:
            self._relayout()

    def _today(self, store: str) -> LayoutVersion:
        return self.spec.layouts[store][-1]

    def _sees(self, record: ContainerRecord) -> bool:
        """Whether rows of this worker are in a container of today's layout."""
        if record.slot == ALL_SLOTS:
            return True
        if not self.spec.is_one_task:
            return record.slot == self.worker
        return record.slot == 0 or self._today(record.store).layouts[record.copy] != ALL  # of a replicated store, one worker has all rows

    # ---- filling -----------------------------------------------------------------------------------------------

    def apply(self, changes: StoreChanges) -> None:
        """Takes over what this worker wrote in an earlier round of the batch."""
        for records in self.live.values():
            records[:] = [record for record in records if record.path not in changes.removed]
        for record in changes.added:
            self.live.setdefault((record.store, record.copy), []).append(record)
        self.live = {key: _by_age(records) for key, records in self.live.items()}

    def add(self, copy: StoreCopy, block: Block) -> None:
        key = (copy.store, copy.number)
        if key in self.opened:
            raise AssertionError(f"{copy.store} gets rows after it was probed")
        if block.rows:
            self.arrived.setdefault(key, []).append(block.select(name for name, _ in copy.columns))

    def close(self) -> StoreChanges:
        """Writes what arrived for stores that were not probed in this round; what the worker wrote in the round."""
        for key in list(self.arrived):
            self._write(self.plan.copies[key])
        return self.changes()

    def changes(self) -> StoreChanges:
        return StoreChanges(self.round, tuple(self.added), tuple(self.removed))

    # ---- probing -----------------------------------------------------------------------------------------------

    def open(self, copy: StoreCopy) -> Sequence[StoredContainer | TableRows]:
        """The store as a probe sees it, oldest container first."""
        if copy.table is not None:
            return open_table(self.storage, self.plan, copy, self.spec.tables[copy.table], self.spec.tasks, self.worker)
        key = (copy.store, copy.number)
        if key not in self.opened:
            written = {stored.record.path: stored for stored in self._write(copy)}
            older = [
                replace(s, record=rest) for s in self._older(copy) if (rest := after_relayout(s.record, self.spec.relayout)) is not None
            ]
            self.opened[key] = older + [written.get(record.path) or self._read_live(copy, record) for record in self.live.get(key, ())]
        return self.opened[key]

    def _older(self, copy: StoreCopy) -> Iterator[StoredContainer]:
        """The containers of older layouts with rows that are this worker's today."""
        older = self.older.get(copy.store, {})
        for version in self.spec.layouts[copy.store][:-1]:
            records = older.get(version.generation, ())
            for record, mixed in containers_for_worker(version, copy.layout, self.spec.tasks, self.worker, records):
                yield self._read(copy, record, self.worker if mixed else None)

    def _read_live(self, copy: StoreCopy, record: ContainerRecord) -> StoredContainer:
        is_mixed = record.slot == ALL_SLOTS and self.spec.tasks > 1 and copy.layout.kind == "hash"
        return self._read(copy, record, self.worker if is_mixed else None)

    def _read(self, copy: StoreCopy, record: ContainerRecord, worker: int | None = None) -> StoredContainer:
        file = open_file(self.storage, record.path)
        block = with_all_columns(file.block, self.plan.copy_schemas[copy.store, copy.number])
        return StoredContainer(record, copy, self.plan, block, file, worker)

    # ---- moving rows into today's layout -------------------------------------------------------------------------

    def _relayout(self) -> None:
        """Every worker takes its rows of the ranges that move; in their old containers they stop to count with the same commit. Where rows
        expire, those that expire together go into one container, apart from what arrives."""
        moves = {(moved.store, moved.generation): moved.before for moved in self.spec.relayout}
        for copy in self.plan.copies.values():
            moved: list[tuple[int, Block]] = []
            for stored in self._older(copy):
                before = moves.get((copy.store, stored.record.generation), 0)
                if stored.record.oldest < before:
                    expiry = self._expiry(copy, [largest for _, largest in stored.record.time_ranges])
                    moved.append((expiry or 0, stored.block.take(stored.rows_before(before))))
            group: int | None = None
            for expiry, block in sorted(moved, key=lambda pair: pair[0]):
                if group is None or self._expire_apart(copy, group, expiry):
                    self._write(copy)
                    group = expiry
                self.add(copy, block)
            if self._horizon(copy) is not None:
                self._write(copy)

    # ---- writing -----------------------------------------------------------------------------------------------

    def _write(self, copy: StoreCopy) -> list[StoredContainer]:
        """Writes what has arrived for a store as one container, merged with older ones where that pays."""
        key = (copy.store, copy.number)
        blocks = self.arrived.pop(key, [])
        if not blocks:
            return []
        block = concat(blocks)
        schema = self.plan.copy_schemas[key]
        merged = self._to_merge(copy, block)
        if merged:
            block = concat([*(self._read(copy, record).block.select(schema.names) for record in merged), block])
        batch = block.to_batch(schema)
        indexes = {path.name: index_block(self.plan, copy, block, path.name) for path in copy.paths}
        path = f"state/{copy.store}/{self._file_name(copy)}"
        record = self._record(copy, block, path)
        record = replace(record, bytes=write_container(self.storage, path, batch, indexes, describe(record)))
        merged_paths = {r.path for r in merged}
        self.live[key] = _by_age(r for r in (*self.live.get(key, ()), record) if r.path not in merged_paths)
        self.added = [r for r in self.added if r.path not in merged_paths] + [record]
        self.removed += merged_paths
        return [StoredContainer(record, copy, self.plan, block, OpenFile(batch, indexes))]

    def _file_name(self, copy: StoreCopy) -> str:
        spec = self.spec
        return f"b{spec.batch:09d}-{spec.attempt}-c{copy.number}-s{self.worker}-r{self.round}-{os.urandom(4).hex()}.clash"

    def _record(self, copy: StoreCopy, block: Block, path: str) -> ContainerRecord:
        arrivals = block.ints(ARRIVAL)
        return ContainerRecord(
            path=path,
            store=copy.store,
            copy=copy.number,
            generation=self._today(copy.store).generation,
            slot=self._slot(copy),
            rows=block.rows,
            bytes=0,
            first_arrival=int(arrivals.min()),
            last_arrival=int(arrivals.max()),
            time_ranges=tuple((int(times.min()), int(times.max())) for times in map(block.ints, copy.part_times)),
            split_points=split_points(arrivals, self.spec.tuning.relayout_rows),
        )

    def _slot(self, copy: StoreCopy) -> int:
        is_shared = self.spec.is_one_task and self.spec.workers > 1 and copy.layout != ONE
        return ALL_SLOTS if is_shared else self.worker

    def _to_merge(self, copy: StoreCopy, block: Block) -> list[ContainerRecord]:
        """The containers that are merged with a block, oldest first: of those that are older than its last row, the newest ones. First all
        that are cheap, then tiers of similar size, as long as a tier has enough of them."""
        total, last = block.rows, int(block.ints(ARRIVAL).max())
        older = [r for r in self.live.get((copy.store, copy.number), ()) if r.last_arrival <= last and self._may_replace(copy, r)]
        merged: list[ContainerRecord] = []
        expiry = self._expiry(copy, [int(block.ints(name).max()) for name in copy.part_times])
        policy = merge_policy(self.spec, copy.store, block.rows)
        largest, least = policy.cheap_rows, 0
        while True:
            tier, expiry = self._newest_tier(copy, older, total, largest, expiry, whole=least == 0)
            if len(tier) < least:
                return merged[::-1]
            total += sum(record.rows for record in tier)
            merged += tier
            del older[len(older) - len(tier) :]
            # not twice as large: of batches of one size, some workers would then merge and others not, and wait for each other
            largest, least = 3 * total // 2, policy.merged_at_once - 1

    def _newest_tier(
        self, copy: StoreCopy, older: list[ContainerRecord], total: int, largest: int, expiry: int | None, whole: bool
    ) -> tuple[list[ContainerRecord], int | None]:
        """The last containers, newest first, that have at most `largest` rows and expire with the `total` that they are merged with; and
        when all of these do. `whole`: their first rows must expire with these, too, or a container that is merged again and again would
        never expire."""
        tier: list[ContainerRecord] = []
        rows = total
        for record in reversed(older):
            if record.rows > largest or record.rows + rows > self.spec.tuning.merge_rows:
                break
            if self._horizon(copy) is not None and expiry is not None:
                first, last = (self._expiry(copy, [times[end] for times in record.time_ranges]) for end in (0, 1))
                if first is None or last is None or self._expire_apart(copy, expiry, first if whole else last):
                    break
                expiry = max(expiry, last)
            rows += record.rows
            tier.append(record)
        return tier, expiry

    def _may_replace(self, copy: StoreCopy, record: ContainerRecord) -> bool:
        """Whether no worker sees rows of the container elsewhere than this task would put them."""
        if not self.spec.is_one_task:
            return record.slot != ALL_SLOTS
        return record.slot == ALL_SLOTS or copy.layout != ALL or self.spec.workers == 1

    # ---- expiry ------------------------------------------------------------------------------------------------

    def _horizon(self, copy: StoreCopy) -> int | None:
        return self.plan.topology.store[copy.store].horizon

    def _expiry(self, copy: StoreCopy, latest: list[int]) -> int | None:
        """The event time after which no query needs rows whose parts have these largest event times; None where nothing bounds it."""
        spans = [span for _, span in self.plan.topology.store[copy.store].horizons]
        if len(spans) != len(latest):
            return None
        return min((time + span for time, span in zip(latest, spans, strict=True) if span is not None), default=None)

    def _expire_apart(self, copy: StoreCopy, expiry: int, other: int) -> bool:
        """Whether rows with these expiries are too far apart for one container."""
        horizon = self._horizon(copy)
        return horizon is not None and abs(expiry - other) > horizon // _EXPIRY_FRACTION


def _by_age(records: Iterable[ContainerRecord]) -> list[ContainerRecord]:
    return sorted(records, key=lambda record: record.last_arrival)
