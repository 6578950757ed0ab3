"""Committed results: handed over to sinks that are functions or other systems, and read back for users.

Invariant: the files of a batch stay until Spark begins the next one, so a batch is handed over again with the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from rich.console import Console as Terminal
from rich.table import Column, Table
from rich.text import Text

from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.control.job import QueryRequest, SinkKind
from clash.coordinator.control.setup import LiveQuery
from clash.coordinator.coordinator import Coordinator
from clash.coordinator.inspection import result_schema
from clash.delivery.deliveries import Deliveries
from clash.delivery.kafka_target import KafkaTarget
from clash.delivery.postgres_target import PostgresTarget
from clash.delivery.target import Destination, Output, Target
from clash.errors import CheckpointError, ClashError, OptionError, SinkError
from clash.sinks import Console, ForeachBatch, Kafka, Memory, Postgres, Sink
from clash.spark.declarations import check_columns, chosen_sink
from clash.state.failpoints import reach
from clash.state.storage import Storage, open_storage

_ROWS = 16_384  # of a piece of results that is in memory at a time


class Sinks:
    """Sinks by request: a query may be replaced by another of its name, and each batch goes to the sink of the query that it ran under."""

    def __init__(self) -> None:
        self._all: dict[QueryRequest, Sink | None] = {}

    def __getitem__(self, request: QueryRequest) -> Sink | None:
        return self._all.get(request)

    def __setitem__(self, request: QueryRequest, sink: Sink | None) -> None:
        self._all[request] = sink

    def keep(self, requests: Iterable[QueryRequest]) -> None:
        """Forgets all others: a run may see any number of queries."""
        self._all = {request: self._all.get(request) for request in requests}  # a new mapping: another thread may read the old one

    @contextmanager
    def adding(self, request: QueryRequest, sink: Sink | None) -> Iterator[None]:
        """Around the request of a query: its first batch may be over before the call returns. Of two equal requests, the one that is
        refused changes nothing."""
        if request not in self._all:
            self._all[request] = sink
        yield
        self._all[request] = sink


def sinks_at_start(running: Iterable[LiveQuery], requested: Iterable[LiveQuery], given: Mapping[str, Sink | None]) -> Sinks:
    """The sinks of the queries that a checkpoint continues with: as the program declares them, else as they are recorded. `running`: the
    queries of the last batch and of the next; `requested`: those that the program wants."""
    sinks, requested = Sinks(), tuple(requested)
    for live in (*running, *requested):
        sinks[live.request] = chosen_sink(live.request, given)
    for live in requested:
        if live.request.final_sink.kind == "foreach" and sinks[live.request] is None:
            raise CheckpointError(
                "the function that takes a query's results is missing",
                f"query {live.name} is live, it was added at run time",
                f'functions are not recorded: call engine.query("{live.name}", "…", sink=clash.sinks.ForeachBatch(f)) before the start',
            )
        _refuse_unknown_options(live, sinks)
    return sinks


def _refuse_unknown_options(live: LiveQuery, sinks: Sinks) -> None:
    if live.request.sink.is_transactional and sinks[live.request] is None:
        raise CheckpointError(
            "the options of a query's sink are missing",
            f"query {live.name} has a {live.request.sink.kind} sink with options, which are not recorded",
            f'call engine.query("{live.name}", "…", sink=…) with its sink before the start',
        )


class ResultHandover:
    def __init__(self, spark: Any, coordinator: Coordinator, sinks: Sinks) -> None:
        self.spark, self.coordinator, self.sinks = spark, coordinator, sinks
        self.kept: dict[str, dict[int, pa.Table]] = {}
        self.deliveries = Deliveries(self._target)

    def _target(self, sink: Kafka | Postgres, stopping: Event) -> Target[Any]:
        identity = self.coordinator.sources.identity
        if isinstance(sink, Postgres):
            return PostgresTarget(sink, identity, stopping)
        return KafkaTarget(sink, identity, self.coordinator.timezone, stopping)

    def begin(self, is_last_over: bool) -> None:
        """Opens the systems that results go to. `is_last_over`: whether Spark knows that the last committed batch is done."""
        coordinator = self.coordinator
        is_over = coordinator.last < 0 or is_last_over or coordinator.is_next_decided
        unfinished = () if is_over else coordinator.committed_queries
        filled = {file.destination for file in coordinator.manifest.files}
        for live in unfinished:
            _refuse_unknown_options(live, self.sinks)
            if live.request.sink.kind == "foreach" and self.sinks[live.request] is None and live.name in filled:
                raise CheckpointError(
                    "results of a query that is dropped are not handed over",
                    f"query {live.name}, batch {coordinator.last}: the run ended before its function had returned",
                    "declare the query with its function once more and start, then remove it",
                )
        uncertain = self._transactional(unfinished)
        declared = self._transactional((*coordinator.generation.setup.queries, *coordinator.changes.setup.queries))
        self.deliveries.begin((*uncertain, *declared), coordinator.last, uncertain)

    def prepare(self, request: QueryRequest, sink: Sink | None) -> None:
        """Before a query is requested at run time: what its sink names is there, and it can take the query's results."""
        if isinstance(sink, Kafka | Postgres):
            query = self.coordinator.changes.setup.parse(request).query
            check_columns(sink, query)
            self.deliveries.begin([Destination(request.name, sink, result_schema(query))], self.coordinator.last)

    def _transactional(self, queries: Iterable[LiveQuery]) -> list[Destination[Any]]:
        found = [(live, self.sinks[live.request]) for live in queries]
        return [Destination(live.name, sink, result_schema(live.query)) for live, sink in found if isinstance(sink, Kafka | Postgres)]

    def __call__(self, committed: CommittedBatch) -> None:
        queries = {live.name: live for live in self.coordinator.log.read(committed.generation).setup.queries}
        self._deliver(committed, queries)
        for query, paths in committed.results.items():
            live = queries[query]
            sink = self.sinks[live.request] if live.request.outer is None else None  # otherwise the outer query has it
            try:
                if isinstance(sink, Memory):
                    self._keep(live, committed.batch, paths)
                elif isinstance(sink, Console):
                    self._show(live, committed, sink.rows, paths)
                elif isinstance(sink, ForeachBatch):
                    reach("before-handover")
                    sink.function(read_files(self.spark, result_schema(live.query), paths), committed.batch)
                    reach("after-handover")
            except ClashError:
                raise
            except Exception as error:
                raise SinkError(
                    f"the sink of query {query} failed",
                    f"batch {committed.batch}: {type(error).__name__}: {error}",
                    "the results are committed; a new start hands them over again",
                ) from error

    def _deliver(self, committed: CommittedBatch, queries: Mapping[str, LiveQuery]) -> None:
        """A batch that Spark repeats when the next one is decided, because it has lost its commit, is delivered already, and its files may
        be deleted."""
        if self.coordinator.is_next_decided:
            return
        outputs = []
        for query, paths in committed.results.items():
            live = queries[query]
            sink = self.sinks[live.request]
            if isinstance(sink, Kafka | Postgres):
                outputs.append(Output(query, sink, result_schema(live.query), committed.counts.get(query, 0), partial(_batches, paths)))
        self.deliveries.deliver(committed.batch, outputs)

    def _keep(self, live: LiveQuery, batch: int, paths: Sequence[str]) -> None:
        if paths:  # by number: a batch that is handed over again replaces itself
            self.kept.setdefault(live.name, {})[batch] = pa.Table.from_batches(_batches(paths), result_schema(live.query))

    def memory(self, live: LiveQuery) -> Any:
        """What a Memory sink holds from the first batch of the query on, as a DataFrame."""
        schema = result_schema(live.query)
        table = pa.concat_tables([schema.empty_table(), *self.tables(live).values()])
        return self.spark.createDataFrame(table, from_arrow_schema(schema, prefer_timestamp_ntz=True))

    def tables(self, live: LiveQuery) -> dict[int, pa.Table]:
        """The same by batch."""
        since = live.batch or 0
        return {batch: rows for batch, rows in self.kept.get(live.name, {}).copy().items() if batch >= since}

    def _show(self, live: LiveQuery, committed: CommittedBatch, max_rows: int, paths: Sequence[str]) -> None:
        count = committed.counts.get(live.name, 0)
        table = Table(*(Column(Text(name)) for name in result_schema(live.query).names))
        for row in islice((row for batch in _batches(paths) for row in batch.slice(0, max_rows).to_pylist()), max_rows):
            table.add_row(*(Text("NULL" if value is None else str(value)) for value in row.values()))
        title = f"{live.name}, batch {committed.batch}: {count:,} {'result' if count == 1 else 'results'}"
        more = f"{count - max_rows:,} more\n" if count > max_rows else ""
        terminal = Terminal(highlight=False, markup=False)
        terminal.print(title, *((table,) if count else ()), more, sep="\n")


