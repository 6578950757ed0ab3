"""`clash.Engine`: a user declares streams and queries, and starts a run of them. Wrong input is refused before Spark starts anything."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from clash.coordinator.checkpoint.source_registry import SourceRegistry
from clash.coordinator.checkpoint.source_shape import refuse_other_sources, warn_about_moved_sources
from clash.coordinator.checkpoint.spark_half import SparkHalf
from clash.coordinator.control.job import JobSpec, QueryRequest, refuse_taken_name
from clash.coordinator.coordinator import Coordinator
from clash.coordinator.recovery import Recovered
from clash.errors import CheckpointError, ClashError, OptionError
from clash.hints import listed
from clash.model.durations import parse_duration
from clash.model.outer_query import OutputMode
from clash.model.statistics import Statistics
from clash.model.stream import Keep, Stream, check_name
from clash.plan.options import CostName, LayoutRule, StrategyName, check_options
from clash.sinks import Sink
from clash.spark.computed_columns import ExpressionTypes
from clash.spark.declarations import check_columns, declare_query, declare_stream, warn_about_query, warn_about_stream
from clash.spark.disk_failures import WrittenFolders
from clash.spark.failures import explain_failure
from clash.spark.job_names import refuse_active_name
from clash.spark.kafka_source import check_kafka_topics, kafka_clusters, spark_frames
from clash.spark.offset_log import LOG_VERSION, refuse_fewer_sources, refuse_unusable_names
from clash.spark.outer_declaration import declare_outer
from clash.spark.package_shipping import ship_package
from clash.spark.query_launcher import QueryLauncher
from clash.spark.result_handover import sinks_at_start
from clash.spark.run import Run
from clash.spark.source_shapes import source_shapes
from clash.spark.tables import DeclaredTable, Frame, TableReader, declare_table
from clash.spark.thread_switches import short_switch_interval
from clash.spark.worker_python import check_worker_python
from clash.sql import check_view, parse_with_spark, with_views
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.paths import absolute_location
from clash.state.storage import Storage, open_storage

_LOG = logging.getLogger("clash")


class Engine:
    """Declares streams and queries; `start` runs them.

    `checkpoint` is a folder that all executors can reach: it holds the state, the results of queries without a sink, and the offsets of
    the sources. The same program, started again over the same folder, continues where it stopped. `epoch` is a duration or a number of
    micro-batches. `name` is what Spark's UI calls the query and its jobs; it is not recorded, and may change from start to start.
    """

    def __init__(
        self,
        spark: Any,
        checkpoint: str | os.PathLike[str],
        *,
        name: str | None = None,
        epoch: str | int = "1 second",
        workers: int = 4,
        strategy: StrategyName = "global",
        adaptive: bool = True,
        cost: CostName = "full",
        layouts: LayoutRule = "one",
        mirs: bool = True,
        statistics: Statistics | None = None,
    ) -> None:
        if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
            hint = 'write clash.configure(SparkSession.builder.master("local[2]")).getOrCreate(); Spark Connect is not supported'
            raise OptionError("spark is not a session of classic Spark", type(spark).__name__, hint)
        if not isinstance(checkpoint, str | os.PathLike) or not str(checkpoint).strip() or str(checkpoint).startswith("memory:"):
            raise OptionError("the checkpoint is not a folder", repr(checkpoint), 'write checkpoint="/data/checkpoints/orders"')
        if name is not None:
            check_name("engine", name)
        _check_epoch(epoch)
        check_options(workers=workers, strategy=strategy, cost=cost, layouts=layouts, adaptive=adaptive, mirs=mirs)
        if statistics is not None:
            check_options(statistics=statistics)
        if spark.conf.get("spark.sql.ansi.enabled", "true") == "false":
            _LOG.warning("spark.sql.ansi.enabled is off, but queries here follow ANSI rules: an overflow is an error, not NULL")
        self._spark, self._checkpoint = spark, absolute_location(checkpoint)
        self._name, self._epoch, self._adaptive = name, epoch, adaptive
        self._workers, self._strategy, self._cost, self._layouts, self._mirs = workers, strategy, cost, layouts, mirs
        self._statistics = statistics
        self._streams: dict[str, Stream] = {}
        self._frames: dict[str, Any] = {}  # DataFrames, and streams of Kafka
        self._views: dict[str, str] = {}
        self._tables: dict[str, DeclaredTable] = {}
        self._requests: dict[str, QueryRequest] = {}
        self._sinks: dict[str, Sink | None] = {}
        self._run: Run | None = None

    # ---- declaring ---------------------------------------------------------------------------------------------

    def stream(
        self,
        name: str,
        df: Any,
        time: str | None = None,
        window: str | None = None,
        lateness: str | None = None,
        idle: str | None = None,
        keep: Keep = "needed",
    ) -> None:
        """Declares a streaming DataFrame, or a topic of `clash.sources.Kafka`, as a stream. Without `time`, the time of a row is that of
        its batch; without `window`, rows are retained for ever."""
        self._refuse_running("a stream cannot be declared")
        stream = declare_stream(name, df, time, window, lateness, idle, keep)
        refuse_taken_name(name, self._streams)
        self._refuse_view_name(name)
        warn_about_stream(stream, df)
        self._streams[name], self._frames[name] = stream, df

    def view(self, name: str, text: str) -> None:
        """Declares a name for a SELECT over the streams and views declared so far. Queries that are declared later, also on a run, use it
        as a common table."""
        check_name("view", name)
        check_view(name, text)
        refuse_taken_name(name, self._streams)
        self._refuse_view_name(name)
        streams = {stream.name: replace(stream, is_table=False) for stream in self._streams.values()}  # it may be one of tables alone
        types = ExpressionTypes(self._spark, self._frames, self._tables)
        parse_with_spark(name, with_views(name, text, self._views), streams, None, types)
        self._views[name] = text

    def table(self, name: str, df: Frame, refresh: str | None = None) -> None:
        """Declares a batch DataFrame, or a function that returns one, as a reference table: streams are joined with the rows that it has
        when the last tuple of a result arrives. It is read at every start, after each `refresh` interval, and by `run.refresh`."""
        self._refuse_running("a table cannot be declared")
        declared = declare_table(name, df, refresh)
        refuse_taken_name(name, self._streams)
        self._refuse_view_name(name)
        self._streams[name], self._tables[name] = declared.table, declared

    def query(
        self,
        name: str,
        text: str,
        sink: Sink | None = None,
        windows: Mapping[str, str] | None = None,
        mode: OutputMode | None = None,
    ) -> None:
        """Declares a query over the streams declared so far. Without a sink, its results are kept under the checkpoint. `mode`: of a query
        with aggregates or DISTINCT, which of their results each batch gives."""
        self._refuse_running("a query cannot be declared")
        text = with_views(name, text, self._views)
        request = declare_query(name, text, sink, windows)
        if not self._streams:
            raise OptionError("there are no streams yet", f"query {name}", 'declare them first: engine.stream("R", df)')
        query, computed = parse_with_spark(name, text, self._streams, windows, ExpressionTypes(self._spark, self._frames, self._tables))
        request = declare_outer(self._spark, replace(request, computed=computed), query, self._streams, sink, mode)
        if request.outer is None:
            check_columns(sink, query)
        if name in self._requests:
            raise OptionError("there is a query of that name already", repr(name), "give the new one another name")
        folder = request.final_sink.folder
        other = next((q.name for q in self._requests.values() if folder is not None and q.final_sink.folder == folder), None)
        if other is not None:
            raise OptionError("two queries write to one folder", f"{other} and {name}: {folder}", "give each a folder of its own")
        warn_about_query(query, self._streams)
        self._requests[name], self._sinks[name] = request, sink

    # ---- running -----------------------------------------------------------------------------------------------

    def start(self, available_now: bool = False, trigger: str | None = None) -> Run:
        """Starts a run, which goes on until it is stopped: batch after batch without a pause, or one per `trigger`. With `available_now`
        it ends when what the sources have now is read."""
        self._refuse_running("it cannot be started again")
        if not isinstance(available_now, bool):
            raise OptionError("available_now is neither True nor False", repr(available_now), "write available_now=True")
        if available_now and trigger is not None:
            raise OptionError("available_now and trigger exclude each other", f"trigger={trigger!r}", "write one of them")
        interval = None if trigger is None else f"{parse_duration(trigger, 'the trigger') // 1000} milliseconds"
        refuse_active_name(self._spark, self._name)
        check_worker_python(self._spark.sparkContext)
        check_kafka_topics(self._frames)
        job = JobSpec(
            tuple(self._streams.values()), tuple(self._requests.values()), self._workers, self._strategy, self._cost, self._layouts,
            self._mirs, self._statistics, self._epoch, self._adaptive,
        )  # fmt: skip
        uri = f"{self._checkpoint}/clash"
        held = ExitStack()
        lock = lock_checkpoint(open_storage(uri))
        held.callback(lock.release)
        try:
            held.enter_context(short_switch_interval())
            half = SparkHalf(f"{self._checkpoint}/spark")
            timezone = str(self._spark.conf.get("spark.sql.session.timeZone"))
            check, reader = partial(self._check_start, half=half), TableReader(self._tables)
            coordinator = Coordinator(uri, job, timezone, check=check, fence=lock.check, read_table=reader)
            half.remove_unsealed()
            ship_package(self._spark.sparkContext)
            launcher = QueryLauncher(half, self._frames, available_now, interval, self._name)
            self._run = Run(self._spark, coordinator, launcher, self._sinks, self._tables, self._declare, held.close, self._views)
        except BaseException as error:
            held.close()
            if isinstance(error, Exception) and not isinstance(error, ClashError):
                raise explain_failure(error, folders=WrittenFolders.of(self._spark, f"{self._checkpoint}/spark")) from error
            raise
        return self._run

    def _refuse_view_name(self, name: str) -> None:
        if name.lower() in {view.lower() for view in self._views}:
            raise OptionError("there is a view of that name already", repr(name), "give the new one another name")

    def _refuse_running(self, detail: str) -> None:
        if self._run is not None and self._run.is_active:
            raise OptionError(
                "the engine runs already",
                detail,
                "call run.add_query or run.stream instead, or call run.stop() first",
            )

    def _declare(self, stream: Stream, df: Any) -> None:
        """Adds a stream, or a table, that was declared on the run, for later runs of this engine."""
        self._streams[stream.name] = stream
        if not stream.is_table:
            self._frames[stream.name] = df

    def _check_start(self, recovered: Recovered, half: SparkHalf) -> None:
        """Spark's half of the checkpoint must be what our half was written with. All streams that Spark has recorded as sources must be
        declared, and all functions that take results."""
        sinks_at_start(recovered.queries, recovered.setup.queries, self._sinks)
        decision = recovered.decision or recovered.superseded
        half.check(recovered.manifest.batch, recovered.manifest.seal, None if decision is None else decision.seal)
        missing = [name for name in recovered.sources.order if name not in self._frames]
        if missing:
            raise CheckpointError(
                "a stream of the checkpoint is missing",
                f"{listed(missing)}: Spark knows its sources by their number",
                f'declare it as it was, with engine.stream("{missing[0]}", df, …), also if no query reads it any more',
            )
        has_offsets = recovered.manifest.batch >= 0 or decision is not None or half.has_beginning()
        self._check_sources(recovered.sources, open_storage(half.folder), has_offsets)

    def _check_sources(self, recorded: SourceRegistry, half: Storage, has_offsets: bool) -> None:
        """What Spark is to read with the offsets of its half must be what they were recorded for."""
        order = tuple(dict.fromkeys((*recorded.order, *self._frames)))
        frames = {name: self._frames[name] for name in order}
        shapes = source_shapes(spark_frames(frames), kafka_clusters(frames))
        if has_offsets:
            refuse_other_sources(order, recorded.shapes, shapes)
            refuse_fewer_sources(half, shapes)
            warn_about_moved_sources(order, recorded.shapes, shapes)
        refuse_unusable_names(half, shapes, str(self._spark.conf.get(LOG_VERSION, "1")))


def _check_epoch(epoch: object) -> None:
    if isinstance(epoch, str):
        parse_duration(epoch, "the epoch")
    elif isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 1:
        raise OptionError("the epoch is out of range", repr(epoch), 'write a duration such as "1 second", or a number of micro-batches')
