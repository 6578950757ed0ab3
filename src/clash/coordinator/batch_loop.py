"""The one loop over batches, whatever moves the messages between tasks.

Invariant: nothing of a batch counts before `Coordinator.commit` has returned. A batch that is committed already, because Spark did not
learn of it, is only published again, never computed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from clash.coordinator.batch_reports import BatchReports
from clash.coordinator.checkpoint.spark_seal import SparkSeal
from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.coordinator import Coordinator
from clash.model.query import Query
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import Report, ResultFile
from clash.protocol.result_files import JOINED_ROWS
from clash.state.failpoints import reach


class Transport(Protocol):
    """Runs the tasks of a batch: ingest over the rows of the batch, then the rounds, with the messages of each for the next.

    There are three: over files that tasks read (`spark.rdd_job`), over DataFrames that Spark reads (`spark.dataframe_job`), and in this
    process (`inprocess.transport`).
    """

    def run(self, spec: BatchSpec) -> Sequence[Report]:
        """The reports of all tasks. An attempt that fails leaves only files that its name distinguishes from those of others."""


Project = Callable[[BatchSpec, Sequence[Query], Sequence[ResultFile]], Sequence[ResultFile]]
"""The staged results of queries, or of branches of queries, with a projection; its last argument: staged files with the rows of their
joins."""


def no_projection(spec: BatchSpec, queries: Sequence[Query], files: Sequence[ResultFile]) -> Sequence[ResultFile]:
    """There is no Spark to compute results of joined rows."""
    raise AssertionError(f"query {queries[0].name} needs Spark")


def run_batch(
    coordinator: Coordinator,
    transport: Transport,
    batch: int,
    now: int,
    partitions: int,
    seal: SparkSeal | None = None,
    project: Project = no_projection,
) -> CommittedBatch:
    """Runs a batch to its end. `now`: the time in microseconds; `partitions`: the number of ingest tasks; `seal`: of Spark's half of the
    checkpoint."""
    began = time.perf_counter()
    spec = coordinator.begin(batch, now, partitions, seal)
    decided = time.perf_counter()
    if spec is None:
        return coordinator.publish(batch)
    try:
        reports = BatchReports.of(spec, transport.run(spec))
        reported = time.perf_counter()
        reports = replace(reports, projected=_project(coordinator, project, spec, reports.joined))
    except BaseException:
        coordinator.abandon(spec)
        raise
    projected = time.perf_counter()
    committed = coordinator.commit(spec, reports)
    seconds = {"decide": decided - began, "job": reported - decided, "commit": time.perf_counter() - projected}
    if reports.joined:
        seconds["project"] = projected - reported
    return replace(committed, driver_seconds=seconds)


def _project(coordinator: Coordinator, project: Project, spec: BatchSpec, joined: Sequence[ResultFile]) -> tuple[ResultFile, ...]:
    """What Spark computes of the batch's joined rows."""
    if not joined:
        return ()
    reach("before-projection")
    names = {file.destination for file in joined}
    queries = [branch for branch in coordinator.generation.setup.branches if f"{JOINED_ROWS}{branch.name}" in names]
    results = tuple(project(spec, queries, joined))
    reach("after-projection")
    return results
