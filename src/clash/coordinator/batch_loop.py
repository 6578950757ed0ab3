"""The one loop over batches, whatever moves the messages between tasks.

Invariant: nothing of a batch counts before `Coordinator.commit` has returned. A batch that is committed already, because Spark did not
learn of it, is only published again, never computed again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from clash.coordinator.checkpoint.spark_seal import SparkSeal
from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.coordinator import Coordinator
from clash.protocol.batch import BatchSpec
from clash.protocol.messages import Payload


class Transport(Protocol):
    """Runs the tasks of a batch: ingest over the rows of the batch, then the rounds, with the messages of each for the next.

    There are three: over files that tasks read (`spark.rdd_job`), over DataFrames that Spark reads (`spark.dataframe_job`), and in this
    process (`inprocess.transport`).
    """

    def run(self, spec: BatchSpec) -> Sequence[Payload]:
        """The reports of all tasks. An attempt that fails leaves only files that its name distinguishes from those of others."""


def run_batch(
    coordinator: Coordinator, transport: Transport, batch: int, now: int, partitions: int, seal: SparkSeal | None = None
) -> CommittedBatch:
    """Runs a batch to its end. `now`: the time in microseconds; `partitions`: the number of ingest tasks; `seal`: of Spark's half of the
    checkpoint."""
    began = time.perf_counter()
    spec = coordinator.begin(batch, now, partitions, seal)
    decided = time.perf_counter()
    if spec is None:
        return coordinator.publish(batch)
    try:
        reports = transport.run(spec)
    except BaseException:
        coordinator.abandon(spec)
        raise
    reported = time.perf_counter()
    committed = coordinator.commit(spec, reports)
    seconds = {"decide": decided - began, "job": reported - decided, "commit": time.perf_counter() - reported}
    return replace(committed, driver_seconds=seconds)
