"""Starts the Spark query of a run: as often as necessary, over the streams and columns that are needed by then.

Invariant: every stream of the registered source order is a branch of the union, in that order; Spark's half of the checkpoint gets to know
the new ones before the query starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from clash.coordinator.checkpoint.source_registry import SourceRegistry
from clash.coordinator.checkpoint.source_shape import refuse_other_sources
from clash.coordinator.checkpoint.spark_half import SparkHalf
from clash.model.computed import ComputedColumn
from clash.spark.column_packing import PackedColumns, assign_packed_columns, pack_streams, union_without_rows
from clash.spark.computed_columns import with_computed_columns
from clash.spark.file_streams import FileStreams
from clash.spark.java_classes import file_streams
from clash.spark.kafka_source import KafkaStream, kafka_clusters, spark_frames
from clash.spark.kafka_streams import kafka_streams
from clash.spark.offset_log import LOG_VERSION, count_leaves, count_sources, fit_offset_log, names_sources
from clash.spark.parquet_streams import PlainStreams, can_share_source, plain_streams
from clash.spark.source_shapes import source_shapes
from clash.state.failpoints import reach
from clash.state.private_folders import make_private
from clash.state.storage import LocalStorage, open_storage
from clash.workers.loaded_plan import LoadedPlan


class QueryLauncher:
    """`half`: Spark's half of the checkpoint. `frames`: by name the streaming DataFrames, or streams of Kafka. `interval`: milliseconds
    between two batches, as Spark spells it. `name`: that of the Spark query."""

    def __init__(self, half: SparkHalf, frames: Mapping[str, Any], available_now: bool, interval: str | None, name: str | None) -> None:
        self.name = name
        self.half, self.frames = half, dict(frames)
        self.available_now, self.interval = available_now, interval
        self.plain: PlainStreams | None = None  # where all streams are plain files: Spark is to read none of them
        self.shared: FileStreams | None = None  # the one source of plain files
        self.kafka: Mapping[str, KafkaStream] = {}  # which tasks read
        self.kafka_columns: Mapping[str, str] = {}  # by such a stream, Spark's columns of its source
        self.leaves: Mapping[str, int] = {}  # by stream, the place of its first leaf in the plan of the Spark query
        self._sources = len(frames)  # so many of the source order are read; a stream that is added later waits for a query
        self._read: frozenset[str] = frozenset()
        self._order: tuple[str, ...] = ()  # of the streams in the Spark query
        self._counts: dict[str, int] = {}  # of sources, by stream

    def pack(
        self, order: Sequence[str], needed: Collection[str], plan: LoadedPlan, computed: Iterable[ComputedColumn] = ()
    ) -> tuple[Any, PackedColumns]:
        """One DataFrame of all streams with the columns that the plan reads, and where they are in it. `needed`: the streams that are
        needed by then, also by what waits for a boundary: the batch that begins there has to be one that reads them; `computed`: all
        columns that are computed for queries of these plans."""
        used = {*needed, *plan.ingest}
        self._sources = max([self._sources, *(at + 1 for at, name in enumerate(order) if name in used)])
        read = order[: self._sources]
        self._order, self._read = tuple(read), frozenset(read)
        self.kafka = kafka_streams(self.frames, read)
        frames = spark_frames({name: self.frames[name] for name in read})
        frames = with_computed_columns(frames, computed, plan)
        self.kafka_columns = {name: str(frames[name]._jdf.queryExecution().analyzed().output()) for name in self.kafka}
        self.leaves = dict(zip(read, accumulate((count_leaves(frames[name]) for name in read), initial=0), strict=False))
        types = {name: {field.name: field.dataType.simpleString() for field in frames[name].schema.fields} for name in read}
        ingest = {name: plan.ingest[name].columns if name in plan.ingest and name not in self.kafka else () for name in read}
        # A DataFrame may have lost a column that the plan of the last batch read: the next batch begins a plan that does not.
        columns = {name: [(c.name, types[name][c.name]) for c in ingest[name] if c.name in types[name]] for name in read}
        packed = assign_packed_columns(columns)
        self.close()
        self.plain = plain_streams({name: frames[name] for name, _ in packed if name not in self.kafka})
        if self.plain is None:
            return pack_streams(frames, packed, frozenset(plan.ingest) - self.kafka.keys()), packed
        self.shared = None if self.kafka else self._share_source(self.plain)
        return union_without_rows(frames, read) if self.shared is None else self.shared.frame(), packed

    def _share_source(self, streams: PlainStreams) -> FileStreams | None:
        spark = self.frames[next(iter(streams))].sparkSession
        java = file_streams(spark.sparkContext)
        if java is None or not can_share_source(streams) or spark.conf.get(LOG_VERSION, "1") != "1":
            return None
        if names_sources(open_storage(self.half.folder)):  # Spark goes on with the format that a log has
            return None
        return FileStreams(spark, java, [(stream.relation, stream.source) for stream in streams.values()])

    def close(self) -> None:
        """The Spark query has ended."""
        if self.shared is not None:
            self.shared.close()
            self.shared = None

    def reads(self, streams: Collection[str]) -> bool:
        """Whether these are among the sources of the Spark query."""
        return self._read.issuperset(streams)

    def sources(self) -> dict[str, int]:
        """By stream, in the order of the Spark query, how many sources it has."""
        for name, frame in spark_frames({name: self.frames[name] for name in self._order}).items():
            if name not in self._counts:
                self._counts[name] = count_sources(frame)
        return {name: self._counts[name] for name in self._order}

    def record_sources(self, registry: SourceRegistry, has_offsets: bool) -> None:
        """Records what the Spark query is to read, before it does. `has_offsets`: Spark's half has offsets, which must be of the same."""
        frames = {name: self.frames[name] for name in self._order}
        shapes = source_shapes(spark_frames(frames), kafka_clusters(frames))
        if has_offsets:
            refuse_other_sources(registry.order, registry.shapes, shapes)
        registry.record_shapes(shapes)

    def start(self, packed: Any, batch: Callable[[Any, int], None]) -> Any:
        """Starts the Spark query. A batch may begin before this returns."""
        self.half.refuse_changes()
        reach("before-sources")
        storage = open_storage(self.half.folder)
        if isinstance(storage, LocalStorage):
            make_private(Path(storage.root))  # before Spark makes it for everybody
        if self.shared is None:
            fit_offset_log(storage, count_sources(packed))
        else:
            fit_offset_log(storage, len(self._order), is_shared=True)
        writer = packed.writeStream.foreachBatch(batch).option("checkpointLocation", self.half.folder)
        if self.name is not None:
            writer = writer.queryName(self.name)
        if self.available_now:
            writer = writer.trigger(availableNow=True)
        elif self.interval is not None:
            writer = writer.trigger(processingTime=self.interval)
        return writer.start()