def _batches(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        folder, _, name = path.rpartition("/")
        yield from pq.ParquetFile(pa.BufferReader(open_storage(folder).read(name))).iter_batches(_ROWS)


def read_files(spark: Any, schema: pa.Schema, paths: Sequence[str]) -> Any:
    """A DataFrame over Parquet files, empty if there are none."""
    columns = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return spark.read.schema(columns).parquet(*paths) if paths else spark.createDataFrame([], columns)


def read_folder(spark: Any, schema: pa.Schema, uri: str, folder: str) -> Any:
    """All that is published in a folder. What is being written there has a name that readers leave out."""
    storage = open_storage(uri)
    has_files = any(name.endswith(".parquet") for name in storage.list(folder))
    return read_files(spark, schema, [folder_url(storage, folder)] if has_files else [])


def folder_url(storage: Storage, folder: str) -> str:
    return storage.url(f"{folder}/_" if folder else "_").removesuffix("/_")


def refuse_unkept(query: str, kind: SinkKind) -> None:
    where = {
        "console": "were shown on the console",
        "foreach": "were handed to your function",
        "kafka": "are in a Kafka topic",
        "postgres": "are in a table of PostgreSQL",
    }.get(kind)
    if where is not None:
        raise OptionError(
            "the results are not kept", f"those of query {query} {where}", "use no sink, Parquet or Memory to read them through the run"
        )
