"""The transport over plain RDDs: ingest tasks that read files and Kafka, then per round a shuffle and a task per worker, then the reports;
or, for a small batch, one task that does all of it; or, for one that is smaller still and on one machine, the driver itself.

Invariant: a message travels from task to task as one byte string, which the JVM copies and never parses. Spark SQL plans nothing: a few
calls build the whole job, in the thread and the job group of the streaming query.

The RDDs are those of PySpark's `mapPartitionsWithIndex` and `partitionBy`, but built by calls of the Java constructors. PySpark looks
classes up by their short names, which takes 1 ms each, as it reads all jars of the class path, and a job needs dozens; it also pickles
payloads, which copies them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.cloudpickle import dumps
from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.serializers import NoOpSerializer

from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.protocol.messages import read_report
from clash.protocol.reports import Report
from clash.spark.configure import is_local
from clash.spark.direct_source import DirectSource
from clash.spark.java_classes import jobs
from clash.spark.job_names import JobNames
from clash.spark.payload_files import PayloadReader, payload_folder
from clash.spark.task_choice import MAX_DRIVER_MATCHES, TaskChoice
from clash.spark.tasks import framed_round, from_pieces, read_task, whole_batch_task
from clash.workers.round import TooManyMatchesError
from clash.workers.whole_batch import run_whole_batch

_PACKAGE = "org.apache.spark.api.python"
_BYTES: Any = NoOpSerializer()
_pickle: Any = dumps
_MAX_COMMAND = 1 << 20  # bytes; PySpark broadcasts a larger one


class RddJobs:
    """Builds and runs the jobs of a run; it caches the Java classes and objects that all of them use. `sweep` deletes what an attempt at a
    batch has written."""

    def __init__(self, context: Any, names: JobNames, choice: TaskChoice, sweep: Callable[[], None]) -> None:
        self.context, self.names, self.choice, self._sweep = context, names, choice, sweep
        client = context._gateway._gateway_client

        def java_class(name: str) -> Any:
            return JavaClass(name, client)

        self._python_function = java_class(f"{_PACKAGE}.SimplePythonFunction")
        self._python_rdd = java_class(f"{_PACKAGE}.PythonRDD")
        self._values_of_pairs = self._python_rdd.valueOfPair
        self._pairwise_rdd = java_class(f"{_PACKAGE}.PairwiseRDD")
        self._partitioner = java_class(f"{_PACKAGE}.PythonPartitioner")
        self._pair_rdd = java_class("org.apache.spark.api.java.JavaPairRDD")
        # With this type of key and value, Spark writes pairs with Java's serializer. If the types said numbers and bytes, it would use
        # Kryo, which every task sets up again, in 10 ms.
        self._any_type = java_class("scala.reflect.ClassTag").AnyRef()
        self._environment = java_class("java.util.HashMap")()
        self._includes, self._no_broadcasts = java_class("java.util.ArrayList")(), java_class("java.util.ArrayList")()
        for key, value in context.environment.items():
            self._environment.put(key, value)
        for file in context._python_includes:
            self._includes.add(file)
        self._empty_rdds: dict[int, Any] = {}  # by number of partitions
        self._is_local = is_local(context.master)  # executors elsewhere have neither our class nor files of this machine
        self._jobs = jobs(context) if self._is_local else None
        self._java_context = context._jsc.sc()

    def over(self, source: DirectSource) -> RddJob:
        """The transport of one batch, over its input."""
        return RddJob(self, source)

    def collect(self, spec: BatchSpec, source: DirectSource) -> Sequence[Report]:
        """Runs a batch, and returns the reports of all its tasks."""
        if not spec.backfill and self.choice.is_one_task(source.rows, spec.rounds, spec.partitions):
            if self._is_local and source.kafka is None and self.choice.is_for_driver(source.rows):
                reports = self._run_in_driver(spec, source)
                if reports is not None:
                    return reports
            self.names.name_stage(spec.batch, "one task")
            task = partial(whole_batch_task, BATCH_SPEC.dumps(replace(spec, is_one_task=True)), source.divided(1))
            return self._reports(self._map_partitions(self._empty_rdd(1), task))
        with payload_folder(self.context._temp_dir) if self._is_local else nullcontext() as folder:
            return self._collect_rounds(spec, source, folder)

    def _run_in_driver(self, spec: BatchSpec, source: DirectSource) -> Sequence[Report] | None:
        """None if the batch has more matches than its rows made expect; it then leaves nothing."""
        one_task = replace(spec, is_one_task=True)
        try:
            return run_whole_batch(one_task, [source.divided(1).read(0, one_task)], max_matches=MAX_DRIVER_MATCHES)
        except TooManyMatchesError:
            self.choice.had_too_many_matches(source.rows)
            self._sweep()
            return None

    def _collect_rounds(self, spec: BatchSpec, source: DirectSource, folder: str | None) -> list[Report]:
        text = BATCH_SPEC.dumps(spec)
        self.names.name_stage(spec.batch, "ingest")
        ingest = partial(read_task, text, source.divided(spec.partitions), folder)
        messages = self._map_partitions(self._empty_rdd(spec.partitions), ingest)
        for number in range(1, spec.rounds + 1):
            is_last = number == spec.rounds
            shuffled = self._shuffle(messages, spec.workers)  # its first RDD is the last one of the stage before it
            self.names.name_stage(spec.batch, f"round {number}")
            messages = self._map_partitions(shuffled, partial(framed_round, text, number, is_last, folder))
        return self._reports(messages, folder)

    def _reports(self, tasks: Any, folder: str | None = None) -> list[Report]:
        """Runs the job of which these are the last tasks, and returns what they report. `folder`: where they leave long reports."""
        collected = tasks.asJavaRDD().collect() if self._jobs is None else self._jobs.collect(self._java_context, tasks, self.names.stage)
        self.names.end_job()
        reader = None if folder is None else PayloadReader(folder)
        return [read_report(line) for line in from_pieces((collected.get(at) for at in range(collected.size())), reader)]

    def _empty_rdd(self, partitions: int) -> Any:
        """An RDD without rows: it only determines how many ingest tasks run."""
        if partitions not in self._empty_rdds:
            self._empty_rdds[partitions] = self.context.parallelize([], partitions)._jrdd.rdd()
        return self._empty_rdds[partitions]

    def _map_partitions(self, parent: Any, task: Callable[[int, Iterable[bytes]], Iterable[bytes]]) -> Any:
        context, broadcasts = self.context, self._no_broadcasts
        command = _pickle((task, None, _BYTES, _BYTES))
        if len(command) > _MAX_COMMAND:
            command, broadcasts, _, _ = _prepare_for_python_RDD(context, (task, None, _BYTES, _BYTES))
        function = self._python_function(
            bytearray(command), self._environment, self._includes, context.pythonExec, context.pythonVer, broadcasts,
            context._javaAccumulator,
        )  # fmt: skip
        # The first False: a task does not preserve partitioning, as its messages go to other workers. With True, Spark would leave out
        # the next shuffle, because it has the same partitioner as the last one.
        return self._python_rdd(parent, function, False, False)

    def _shuffle(self, messages: Any, workers: int) -> Any:
        """Takes a worker's number and a message alternately, and brings each message to the partition of its worker."""
        pairs = self._pair_rdd(self._pairwise_rdd(messages), self._any_type, self._any_type)
        return self._values_of_pairs(pairs.partitionBy(self._partitioner(workers, 0))).rdd()


class RddJob:
    """Runs one batch over what its ingest tasks read."""

    def __init__(self, jobs: RddJobs, source: DirectSource) -> None:
        self.jobs, self.source = jobs, source

    def run(self, spec: BatchSpec) -> Sequence[Report]:
        return self.jobs.collect(spec, self.source)
