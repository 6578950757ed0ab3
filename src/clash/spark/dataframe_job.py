"""The transport over DataFrames: Spark reads the rows of a batch, and messages travel as rows of few, large binary values."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.spark.column_packing import PackedColumns
from clash.spark.tasks import MESSAGE, ingest_task, round_task


class DataFrameJob:
    """Runs one batch over a DataFrame of all streams on packed columns."""

    def __init__(self, df: Any, columns: PackedColumns) -> None:
        self.df, self.columns = df, columns

    def run(self, spec: BatchSpec) -> list[bytes]:
        text = BATCH_SPEC.dumps(spec)
        messages = self.df.coalesce(spec.partitions).mapInArrow(partial(ingest_task, text, self.columns), MESSAGE)
        for number in range(1, spec.rounds + 1):
            messages = messages.repartitionById(spec.workers, F.col("target")).mapInArrow(partial(round_task, text, number), MESSAGE)
        return [bytes(payload) for _, _, payload in messages.collect()]
