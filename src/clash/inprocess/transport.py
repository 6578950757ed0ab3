"""The in-process transport: tasks run one after the other, or one does the work of all workers, and messages arrive in any order; a seed
decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa

from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.protocol.messages import Message, packed, read_report
from clash.protocol.reports import Report
from clash.workers.loaded_plan import LoadedPlan
from clash.workers.whole_batch import run_whole_batch

Partition = list[tuple[str, pa.RecordBatch]]  # record batches by stream


class InProcessTransport:
    """Runs one batch over these partitions."""

    def __init__(self, partitions: list[Partition], random: Random) -> None:
        self.partitions, self.random = partitions, random

    def run(self, spec: BatchSpec) -> list[Report]:
        spec = replace(spec, is_one_task=self.random.random() < 0.5)
        spec = BATCH_SPEC.loads(BATCH_SPEC.dumps(spec))  # as tasks in other processes get it
        if self.random.random() < 0.5:  # in one process, where nothing is packed
            return run_whole_batch(spec, self.partitions, self._shuffled)
        reports = run_whole_batch(spec, self.partitions, self._packed)
        return [read_report(packed(report)) for report in reports]

    def _shuffled(self, messages: list[Message]) -> list[Message]:
        return self.random.sample(messages, len(messages))

    def _packed(self, messages: list[Message]) -> list[Message]:
        return [message._replace(payload=packed(message.payload)) for message in self._shuffled(messages)]


def random_partitions(tables: Mapping[str, pa.Table], plan: LoadedPlan, count: int, random: Random) -> list[Partition]:
    """The rows of the tables in random order over random partitions, with the columns that the plan reads."""
    partitions: list[Partition] = [[] for _ in range(count)]
    for name, table in tables.items():
        ingest = plan.ingest.get(name)
        columns = [] if ingest is None else [column.name for column in ingest.columns]
        order = list(range(table.num_rows))
        random.shuffle(order)
        assigned = np.array([random.randrange(count) for _ in order], np.int64)
        shuffled = table.select(columns).take(pa.array(order, pa.int64())).combine_chunks() if columns else None
        for partition in range(count):
            rows = np.flatnonzero(assigned == partition)
            if shuffled is not None and len(rows):
                partitions[partition] += [(name, batch) for batch in shuffled.take(pa.array(rows)).to_batches()]
    for part in partitions:
        random.shuffle(part)
    return partitions
