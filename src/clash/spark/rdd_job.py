"""A batch's job as plain RDDs: ingest, then per round a shuffle and a task, then the reports.

Invariant: a message travels as one byte string from task to task; the JVM copies it and never looks inside. There is no plan to make:
a few calls build the whole job, in the thread and the job group of the streaming query.

The RDDs are those of PySpark's `mapPartitionsWithIndex` and `partitionBy`, made without its detours: looking a class up by its short
name reads all jars of the class path, 1 ms each, and there are dozens of look-ups in a job; pickling payloads copies them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.cloudpickle import dumps
from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.serializers import NoOpSerializer

from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.spark.parquet_reader import Columns, FileSlices
from clash.spark.tasks import framed_round, read_task

_PYTHON = "org.apache.spark.api.python"
_RAW: Any = NoOpSerializer()
_dumps: Any = dumps
_LARGE = 1 << 20  # bytes of a command that Spark broadcasts


@dataclass(frozen=True)
class FileSource:
    """The files of a batch."""

    slices: list[FileSlices]
    """What each ingest task reads."""
    columns: Columns
    """By stream, the columns to read."""


class RddJobs:
    """Builds jobs; one per run and Spark context."""

    def __init__(self, context: Any) -> None:
        self.context = context
        client = context._gateway._gateway_client

        def known(name: str) -> Any:
            return JavaClass(name, client)

        self._function = known(f"{_PYTHON}.SimplePythonFunction")
        self._rdd = known(f"{_PYTHON}.PythonRDD")
        self._values = self._rdd.valueOfPair
        self._pairs = known(f"{_PYTHON}.PairwiseRDD")
        self._partitioner = known(f"{_PYTHON}.PythonPartitioner")
        self._pair_rdd = known("org.apache.spark.api.java.JavaPairRDD")
        # Pairs of anything are written by Java's serializer. Of pairs of numbers and bytes Spark makes Kryo's business, and every
        # task builds a Kryo of its own: 10 ms.
        self._anything = known("scala.reflect.ClassTag").AnyRef()
        self._environment = known("java.util.HashMap")()
        self._includes, self._none = known("java.util.ArrayList")(), known("java.util.ArrayList")()
        for key, value in context.environment.items():
            self._environment.put(key, value)
        for file in context._python_includes:
            self._includes.add(file)
        self._starts: dict[int, Any] = {}

    def over(self, source: FileSource) -> RddJob:
        return RddJob(self, source)

    def collect(self, spec: BatchSpec, source: FileSource) -> list[bytes]:
        """Runs a batch; the reports of all its tasks."""
        text = BATCH_SPEC.dumps(spec)
        sent = self._mapped(self._start(len(source.slices)), partial(read_task, text, source.slices, source.columns))
        for number in range(1, spec.rounds + 1):
            is_last = number == spec.rounds
            sent = self._mapped(self._shuffled(sent, spec.workers), partial(framed_round, text, number, is_last))
        collected = sent.asJavaRDD().collect()
        return [line for at in range(collected.size()) for line in collected.get(at).splitlines()]

    def _start(self, partitions: int) -> Any:
        """An RDD of so many partitions, and nothing in them."""
        if partitions not in self._starts:
            self._starts[partitions] = self.context.parallelize([], partitions)._jrdd.rdd()
        return self._starts[partitions]

    def _mapped(self, before: Any, task: Callable[[int, Iterable[bytes]], Iterable[bytes]]) -> Any:
        context, broadcasts = self.context, self._none
        command = _dumps((task, None, _RAW, _RAW))
        if len(command) > _LARGE:
            command, broadcasts, _, _ = _prepare_for_python_RDD(context, (task, None, _RAW, _RAW))
        function = self._function(
            bytearray(command), self._environment, self._includes, context.pythonExec, context.pythonVer, broadcasts,
            context._javaAccumulator,
        )  # fmt: skip
        # What leaves a task is for other workers than what came in. Told otherwise, Spark would leave out the next shuffle: it has the
        # same partitioner as the last one.
        return self._rdd(before, function, False, False)

    def _shuffled(self, sent: Any, workers: int) -> Any:
        """What was sent as pairs of a worker's number and a message, in the hands of the worker."""
        pairs = self._pair_rdd(self._pairs(sent), self._anything, self._anything)
        return self._values(pairs.partitionBy(self._partitioner(workers, 0))).rdd()


class RddJob:
    """Runs one batch over files that its tasks read."""

    def __init__(self, jobs: RddJobs, source: FileSource) -> None:
        self.jobs, self.source = jobs, source

    def run(self, spec: BatchSpec) -> list[bytes]:
        return self.jobs.collect(spec, self.source)
