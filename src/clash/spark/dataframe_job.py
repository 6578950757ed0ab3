"""The transport over DataFrames: Spark reads the rows of a batch, and messages travel as rows of few, large binary values."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.protocol.messages import REPORT_KIND, read_report
from clash.protocol.reports import Report
from clash.spark.column_packing import PackedColumns
from clash.spark.direct_source import divided
from clash.spark.kafka_streams import KafkaBatch
from clash.spark.task_choice import TaskChoice
from clash.spark.tasks import MESSAGE, ingest_task, round_task, whole_batch_of_rows


class DataFrameJob:
    """Runs one batch over a DataFrame of all streams on packed columns, and the records of Kafka, which tasks read."""

    def __init__(self, df: Any, columns: PackedColumns, choice: TaskChoice, kafka: KafkaBatch | None = None) -> None:
        self.df, self.columns, self.choice, self.kafka = df, columns, choice, kafka

    def run(self, spec: BatchSpec) -> list[Report]:
        expected = self.choice.last_rows
        if expected is not None and not spec.backfill and self.choice.is_one_task(expected, spec.rounds, spec.partitions):
            reports = self._run_one_task(spec)
            if reports is not None:
                return reports
        text = BATCH_SPEC.dumps(spec)
        slices = divided(self.kafka, spec.partitions)
        messages = self._partitions(spec.partitions).mapInArrow(partial(ingest_task, text, self.columns, slices), MESSAGE)
        for number in range(1, spec.rounds + 1):
            messages = messages.repartitionById(spec.workers, F.col("target")).mapInArrow(partial(round_task, text, number), MESSAGE)
        return [read_report(bytes(payload)) for _, _, payload in messages.collect()]

    def _run_one_task(self, spec: BatchSpec) -> list[Report] | None:
        """None if the batch has too many rows for one task, which only that task can find out: then it has done nothing."""
        text = BATCH_SPEC.dumps(replace(spec, is_one_task=True))
        task = partial(whole_batch_of_rows, text, self.columns, divided(self.kafka, 1))
        rows = self._partitions(1).mapInArrow(task, MESSAGE).collect()
        reports = [read_report(bytes(payload)) for _, kind, payload in rows if kind == REPORT_KIND]
        return reports if len(reports) == len(rows) else None

    def _partitions(self, number: int) -> Any:
        """At most so many partitions; exactly so many where tasks read records of Kafka: each has its share of them."""
        if self.kafka is None:
            return self.df.coalesce(number)
        empty = self.df.sparkSession.createDataFrame(self.df.sparkSession.sparkContext.parallelize([], number), self.df.schema)
        return self.df.union(empty).coalesce(number)
