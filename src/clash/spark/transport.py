"""One micro-batch on Spark: begin, one job, commit, hand over.

Invariant: nothing of a batch counts before `driver.commit` has returned. A batch that is committed already, because Spark did not
learn of it, is only finished: its files are published and handed over again, never computed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from clash.coordinator.committed_batch import Committed
from clash.coordinator.coordinator import Driver
from clash.protocol.batch import Work
from clash.spark.rdd_job import Chain
from clash.spark.configure import is_local
from clash.spark.parquet_streams import Direct
from clash.spark.failures import RetriedError
from clash.spark.parquet_reader import cut
from clash.spark.query_launcher import delivers
from clash.spark.column_packing import Places, arrange, pack
from clash.spark.offset_log import BorderError
from clash.spark.tasks import MESSAGE, ingest_task, round_task
from clash.workers.program import Program

# Settings of the session that Spark clones for the streaming query: they touch no other query of the user.
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    # A record batch of messages may not pass 2 GB: so many, of at most 400 kB each (Tuning.message). A limit in bytes would do
    # without that, but Spark then adds up the sizes of all columns for every row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.compression.codec": "none",
}
# A branch without rows is neither planned nor scanned. Spark keeps it by default, for operators with a state: plain files have none.
_NOTHING_TO_SCAN = {"spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "true"}


class Transport:
    """`hand_over` gets what was committed, for the sinks that are functions. `places`: what the Spark query that runs delivers;
    `program`: what it has to deliver when it is started again. Where all streams are plain files (`direct`) that query delivers
    nothing but the files' names: tasks read them, or, where that is not certain to give the same rows, Spark does."""

    def __init__(self, driver: Driver, hand_over: Callable[[Committed, float], None]) -> None:
        self.driver, self.hand_over = driver, hand_over
        self.places: Places = ()
        self.direct: Direct | None = None
        self.program = driver.program
        self._packed: Program | None = None
        self._delivered: Program | None = None
        self._set: set[str] = set()
        self._chain: Chain | None = None
        self._scanned: Mapping[str, Any] = {}

    def __call__(self, df: Any, batch: int) -> None:
        """The function that Spark calls for each batch."""
        began = time.perf_counter()
        session = df.sparkSession
        self._tune(session)
        partitions = max(1, session.sparkContext.defaultParallelism)
        if batch == self.driver.last + 1 and batch > 0:
            self.driver.handed_over(batch - 1)  # Spark has it on record: nobody will ask for those files again
        work = self.driver.begin(batch, time.time_ns() // 1000, partitions)
        if work is None:
            committed = self.driver.finish(batch)
        else:
            self._check(work.program)
            try:
                reports = self._run(df, work)
            except BaseException:
                self.driver.sweep()
                raise
            committed = self.driver.commit(work, reports)
        self.hand_over(committed, began)

    def launched(self, places: Places, direct: Direct | None) -> None:
        """Another Spark query is about to run."""
        self.places, self.direct, self._packed, self._delivered = places, direct, self.program, None

    def _check(self, program: Program) -> None:
        """A batch that needs what the Spark query does not read is left to the next one."""
        if program is not self._delivered:
            self.program = program
            if not self._delivers(program):
                if program is self._packed:
                    raise AssertionError("the Spark query does not read what it was started for")
                raise BorderError
            self._delivered = program

    def _delivers(self, program: Program) -> bool:
        """Of plain files all columns can be had at any time."""
        return delivers(self.places, program) if self.direct is None else self.direct.stored.keys() >= program.streams.keys()

    def guilty(self) -> tuple[str, BaseException] | None:
        """The first stream that Spark cannot read by itself, of a batch that it was asked to read here."""
        for stream, frame in self._scanned.items():
            try:
                frame._jdf.queryExecution().toRdd().count()
            except Exception as error:
                return stream, error
        return None

    def _run(self, df: Any, work: Work) -> list[bytes]:
        context = df.sparkSession.sparkContext
        self._scanned = {}
        reports = self._scan(df, self.places, work) if self.direct is None else self._read(self.direct, df.sparkSession, work)
        if not is_local(context.master):
            _refuse_retries(context)
        return reports

    def _read(self, direct: Direct, session: Any, work: Work) -> list[bytes]:
        found, columns = direct.find(work.program.streams), direct.columns(work.program)
        pieces = None if found.files is None else cut(found.files, columns, work.partitions, direct.plain_calendar)
        if pieces is not None:
            if self._chain is None:
                self._chain = Chain(session.sparkContext)
            return self._chain.run(work, pieces, columns)
        self._scanned = frames = direct.frames(session, found, columns)
        places = arrange({stream: [(wanted.name, wanted.kind) for wanted in columns[stream]] for stream in frames})
        return self._scan(pack(frames, places, frozenset(frames)), places, work)

    def _scan(self, df: Any, places: Places, work: Work) -> list[bytes]:
        text = work.to_json()
        messages = df.coalesce(work.partitions).mapInArrow(partial(ingest_task, text, places), MESSAGE)
        for number in range(1, work.rounds + 1):
            messages = messages.repartitionById(work.workers, F.col("target")).mapInArrow(partial(round_task, text, number), MESSAGE)
        return [bytes(payload) for _, _, payload in messages.collect()]

    def _tune(self, session: Any) -> None:
        """Once per start: each has a session of its own."""
        key = str(session._jsparkSession.hashCode())
        if key not in self._set:
            for name, value in (_SETTINGS if self.direct is None else _SETTINGS | _NOTHING_TO_SCAN).items():
                session.conf.set(name, value)
            self._set.add(key)


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
