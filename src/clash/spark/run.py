"""A run: what `engine.start` returns, to watch, to change, to read from and to stop.

Invariant: nothing that has taken effect is kept here alone: it is in the checkpoint. A change that still waits for a boundary is lost with
the process.
"""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from html import escape
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from clash.coordinator import inspection
from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.control.changes import Change
from clash.coordinator.control.job import QueryRequest
from clash.coordinator.coordinator import Coordinator
from clash.coordinator.what_if import WhatIf, assess_query
from clash.errors import ClashError, OptionError, UnknownNameError
from clash.explain.formats import Format
from clash.hints import did_you_mean, listed
from clash.kafka.stream_records import REJECTED_SCHEMA
from clash.model.computed import REFUSED, with_computed
from clash.model.durations import parse_timeout
from clash.model.outer_query import OutputMode
from clash.model.statistics import Statistics
from clash.model.stream import UNCHANGED, Keep, Stream
from clash.protocol.result_files import LATE, REJECTED, published_path
from clash.sinks import Parquet, Sink
from clash.spark.backlog import read_backlog
from clash.spark.batch_function import BatchFunction
from clash.spark.column_packing import PackedColumns
from clash.spark.computed_columns import ExpressionTypes
from clash.spark.declarations import declare_query, declare_stream, warn_about_query, warn_about_stream
from clash.spark.free_memory import FreeMemory
from clash.spark.job_names import JobNames
from clash.spark.kafka_source import check_kafka_topics
from clash.spark.kafka_streams import KafkaStreams
from clash.spark.outer_declaration import declare_outer
from clash.spark.outer_queries import OuterQueries
from clash.spark.outer_sinks import refuse_taken_folder
from clash.spark.parquet_streams import ParquetStreams
from clash.spark.probe_rates import ProbeRates
from clash.spark.progress import Progress
from clash.spark.projection_job import ProjectionJob
from clash.spark.query_launcher import QueryLauncher
from clash.spark.query_supervisor import Batch, QuerySupervisor
from clash.spark.result_handover import ResultHandover, folder_url, read_files, read_folder, refuse_unkept, sinks_at_start
from clash.spark.result_tail import LastResults, last_of_folder, last_of_tables
from clash.spark.signals import stop_on_signal
from clash.spark.tables import DeclaredTable, Frame, TableRefresher, declare_table, table_progress
from clash.sql import parse_with_spark, with_views
from clash.state.storage import open_storage

_LOG = logging.getLogger("clash")
_BACKLOG_INTERVAL = 1.0  # seconds


