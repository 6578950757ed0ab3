"""The function that Spark calls for each micro-batch: it runs the batch loop over the transport that fits the sources.

Where all streams are plain Parquet files or topics of Kafka, the Spark query delivers only names of files, and offsets: tasks read them
(`rdd_job`) or, where that is not certain to give the same rows of files, Spark does (`dataframe_job`). Otherwise the Spark query delivers
the rows, except those of Kafka, which tasks read in any case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clash.coordinator.batch_loop import run_batch
from clash.coordinator.checkpoint.spark_half import SparkHalf
from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.coordinator import Coordinator
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import Report
from clash.spark.batch_end import QueryRestartError
from clash.spark.column_packing import PackedColumns, assign_packed_columns, pack_streams
from clash.spark.configure import is_local
from clash.spark.console_log import TASK, TASK_PROPERTY
from clash.spark.dataframe_job import DataFrameJob
from clash.spark.direct_source import DirectSource
from clash.spark.failures import RetriedError
from clash.spark.job_names import JobNames
from clash.spark.kafka_streams import KafkaBatch, KafkaStreams
from clash.spark.parquet_reader import readable_files
from clash.spark.parquet_streams import ParquetStreams
from clash.spark.projection_job import ProjectionJob
from clash.spark.rdd_job import RddJob, RddJobs
from clash.spark.task_choice import TaskChoice
from clash.workers.loaded_plan import LoadedPlan, plan_of

# Settings of the session that Spark clones for the streaming query: they touch no other query of the user.
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    # A record batch of messages may not exceed 2 GB: so many, of at most 400 kB each (Tuning.message_bytes). A limit in bytes would do
    # without that, but Spark then adds up the sizes of all columns for every row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.compression.codec": "none",
}
# A branch without rows is neither planned nor scanned. Spark keeps it by default, for stateful operators: plain files have none.
_PRUNE_EMPTY = {"spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "true"}


@dataclass(frozen=True)
class RunningQuery:
    """What the Spark query that runs delivers."""

    columns: PackedColumns
    parquet: ParquetStreams | None
    """Where all streams, except those of Kafka, are plain Parquet files."""
    kafka: KafkaStreams | None
    """Where there are streams of Kafka."""
    plan: LoadedPlan
    """The physical plan that it was started for."""

    def delivers(self, plan: LoadedPlan) -> bool:
        """Whether it delivers all columns that a plan reads; of plain files and of Kafka all columns can be read at any time, except those
        that Spark computes."""
        kafka = set() if self.kafka is None else set(self.kafka.streams)
        if self.parquet is not None:
            return self.parquet.streams.keys() | kafka >= plan.ingest.keys() and not _reads_computed(plan)
        present = {stream: {column for column, _ in columns} for stream, columns in self.columns}
        return all(
            stream in kafka or present.get(stream, set()) >= {column.name for column in ingest.columns}
            for stream, ingest in plan.ingest.items()
        )


def _reads_computed(plan: LoadedPlan) -> bool:
    """Whether it reads a column that Spark computes."""
    return any(
        column.name in {name for name, *_ in plan.streams[stream].computed}
        for stream, ingest in plan.ingest.items()
        for column in ingest.columns
    )


class BatchFunction:
    """`on_committed` gets what was committed and when the batch began, for sinks that are functions. `names`: for Spark's UI."""

    def __init__(
        self,
        coordinator: Coordinator,
        half: SparkHalf,
        names: JobNames,
        projection: ProjectionJob,
        on_committed: Callable[[CommittedBatch, float], None],
    ) -> None:
        self.coordinator, self.half, self.names, self.on_committed = coordinator, half, names, on_committed
        self.projection = projection
        self.required = coordinator.loaded_plan  # what the Spark query has to deliver when it is started again
        self._query: RunningQuery | None = None
        self._tuned: set[str] = set()  # sessions
        self._rdd_jobs: RddJobs | None = None
        self._choice = TaskChoice()
        self._scanned: Mapping[str, Any] = {}  # the DataFrames that Spark was asked to read for the last batch

    def launched(self, columns: PackedColumns, parquet: ParquetStreams | None, kafka: KafkaStreams | None) -> None:
        """Another Spark query is about to run."""
        self._query = RunningQuery(columns, parquet, kafka, self.required)
        self._tuned.clear()

    def __call__(self, df: Any, batch: int) -> None:
        began = time.perf_counter()
        session = df.sparkSession
        self._tune(session)
        self.names.begin_batch(batch)
        seal = self.half.seal(batch) if batch == self.coordinator.last + 1 else None
        partitions = max(1, session.sparkContext.defaultParallelism)
        now = time.time_ns() // 1000
        committed = run_batch(self.coordinator, _SparkTransport(self, df), batch, now, partitions, seal, self.projection.run)
        self._choice.observe(sum(committed.input.values()), sum(committed.counts.values()), committed.task_seconds)
        self.on_committed(committed, began)

    @property
    def query(self) -> RunningQuery:
        if self._query is None:
            raise AssertionError("a batch begins after the launch of its query")
        return self._query

    def find_failing_stream(self) -> tuple[str, BaseException] | None:
        """The first stream that Spark cannot read by itself, of a batch that it was asked to read here."""
        for stream, frame in self._scanned.items():
            try:
                frame._jdf.queryExecution().toRdd().count()
            except Exception as error:
                return stream, error
        return None

    def _run(self, df: Any, spec: BatchSpec) -> Sequence[Report]:
        plan, query, context = plan_of(spec), self.query, df.sparkSession.sparkContext
        self.required = plan
        if not query.delivers(plan):
            if plan is query.plan:
                raise AssertionError("the Spark query does not read what it was started for")
            raise QueryRestartError  # the batch is left to the next query
        self._scanned = {}
        kafka = None if query.kafka is None else query.kafka.batch(plan)
        job = (
            DataFrameJob(df, query.columns, self._choice, kafka)
            if query.parquet is None
            else self._file_job(query.parquet, df.sparkSession, spec, plan, kafka)
        )
        reports = job.run(spec)
        if not is_local(context.master):
            _refuse_retries(context)
        return reports

    def _file_job(
        self, parquet: ParquetStreams, session: Any, spec: BatchSpec, plan: LoadedPlan, kafka: KafkaBatch | None
    ) -> DataFrameJob | RddJob:
        files, reads = parquet.files_of_batch(plan.ingest), parquet.reads(plan)
        readable = None if files.paths is None else readable_files(files.paths, reads, parquet.plain_calendar)
        if readable is not None:
            if self._rdd_jobs is None:
                self._rdd_jobs = RddJobs(session.sparkContext, self.names, self._choice, self.coordinator.sweep)
            return self._rdd_jobs.over(DirectSource(readable, reads, kafka))
        self._scanned = frames = parquet.frames(session, files, reads)
        packed = assign_packed_columns({stream: [(column.name, column.kind) for column in reads[stream].columns] for stream in frames})
        return DataFrameJob(pack_streams(frames, packed, frozenset(frames)), packed, self._choice, kafka)

    def _tune(self, session: Any) -> None:
        """Once per start: each has a session of its own."""
        key = str(session._jsparkSession.hashCode())
        if key not in self._tuned:
            settings = _SETTINGS if self.query.parquet is None else _SETTINGS | _PRUNE_EMPTY
            for name, value in settings.items():
                session.conf.set(name, value)
            session.sparkContext.setLocalProperty(TASK_PROPERTY, TASK)
            self._tuned.add(key)


class _SparkTransport:
    """The transport of one batch, over the DataFrame that Spark passes for it."""

    def __init__(self, function: BatchFunction, df: Any) -> None:
        self.function, self.df = function, df

    def run(self, spec: BatchSpec) -> Sequence[Report]:
        return self.function._run(self.df, spec)


def _refuse_retries(context: Any) -> None:
    """A stage that ran twice in the batch's job has numbered tuples twice. `configure` turns that off; without it the batch must fail."""
    tracker = context.statusTracker()
    group = context.getLocalProperty("spark.jobGroup.id")
    jobs = sorted(tracker.getJobIdsForGroup(group))
    job = tracker.getJobInfo(jobs[-1]) if jobs else None
    for stage in () if job is None else job.stageIds:
        info = tracker.getStageInfo(stage)
        if info is not None and info.currentAttemptId > 0:
            raise RetriedError(f"stage {stage} of the batch's job was run again")
