"""The in-process transport: the same tasks, one after the other, with a seed. For tests and for trying things out without Spark."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clash.coordinator.control.changes import Change
from clash.coordinator.committed_batch import Committed
from clash.coordinator.coordinator import Driver
from clash.coordinator.control.job import Asked, Job
from clash.protocol.batch import Tuning, Work
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.plan import Plan
from clash.state.storage import open_storage
from clash.protocol.messages import REPORT, Message
from clash.workers.result_writer import LATE, published
from clash.workers.round import ingest, work_round

_names = itertools.count()


class InProcess:
    """`options` override sizes that never change a result (`clash.protocol.batch.Tuning`). Every batch is a border between epochs, where
    changes take effect, unless `epoch` says otherwise. Without `adaptive` the plan changes only when it is asked to."""

    def __init__(
        self,
        streams: Sequence[Stream],
        queries: Mapping[str, str],
        *,
        workers: int = 2,
        strategy: Any = "global",
        cost: Any = "full",
        layouts: Any = "one",
        mirs: bool = True,
        statistics: Statistics | None = None,
        windows: Mapping[str, Mapping[str, str]] | None = None,
        uri: str | None = None,
        partitions: int = 2,
        seed: int = 0,
        plan: Plan | None = None,
        timezone: str = "UTC",
        options: Mapping[str, int] | None = None,
        epoch: str | int = 1,
        adaptive: bool = False,
    ) -> None:
        asked = tuple(_asked(name, text, (windows or {}).get(name)) for name, text in queries.items())
        self.job = Job(tuple(streams), asked, workers, strategy, cost, layouts, mirs, statistics, epoch, adaptive)
        self.uri = f"memory:inprocess-{next(_names)}" if uri is None else uri
        self.partitions, self.timezone, self.plan, self.tuning = partitions, timezone, plan, Tuning(**(options or {}))
        self.random = random.Random(seed)
        self.driver = self._driver()

    def _driver(self) -> Driver:
        return Driver(self.uri, self.job, self.timezone, self.plan, self.tuning)

    def restart(self, job: Job | None = None) -> None:
        """As after a stop or a crash: everything from the checkpoint; perhaps with another program."""
        self.job, before = job or self.job, self.driver
        before.planner.close()
        self.driver = self._driver()
        self.driver.replanner = before.replanner

    # ---- changes, in effect from the next border on ------------------------------------------------------------

    def add_query(self, name: str, text: str, windows: Mapping[str, str] | None = None, history: bool = True) -> Change:
        return self._reading(self.driver.changes.add_query(_asked(name, text, windows), history))

    def replace_query(self, name: str, text: str, windows: Mapping[str, str] | None = None, history: bool = True) -> Change:
        return self._reading(self.driver.changes.replace_query(_asked(name, text, windows), history))

    def remove_query(self, name: str) -> Change:
        return self.driver.changes.remove_query(name)

    def rescale(self, workers: int) -> Change:
        return self.driver.changes.rescale(workers)

    def add_stream(self, stream: Stream) -> Change:
        return self._reading(self.driver.add_stream(stream))

    def _reading(self, change: Change) -> Change:
        """A stream is read from the batch on in which it is needed first, as on Spark."""
        if new := self.driver.changes.setup.needed.difference(self.driver.reading):
            self.driver.read(sorted(new))
        return change

    def replan(self, plan: Plan) -> Change:
        """Use this plan from the next border on."""
        return self.driver.changes.replan(plan)

    @property
    def generations(self) -> list[dict[str, Any]]:
        return self.driver.generations()

    # ---- batches -----------------------------------------------------------------------------------------------

    def batch(self, tables: Mapping[str, pa.Table], now: int | None = None) -> Committed:
        """One micro-batch. If it raises, what it had is lost; call it again with the same tables."""
        driver = self.driver
        work = driver.begin(driver.last + 1, (driver.last + 1) * 1_000_000 if now is None else now, self.partitions)
        if work is None:
            raise AssertionError("the next batch is never committed already")
        try:
            reports = self._run(Work.from_json(work.to_json()), self._cut(tables))
        except BaseException:
            driver.sweep()
            raise
        return driver.commit(work, reports)

    def _cut(self, tables: Mapping[str, pa.Table]) -> list[list[tuple[str, pa.RecordBatch]]]:
        """Rows in random order over random partitions."""
        parts: list[list[tuple[str, pa.RecordBatch]]] = [[] for _ in range(self.partitions)]
        for name, table in tables.items():
            columns = list(self.driver.program.ingest_columns(name))
            order = list(range(table.num_rows))
            self.random.shuffle(order)
            mine = np.array([self.random.randrange(self.partitions) for _ in order], np.int64)
            whole = table.select(columns).take(pa.array(order, pa.int64())).combine_chunks() if columns else None
            for partition in range(self.partitions):
                rows = np.flatnonzero(mine == partition)
                if whole is not None and len(rows):
                    parts[partition] += [(name, batch) for batch in whole.take(pa.array(rows)).to_batches()]
        for part in parts:
            self.random.shuffle(part)
        return parts

    def _run(self, work: Work, parts: list[list[tuple[str, pa.RecordBatch]]]) -> list[bytes | pa.Buffer]:
        messages: list[Message] = []
        for partition, blocks in enumerate(parts):
            messages += ingest(work, partition, blocks)
        for number in range(1, work.rounds + 1):
            inbox: list[list[Message]] = [[] for _ in range(work.workers)]
            self.random.shuffle(messages)
            for message in messages:
                inbox[message.worker].append(message)
            messages = []
            for worker in range(work.workers):
                messages += work_round(work, number, worker, inbox[worker])
        left = [message for message in messages if message.kind != REPORT]
        if left:
            raise AssertionError(f"{left[0].kind} is left after the last round")
        return [message.payload for message in messages]

    # ---- what came of it ---------------------------------------------------------------------------------------

    def results(self, query: str) -> pa.Table:
        """All committed results, also after the query was removed."""
        found = self.driver.query(query)
        if found is None:
            raise KeyError(query)
        return _read(*found.place(self.driver.uri), self.driver.result_schema(query))

    def late(self, stream: str) -> pa.Table:
        return _read(self.driver.uri, f"{LATE}{stream}", self.driver.late_schema(stream))


def _asked(name: str, text: str, windows: Mapping[str, str] | None) -> Asked:
    return Asked(name, text, tuple((windows or {}).items()))


def _read(uri: str, folder: str, schema: pa.Schema) -> pa.Table:
    storage = open_storage(uri)
    names = [published(folder, name) for name in storage.list(folder) if name.endswith(".parquet")]
    tables = [_fitted(pq.read_table(pa.BufferReader(storage.read(name))), schema) for name in names]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Late rows have the columns that were read of their stream when they came."""
    there = set(table.column_names)
    columns = [table[f.name].cast(f.type) if f.name in there else pa.nulls(table.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)