class Run:
    """Made by `engine.start`. `given`: the sinks that the program declares, to which those of later calls are added; `tables`: those of the
    program, to which later ones are added; `declare` remembers later streams, so that the engine can be started again; `release` lets
    other runs have the checkpoint."""

    def __init__(
        self,
        spark: Any,
        coordinator: Coordinator,
        launcher: QueryLauncher,
        given: dict[str, Sink | None],
        tables: dict[str, DeclaredTable],
        declare: Callable[[Stream, Any], None],
        release: Callable[[], None],
        views: Mapping[str, str],
    ) -> None:
        self._views = views
        self._spark, self._coordinator, self._launcher, self._given, self._declare = spark, coordinator, launcher, given, declare
        self._release, self._tables = release, tables
        self._sinks = sinks_at_start(coordinator.queries_to_publish, coordinator.changes.setup.queries, given)
        self._handover = ResultHandover(spark, coordinator, self._sinks)
        self._handover.begin(is_last_over=launcher.half.has_commit(coordinator.last))
        names, self._projection = JobNames(spark.sparkContext, launcher.name), ProjectionJob(spark, coordinator.timezone)
        self._batches = BatchFunction(coordinator, launcher.half, names, self._projection, self._committed)
        self._progress = Progress(coordinator.last)
        self.probe_rates = ProbeRates()
        self._last_backlog: dict[str, dict[str, int]] = {}
        self._backlog_read = -_BACKLOG_INTERVAL
        self._free_memory = FreeMemory()
        self._outer = OuterQueries(spark, coordinator, self._sinks, given, launcher.available_now, launcher.interval, self._fail)
        search, half = self._batches.find_failing_stream, launcher.half.folder
        self._supervisor = QuerySupervisor(spark, self._launch, self._batches, self._outer.finish, self._ended, search, half)
        self._outer.begin()
        self._refresher = TableRefresher(coordinator, tables)

    def _fail(self, error: ClashError) -> None:
        self._supervisor.fail(error)

    def _ended(self, error: ClashError | None) -> None:
        try:
            self._refresher.stop()
            self._outer.stop()
            self._coordinator.close(error)
        finally:
            self._handover.deliveries.close()
            self._launcher.close()
            self._release()

    def __str__(self) -> str:
        setup, name = self._coordinator.generation.setup, self._launcher.name
        state = "active" if self.is_active else "ended" if self.exception is None else f"failed: {self.exception.what}"
        tables = len(setup.tables)
        parts = [("queries", len(setup.queries)), ("streams", len(setup.streams) - tables), ("workers", setup.workers)]
        parts[2:2] = [("tables", tables)] if tables else []
        counts = ", ".join(f"{name}: {number}" for name, number in parts)
        last = self._coordinator.last
        batch = "no batch yet" if last < 0 else f"last batch: {last}"
        return f"run{'' if name is None else f' {name}'}: {state}\n  {counts}, {batch}\n  checkpoint {self.checkpoint}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """In a notebook: what it is, and the plan that runs as a picture."""
        return f"<pre>{escape(str(self))}</pre>{inspection.display_running(self._coordinator)}"

    # ---- state --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """That of the engine, if it was given one."""
        return self._launcher.name

    @property
    def checkpoint(self) -> str:
        """The folder or URL, as an absolute one."""
        return self._launcher.half.folder.removesuffix("/spark")

    @property
    def position(self) -> dict[str, int]:
        """Where the run is: the batch that was committed last and its epoch, -1 before the first, and the generation in force."""
        manifest = self._coordinator.manifest
        epoch = -1 if manifest.epoch is None else manifest.epoch.number
        return {"batch": manifest.batch, "epoch": epoch, "generation": self._coordinator.generation.number}

    @property
    def is_active(self) -> bool:
        return self._supervisor.is_active

    @property
    def exception(self) -> ClashError | None:
        """Why the run ended, if it failed."""
        return self._supervisor.exception

    def await_termination(self, timeout: float | str | None = None) -> bool:
        """Waits for the end, at most `timeout`, seconds or a duration; whether the run has ended. Raises what it failed with. Meanwhile
        Ctrl-C and SIGTERM stop the run and end the program, unless it handles them itself."""
        seconds = parse_timeout(timeout, "the timeout")
        with stop_on_signal(self.stop):
            return self._supervisor.await_termination(seconds)

    def process_all_available(self) -> None:
        """Waits until all that the sources have now is committed. For tests: a source that never pauses never ends it."""
        with stop_on_signal(self.stop):
            self._supervisor.process_all_available()
            self._outer.process_all_available()
            self._supervisor.raise_failure()

    def stop(self) -> None:
        """Ends the run. A batch in work is dropped, and run again by the next start."""
        self._supervisor.stop(self._interrupt)

    def _interrupt(self) -> None:
        self._outer.stop()
        self._handover.deliveries.stop()

    def _launch(self, batch: Batch) -> tuple[Any, PackedColumns]:
        coordinator = self._coordinator
        live = (*coordinator.committed_queries, *coordinator.generation.setup.queries, *coordinator.changes.setup.queries)
        computed = [column for query in live for column in query.request.computed]
        self._projection.check(coordinator.changes.setup.branches)
        needed = coordinator.changes.setup.needed
        packed, columns = self._launcher.pack(coordinator.sources.order, needed, self._batches.required, computed)
        self._launcher.record_sources(coordinator.sources, coordinator.last >= 0)
        plain, kafka, leaves = self._launcher.plain, self._launcher.kafka, self._launcher.leaves
        self._batches.launched(
            columns,
            None if plain is None else ParquetStreams(self._spark, plain, leaves, self._launcher.shared),
            KafkaStreams(self._spark, kafka, self._launcher.kafka_columns) if kafka else None,
        )
        return self._launcher.start(packed, batch), columns

    def _committed(self, committed: CommittedBatch, began: float) -> None:
        self._handover(committed)
        self._outer.committed(committed)
        self._supervisor.batch_committed()
        streams = self._coordinator.changes.setup.streams_by_name.values()
        timed = {stream.name for stream in streams if stream.time is not None and stream.type_of(stream.time) == "timestamp"}
        seconds = max(clock.perf_counter() - began, 1e-9)
        self._progress.add(committed, seconds, timed)
        rows, results = sum(committed.input.values()), sum(committed.counts.values())
        _LOG.info("batch %d committed: %d rows, %d results, %.3f s", committed.batch, rows, results, seconds)
        self.probe_rates.add(committed)
        self._free_memory.release()

    # ---- changing ----------------------------------------------------------------------------------------------

    def add_query(
        self,
        name: str,
        text: str,
        sink: Sink | None = None,
        history: bool = True,
        windows: Mapping[str, str] | None = None,
        mode: OutputMode | None = None,
    ) -> Change:
        """One query more, from the next epoch boundary on. With history it also joins rows that arrived before it was added, as far as they
        are retained. If it cannot be answered it is refused here, and the running queries do not notice."""
        request = self._declare_query(name, text, sink, windows, mode)
        with self._supervisor.active(f"query {name} cannot be added"):
            return self._request(request, sink, lambda: self._coordinator.changes.add_query(request, history))

    def replace_query(
        self,
        name: str,
        text: str,
        sink: Sink | None = None,
        history: bool = True,
        windows: Mapping[str, str] | None = None,
        mode: OutputMode | None = None,
    ) -> Change:
        """Another query under the name of one that runs: the last batch of the one is followed by the first of the other."""
        request = self._declare_query(name, text, sink, windows, mode)
        with self._supervisor.active(f"query {name} cannot be replaced"):
            return self._request(request, sink, lambda: self._coordinator.changes.replace_query(request, history))

    def remove_query(self, name: str) -> Change:
        """One query less. Its results stay where they are; what is retained for it alone is dropped."""
        with self._supervisor.active(f"query {name} cannot be removed"):
            return self._coordinator.changes.remove_query(name)

    def rescale(self, workers: int) -> Change:
        """Another number of workers. Nothing is moved: what the old ones have stored is read by the new ones."""
        with self._supervisor.active("the number of workers cannot be changed"):
            return self._coordinator.changes.rescale(workers)

    def stream(
        self,
        name: str,
        df: Any,
        time: str | None = None,
        window: str | None = None,
        lateness: str | None = None,
        idle: str | None = None,
        keep: Keep = "needed",
    ) -> Change:
        """One stream more, for queries to come: it is read from the first batch on in which a query needs it (with keep="all": at once),
        for which the Spark query is started again between two batches. A program that is started again has to declare it, too."""
        stream = declare_stream(name, df, time, window, lateness, idle, keep)
        check_kafka_topics({name: df})
        with self._supervisor.active(f"stream {name} cannot be added"):
            if name not in self._coordinator.changes.setup.streams_by_name:  # before it is declared: a batch may read it at once
                self._launcher.frames[name] = df
            change = self._coordinator.add_stream(stream)
            self._declare(stream, df)
            self._read_more()
        warn_about_stream(stream, df)
        return change

    def table(self, name: str, df: Frame, refresh: str | None = None) -> Change:
        """One table more, for queries to come: it is read here. A program that is started again has to declare it, too."""
        declared = declare_table(name, df, refresh)
        with self._supervisor.active(f"table {name} cannot be added"):
            self._coordinator.changes.setup.add_stream(declared.table)  # raises if the name is taken
            self._tables[name] = declared
            try:
                change = self._coordinator.add_table(declared.table)
            except BaseException:
                del self._tables[name]
                raise
            self._declare(declared.table, df)
            self._refresher.add(declared)
        return change

    def refresh(self, table: str) -> Change:
        """Reads a table now, and raises if that fails: then it keeps its rows. Tuples of the batch that the handle names, and later ones,
        join what was read."""
        with self._supervisor.active(f"table {table} cannot be refreshed"):
            return self._coordinator.refresh_table(table)

    def change_stream(
        self,
        name: str,
        window: str | None = UNCHANGED,
        lateness: str | None = UNCHANGED,
        idle: str | None = UNCHANGED,
        keep: str = UNCHANGED,
    ) -> Change:
        """Other options of a stream, from the next epoch boundary on; None is no window, no lateness, no idle time. Queries that have the
        stream's window have the new one from then on."""
        options = {"window": window, "lateness": lateness, "idle": idle, "keep": keep}
        with self._supervisor.active(f"stream {name} cannot be changed"):
            change = self._coordinator.changes.change_stream(name, options)
            self._read_more()
        return change

    def _declare_query(
        self, name: str, text: str, sink: Sink | None, windows: Mapping[str, str] | None, mode: OutputMode | None
    ) -> QueryRequest:
        text = with_views(name, text, self._views)
        request, setup = declare_query(name, text, sink, windows), self._coordinator.changes.setup
        types = ExpressionTypes(self._spark, self._launcher.frames, self._tables)
        query, computed = parse_with_spark(name, text, setup.streams_by_name, windows, types)
        declared = declare_outer(self._spark, replace(request, computed=computed), query, setup.streams_by_name, sink, mode)
        if declared.outer is not None and isinstance(sink, Parquet):
            refuse_taken_folder(name, sink, self._coordinator.uri, None)
        return declared

    def _request(self, request: QueryRequest, sink: Sink | None, call: Callable[[], Change]) -> Change:
        self._handover.prepare(request, sink)
        computed = [column for column in request.computed if column.type != REFUSED]
        tables = with_computed({table.name: table for table in self._coordinator.changes.setup.tables}, computed)
        self._coordinator.tables.require(tables[name] for name in {column.stream for column in computed} & tables.keys())
        with self._sinks.adding(request, sink):
            change = call()
        self._given[request.name] = sink
        setup = self._coordinator.changes.setup
        kept = [live.request for live in (*self._coordinator.queries_to_publish, *setup.queries)]
        self._sinks.keep(kept)
        self._keep_given({request.name for request in (*kept, *self._coordinator.job.queries)})
        for live in setup.queries:
            if live.name == request.name:
                warn_about_query(live.query, setup.streams_by_name)
        self._read_more()
        return change

    def _keep_given(self, names: Collection[str]) -> None:
        """Forgets the sinks of queries that were added and removed: a run may see any number of them."""
        for name in [name for name in self._given if name not in names]:
            del self._given[name]

    def _read_more(self) -> None:
        """The first rows of a new stream belong to the queries that need it: the batch that reads them is one that answers these
        queries."""
        needed = self._coordinator.changes.setup.needed
        if not self._launcher.reads(needed):
            self._coordinator.read_more(sorted(needed))
            self._supervisor.restart()

    # ---- observing ---------------------------------------------------------------------------------------------

    @property
    def progress(self) -> dict[str, Any]:
        """The last committed batch, totals since the start, and how far behind the streams are."""
        latest = self._progress.latest(self._supervisor.durations(), self._backlog())
        latest["outer"] = self._outer.progress()
        latest["tables"] = table_progress(self._coordinator)
        return latest

    def _backlog(self) -> dict[str, dict[str, int]]:
        """Read again after a while: a program may ask for its progress in a loop."""
        if not self.is_active:
            return {}
        now = clock.monotonic()
        if now - self._backlog_read > _BACKLOG_INTERVAL:
            self._backlog_read, self._last_backlog = now, self._read_backlog()
        return self._last_backlog

    def _read_backlog(self) -> dict[str, dict[str, int]]:
        shared, sources = self._launcher.shared, self._launcher.sources()
        if shared is None:
            topics = {name: stream.topic for name, stream in self._launcher.kafka.items()}
            return read_backlog(self._supervisor.handle, sources, topics)
        with suppress(Exception):  # Spark may have been stopped
            return {stream: {"files": files} for stream, files in zip(sources, shared.backlog(), strict=True)}
        return {}

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The last batches, oldest first."""
        return self._progress.recent(self._supervisor.durations())

    def progress_after(self, batch: int) -> list[dict[str, Any]]:
        """The last batches after the given one, oldest first: for readers who have the others already."""
        return self._progress.recent(self._supervisor.durations(), batch)

    @property
    def coordinator(self) -> Coordinator:
        """For those who show a run in more detail than the properties here. To be read, never to be changed."""
        return self._coordinator

    @property
    def queries(self) -> dict[str, str]:
        """The live queries by name: those of the batch that was begun last."""
        return {query.name: query.request.text for query in self._coordinator.generation.setup.queries}

    @property
    def complete_from(self) -> dict[str, int | None]:
        """By live query, the batch from which on no result can be missing for want of retained rows; None while that is not known."""
        return inspection.complete_from(self._coordinator)

    @property
    def generations(self) -> list[dict[str, Any]]:
        """Every plan so far, oldest first: from which batch on it ran, why, and what it cost beside what was expected."""
        return inspection.outlines(self._coordinator)

    @property
    def statistics(self) -> Statistics:
        """What the next plans are made with: what was seen of the streams, else what was given."""
        return inspection.statistics(self._coordinator) or Statistics()

    def explain(self, format: Format = "text") -> str:
        """The plan that runs today."""
        return inspection.explain_running(self._coordinator, format)

    def what_if(
        self, text: str, windows: Mapping[str, str] | None = None, mode: OutputMode | None = None, replaces: str | None = None
    ) -> WhatIf:
        """What one more query would cost beside those that run and wait, what it would share with them, what would have to be stored for
        it, and when it would be complete. `replaces`: the query whose place it would take. Nothing changes."""
        taken = {query.name for query in self._coordinator.changes.setup.queries}
        name = next(name for name in (f"what_if{number or ''}" for number in count()) if name not in taken)
        return assess_query(self._coordinator, self._declare_query(name, text, None, windows, mode), replaces)

    # ---- results -----------------------------------------------------------------------------------------------

    def results(self, query: str) -> Any:
        """All committed results of a query, as a DataFrame; also after its removal."""
        live = self._coordinator.query(query)
        if live is None:
            return read_files(self._spark, self._pending_schema(query), [])
        kind = live.request.final_sink.kind
        if live.request.outer is not None:
            refuse_unkept(query, kind)
            return self._outer.results(live)
        if kind == "memory":
            return self._handover.memory(live)
        refuse_unkept(query, kind)
        return read_folder(self._spark, inspection.result_schema(live.query), *live.result_location(self._coordinator.uri))

    def last_results(self, query: str, last: int = 20, after: int = -1) -> LastResults:
        """The last results of a query, of batches after the batch `after`: the rows of the newest files, read without Spark. Of a query
        with aggregates, any of its results, because they have no order."""
        if isinstance(last, bool) or not isinstance(last, int) or last < 1:
            raise OptionError("the number of results is out of range", repr(last), "write a whole number from 1")
        live = self._coordinator.query(query)
        if live is None:
            return LastResults(self._pending_schema(query).empty_table(), self._coordinator.last, False)
        kind = live.request.final_sink.kind
        refuse_unkept(query, kind)
        if live.request.outer is not None:
            rows = self._outer.results(live).limit(last + 1).toArrow()
            return LastResults(rows.slice(0, last), self._coordinator.last, rows.num_rows > last)
        schema = inspection.result_schema(live.query)
        if kind == "memory":
            return last_of_tables(self._handover.tables(live), schema, last, after, self._coordinator.last)
        uri, folder = live.result_location(self._coordinator.uri)
        return last_of_folder(open_storage(uri), folder, schema, last, after, self._coordinator.last)

    def result_stream(self, query: str) -> Any:
        """The same as a streaming DataFrame, for Spark operators behind the join."""
        live = self._coordinator.query(query)
        if live is None:
            self._pending_schema(query)
            raise OptionError("the query has no batch yet", f"query {query}", "wait for it: change.wait()")
        kind = live.request.final_sink.kind
        if live.request.outer is not None:
            hint = "its outer query reads the results of the join; write a query without aggregates for another stream of them"
            raise OptionError("results of aggregates are not a stream", f"query {query}", hint)
        if kind == "memory":
            raise OptionError("results in memory are not a stream", f"query {query}", "use no sink, or Parquet")
        refuse_unkept(query, kind)
        uri, folder = live.result_location(self._coordinator.uri)
        storage = open_storage(uri)
        marker = published_path(folder, "_clash")
        if not storage.exists(marker):
            storage.write(marker, [b""])  # Spark watches only folders that exist
        schema = from_arrow_schema(inspection.result_schema(live.query), prefer_timestamp_ntz=True)
        return self._spark.readStream.schema(schema).parquet(folder_url(storage, folder))

    def _pending_schema(self, query: str) -> pa.Schema:
        """Of a query that is requested and has no batch yet."""
        requested = {live.name: live.query for live in self._coordinator.changes.setup.queries}
        if query not in [*requested]:  # whatever was passed
            names = sorted({*requested, *self._coordinator.publisher.queries})
            raise UnknownNameError("unknown query", repr(query), did_you_mean(str(query), names, f"queries are {listed(names)}"))
        return inspection.result_schema(requested[query])

    def late(self, stream: str) -> Any:
        """The rows of a stream that came too late, or without a time, with the columns that are read of it."""
        self._check_stream(stream)
        return read_folder(self._spark, inspection.late_schema(self._coordinator, stream), self._coordinator.uri, f"{LATE}{stream}")

    def rejected(self, stream: str) -> Any:
        """The records of a stream of Kafka that are no tuples of it: topic, partition, offset, timestamp, reason, key and value. Streams of
        other sources have none."""
        self._check_stream(stream)
        return read_folder(self._spark, REJECTED_SCHEMA, self._coordinator.uri, f"{REJECTED}{stream}")

    def _check_stream(self, stream: str) -> None:
        names = [stream.name for stream in self._coordinator.changes.setup.streams if not stream.is_table]
        if stream not in names:
            raise OptionError("unknown stream", repr(stream), did_you_mean(str(stream), names, f"streams are {listed(names)}"))
