"""The rows of a reference table, as a worker probes them.

Invariant: all workers read the same files, and what a layout says decides which of their rows a worker looks at, so neither another layout
nor another number of workers moves a row. Rows that a later version has removed stay in their file and in its indexes; they are masked out
of what a probe finds. What a process computes for a file (a worker's rows, indexes) is kept as long as the table has the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from clash.columnar.block import Block, Bools, Rows, rows_where
from clash.columnar.index import Index
from clash.columnar.slots import slots
from clash.model.layout import ONE
from clash.model.relation import Attribute
from clash.plan.physical import ProbeStep, StoreCopy
from clash.protocol.tables import REMOVED, TableFile
from clash.state.storage import Storage
from clash.workers.loaded_plan import LoadedPlan
from clash.workers.stored_container import OpenFile, index_block, open_file, stored_column


@dataclass(frozen=True)
class TableRows:
    """The rows of one file of a table that a worker looks at."""

    copy: StoreCopy
    plan: LoadedPlan
    file: OpenFile
    """The file, or a worker's part of it."""
    live: Bools | None
    """Which of its rows the version has; None for all."""

    @property
    def block(self) -> Block:
        return self.file.block

    def column(self, attribute: Attribute) -> pa.Array:
        return stored_column(self.plan, self.copy, self.block, attribute)

    def index(self, path: str) -> Index:
        if path not in self.file.indexes:
            self.file.indexes[path] = index_block(self.plan, self.copy, self.block, path)
        return self.file.indexes[path]

    def visible(self, step: ProbeStep, rows: Rows) -> Bools | None:
        """Which of the rows the version has; None for all."""
        return None if self.live is None else self.live[rows]


def open_table(
    storage: Storage, plan: LoadedPlan, copy: StoreCopy, files: tuple[TableFile, ...], workers: int, worker: int
) -> list[TableRows]:
    """The rows that the layout gives to the worker, out of so many: its part, none or all of them. A table on one worker has no rows
    elsewhere: tuples that are on every worker probe it on each, and would find its rows as often."""
    if copy.layout == ONE and worker != 0:
        return []
    opened = []
    for table_file in files:
        file = open_file(storage, table_file.path)
        live = None if table_file.removed_path is None else _live(storage, table_file, table_file.removed_path)
        if copy.layout.kind == "hash" and workers > 1:
            part, rows = _part(plan, copy, file, workers, worker)
            opened.append(TableRows(copy, plan, part, None if live is None else live[rows]))
        else:
            opened.append(TableRows(copy, plan, file, live))
    return opened


def _live(storage: Storage, table_file: TableFile, removed_path: str) -> Bools:
    removed = open_file(storage, removed_path)
    if removed.live is None:
        removed.live = np.ones(table_file.rows, np.bool_)
        removed.live[np.asarray(removed.block.columns[REMOVED])] = False
    return removed.live


def _part(plan: LoadedPlan, copy: StoreCopy, file: OpenFile, workers: int, worker: int) -> tuple[OpenFile, Rows]:
    """A worker's rows of a file, and their numbers in it. Where no column decides, the numbers do."""
    key = (str(copy.partition_column), workers, worker)
    if key not in file.parts:
        if copy.partition_column is None:
            targets: Rows = np.arange(file.block.rows, dtype=np.int32) % np.int32(workers)
        else:
            targets = slots(stored_column(plan, copy, file.block, copy.partition_column), workers, plan.timezone)
        rows = rows_where(targets == worker)
        block = file.block.take(rows)
        schema = pa.schema([(name, column.type) for name, column in block.columns.items()])
        file.parts[key] = OpenFile(block.to_batch(schema), {}), rows
    return file.parts[key]
