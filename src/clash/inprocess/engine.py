"""An engine over the in-process transport, for tests and experiments."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clash.coordinator.batch_loop import no_projection, run_batch
from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.control.changes import Change
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.coordinator.coordinator import Coordinator
from clash.coordinator.inspection import late_schema, outlines, result_schema
from clash.errors import QueryError
from clash.inprocess.transport import InProcessTransport, Partition, random_partitions
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan
from clash.protocol.batch import BatchSpec, Tuning
from clash.protocol.reports import Report, ResultFile
from clash.protocol.result_files import LATE, published_path
from clash.sql import SparkTypes, UncomputableError, parse_with_spark
from clash.state.storage import open_storage

_names = itertools.count()
_SECOND = 1_000_000


class NoSpark:
    """There is no Spark whose types expressions could have."""

    def of_stream(self, stream: str, expression: str) -> str:
        raise UncomputableError("there is no Spark here")

    def of_joined(self, fields: Sequence[tuple[str, str]], expression: str) -> str:
        raise UncomputableError("there is no Spark here")

    def is_read_by_tasks(self, stream: str) -> bool:
        return True

    def is_decoded_by_tasks(self, stream: str) -> bool:
        return True


class InProcessEngine:
    """`tuning` overrides sizes that never change a result (`protocol.batch.Tuning`). Every batch begins an epoch, where changes take
    effect, unless `epoch` says otherwise. Unless `adaptive`, the plan changes only on request."""

    types: SparkTypes = NoSpark()

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
        plan: LogicalPlan | None = None,
        timezone: str = "UTC",
        tuning: Mapping[str, int] | None = None,
        epoch: str | int = 1,
        adaptive: bool = False,
        tables: Mapping[str, pa.Table] | None = None,
    ) -> None:
        requests = tuple(self._request(streams, name, text, (windows or {}).get(name)) for name, text in queries.items())
        self.job = JobSpec(tuple(streams), requests, workers, strategy, cost, layouts, mirs, statistics, epoch, adaptive)
        self.uri = f"memory:inprocess-{next(_names)}" if uri is None else uri
        self.partitions, self.timezone, self.first_plan, self.tuning = partitions, timezone, plan, Tuning(**(tuning or {}))
        self.random = Random(seed)
        self.tables = dict(tables or {})  # the rows that a start reads, by table
        self.coordinator = self._new_coordinator()

    def _new_coordinator(self) -> Coordinator:
        return Coordinator(
            self.uri, self.job, self.timezone, self.first_plan, self.tuning, read_table=lambda table: self.tables[table.name]
        )

    def restart(self, job: JobSpec | None = None) -> None:
        """As after a stop or a crash: everything from the checkpoint, perhaps with another program."""
        self.job, before = job or self.job, self.coordinator
        before.replanner.close()
        self.coordinator = self._new_coordinator()
        self.coordinator.plan_override = before.plan_override

    # ---- changes, in effect from the next boundary on ----------------------------------------------------------

    def add_query(self, name: str, text: str, windows: Mapping[str, str] | None = None, history: bool = True) -> Change:
        return self._reading(self.coordinator.changes.add_query(self._new_request(name, text, windows), history))

    def replace_query(self, name: str, text: str, windows: Mapping[str, str] | None = None, history: bool = True) -> Change:
        return self._reading(self.coordinator.changes.replace_query(self._new_request(name, text, windows), history))

    def remove_query(self, name: str) -> Change:
        return self.coordinator.changes.remove_query(name)

    def rescale(self, workers: int) -> Change:
        return self.coordinator.changes.rescale(workers)

    def add_stream(self, stream: Stream) -> Change:
        return self._reading(self.coordinator.add_stream(stream))

    def change_stream(self, name: str, **options: Any) -> Change:
        """Other options of a stream: window, lateness, idle, keep."""
        return self._reading(self.coordinator.changes.change_stream(name, options))

    def refresh(self, name: str, rows: pa.Table) -> Change:
        """Other rows of a table; a later start reads them, too."""
        self.tables[name] = rows
        return self.coordinator.refresh_table(name)

    def add_table(self, table: Stream, rows: pa.Table) -> Change:
        self.coordinator.changes.setup.add_stream(table)  # raises if there is one of that name
        self.tables[table.name] = rows
        return self.coordinator.add_table(table)

    def replan(self, plan: LogicalPlan) -> Change:
        """Use this plan from the next boundary on."""
        return self.coordinator.changes.replan(plan)

    def _new_request(self, name: str, text: str, windows: Mapping[str, str] | None) -> QueryRequest:
        return self._request(self.coordinator.changes.setup.streams, name, text, windows)

    def _request(self, streams: Iterable[Stream], name: str, text: str, windows: Mapping[str, str] | None) -> QueryRequest:
        request = QueryRequest(name, text, tuple((windows or {}).items()))
        with suppress(QueryError):  # which the coordinator finds, too
            return replace(request, computed=parse_with_spark(name, text, {s.name: s for s in streams}, windows, self.types)[1])
        return request

    def _reading(self, change: Change) -> Change:
        """A stream is read from the first batch on that needs it, as on Spark."""
        if new := self.coordinator.changes.setup.needed.difference(self.coordinator.sources.order):
            self.coordinator.read_more(sorted(new))
        return change

    @property
    def generations(self) -> list[dict[str, Any]]:
        return outlines(self.coordinator)

    # ---- batches -----------------------------------------------------------------------------------------------

    def batch(self, tables: Mapping[str, pa.Table], now: int | None = None) -> CommittedBatch:
        """One micro-batch. If it raises, what it had is lost; call it again with the same tables."""
        batch = self.coordinator.last + 1
        time = batch * _SECOND if now is None else now
        return run_batch(self.coordinator, _Tables(self, tables), batch, time, self.partitions, project=self.project)

    def run_tasks(self, spec: BatchSpec, partitions: list[Partition]) -> list[Report]:
        """The reports of all tasks of a batch."""
        return InProcessTransport(partitions, self.random).run(spec)

    def project(self, spec: BatchSpec, queries: Sequence[Query], files: Sequence[ResultFile]) -> Sequence[ResultFile]:
        """Tests put another in its place."""
        return no_projection(spec, queries, files)

    # ---- results -----------------------------------------------------------------------------------------------

    def results(self, query: str) -> pa.Table:
        """All committed results, also after the query was removed."""
        live = self.coordinator.query(query)
        if live is None:
            raise KeyError(query)
        return _read(*live.result_location(self.coordinator.uri), result_schema(live.query))

    def late(self, stream: str) -> pa.Table:
        return _read(self.coordinator.uri, f"{LATE}{stream}", late_schema(self.coordinator, stream))


class _Tables:
    """A transport over tables, which are partitioned when the plan of the batch is known."""

    def __init__(self, engine: InProcessEngine, tables: Mapping[str, pa.Table]) -> None:
        self.engine, self.tables = engine, tables

    def run(self, spec: BatchSpec) -> list[Report]:
        engine = self.engine
        return engine.run_tasks(spec, random_partitions(self.tables, engine.coordinator.loaded_plan, engine.partitions, engine.random))


def _read(uri: str, folder: str, schema: pa.Schema) -> pa.Table:
    storage = open_storage(uri)
    names = [published_path(folder, name) for name in storage.list(folder) if name.endswith(".parquet")]
    tables = [_with_schema(pq.read_table(pa.BufferReader(storage.read(name))), schema) for name in names]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Late rows have the columns that were read of their stream when they came; others are NULL."""
    present = set(table.column_names)
    columns = [table[f.name].cast(f.type) if f.name in present else pa.nulls(table.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)
