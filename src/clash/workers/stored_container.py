"""An open container, read in the terms of a physical plan: columns by attribute, indexes by access path, the rows that count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from clash.columnar.block import Block, Bools, Ints, Rows, as_time_column, from_batch, rows_where
from clash.columnar.index import Index, build_index
from clash.columnar.key_words import key_words
from clash.model.block_columns import ARRIVAL, EARLIEST, EVENT_TIME, stored_name
from clash.model.layout import Layout
from clash.model.relation import Attribute
from clash.plan.physical import ProbeStep, StoreCopy
from clash.protocol.containers import ContainerRecord
from clash.state.container import read_container
from clash.state.storage import Storage
from clash.workers.loaded_plan import LoadedPlan
from clash.workers.routing import home_slots


class OpenFile:
    """A container file that the process has mapped, with what it computed for it: indexes that the file lacks, and the rows of a worker."""

    def __init__(self, batch: pa.RecordBatch, indexes: Mapping[str, Index]) -> None:
        self.block = from_batch(batch)
        self.indexes = dict(indexes)
        self.own_rows: dict[tuple[Layout, int, int], Bools] = {}
        self.parts: dict[tuple[str, int, int], tuple[OpenFile, Rows]] = {}  # of a table's file, see `table_rows`
        self.live: Bools | None = None  # of a file that lists removed rows, see `table_rows`


_open_files: dict[tuple[str, str], OpenFile] = {}  # by storage and path; containers never change


def open_file(storage: Storage, path: str) -> OpenFile:
    key = (storage.uri, path)
    if key not in _open_files:
        container = read_container(storage, path)
        _open_files[key] = OpenFile(container.batch, container.indexes)
    return _open_files[key]


def close_files_except(storage: Storage, paths: set[str]) -> None:
    """Forgets the files of a checkpoint that no store lists any more."""
    for key in [key for key in _open_files if key[0] == storage.uri and key[1] not in paths]:
        del _open_files[key]


@dataclass(frozen=True)
class StoredContainer:
    """One container of a store."""

    record: ContainerRecord
    copy: StoreCopy
    plan: LoadedPlan
    block: Block
    file: OpenFile
    worker: int | None = None
    """The worker whose rows count, where rows of other workers are among them; None where all rows are the worker's."""

    def column(self, attribute: Attribute) -> pa.Array:
        return stored_column(self.plan, self.copy, self.block, attribute)

    def ints(self, name: str) -> Ints:
        return self.block.ints(name)

    def index(self, path: str) -> Index:
        if path not in self.file.indexes:
            self.file.indexes[path] = index_block(self.plan, self.copy, self.block, path)
        return self.file.indexes[path]

    def within(self, since: int, before: int | None, rows: Rows) -> Bools | None:
        """Which of the rows count and arrived in the bounds; None for all."""
        since = max(since, self.record.counts_from)
        if self.record.first_arrival >= since and (before is None or self.record.last_arrival < before):
            return None
        arrivals = self.ints(ARRIVAL)[rows]
        return (arrivals >= since) if before is None else (arrivals >= since) & (arrivals < before)

    def rows_before(self, before: int) -> Rows:
        """The rows that count, are the worker's and arrived before."""
        arrivals = self.ints(ARRIVAL)
        counting = (arrivals >= self.record.counts_from) & (arrivals < before)
        own = self.own()
        return rows_where(counting if own is None else counting & own)

    def visible(self, step: ProbeStep, rows: Rows) -> Bools | None:
        """Which of the rows belong to this branch of the step, and to this worker; None for all."""
        mask = self.within(step.since, step.before, rows)
        if not step.own_rows_only:
            return mask
        own = self.own(rows)
        return own if mask is None else mask if own is None else mask & own

    def own(self, rows: Rows | None = None) -> Bools | None:
        """Which of the rows (all where none are given) today's layout gives to the worker; None where it gives it all of them."""
        if self.worker is None:
            return None
        key = (self.copy.layout, self.plan.topology.workers, self.worker)
        if key not in self.file.own_rows:
            self.file.own_rows[key] = self._slots() == self.worker
        own = self.file.own_rows[key]
        return own if rows is None else own[rows]

    def _slots(self) -> Rows:
        keys = None if self.copy.partition_column is None else self.column(self.copy.partition_column)
        return home_slots(self.block, keys, self.copy.layout.hot, self.plan.topology.workers, self.plan.timezone)


def stored_column(plan: LoadedPlan, copy: StoreCopy, block: Block, attribute: Attribute) -> pa.Array:
    """The stored column that an attribute of a query reads."""
    if not copy.is_base:
        return block.columns[str(attribute)]
    if plan.is_time(attribute):
        return as_time_column(block.columns[EVENT_TIME], plan.arrow_type_of(attribute))
    return block.columns[stored_name(attribute)]


def with_all_columns(block: Block, schema: pa.Schema) -> Block:
    """The block with columns that were not stored when it was written, or had another type: no query that needs them reads its rows."""
    missing = [field for field in schema if field.name not in block.columns or block.columns[field.name].type != field.type]
    if not missing:
        return block
    empty = {f.name: pa.array(np.zeros(block.rows, np.int64)) if f.name == EARLIEST else pa.nulls(block.rows, f.type) for f in missing}
    return Block(block.rows, {**block.columns, **empty})


def index_block(plan: LoadedPlan, copy: StoreCopy, block: Block, path: str) -> Index:
    """An index over the block for an access path of the store."""
    columns = next(access.columns for access in copy.paths if access.name == path)
    words = key_words([stored_column(plan, copy, block, a) for a, _ in columns], [kind for _, kind in columns], plan.timezone)
    return build_index(words.words, words.valid)
