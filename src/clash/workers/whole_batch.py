"""A whole batch in one process: ingest, then all rounds, with messages that never leave memory.

Invariant: it runs the same code as the tasks of a transport that moves messages between processes. Where one task does the work of all
workers (`BatchSpec.is_one_task`), each round has one inbox; otherwise one per worker, as in those tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from clash.columnar.block import from_batch
from clash.protocol.arrivals import Arrival
from clash.protocol.batch import BatchSpec
from clash.protocol.messages import REPORT_KIND, Message, read_report
from clash.protocol.reports import Report
from clash.workers.block_queue import spilled
from clash.workers.ingest import run_ingest
from clash.workers.round import run_round

Deliver = Callable[[list[Message]], list[Message]]


def run_whole_batch(
    spec: BatchSpec, partitions: Iterable[Iterable[Arrival]], deliver: Deliver | None = None, max_matches: int | None = None
) -> list[Report]:
    """The reports of all tasks. `deliver` changes what a round receives, for tests: a shuffle keeps no order. Once there are more matches
    than `max_matches`, in all steps of a round, TooManyMatchesError."""
    held = _HeldMessages(spec.tuning.queue_bytes)
    messages = [held.add(message) for number, rows in enumerate(partitions) for message in run_ingest(spec, number, rows)]
    for number in range(1, spec.rounds + 1):
        if deliver is not None:
            messages = deliver(messages)
        inboxes: list[list[Message]] = [[] for _ in range(spec.tasks)]
        for message in messages:
            inboxes[message.worker].append(message)
        held = _HeldMessages(spec.tuning.queue_bytes)
        messages = [
            held.add(message) for worker, inbox in enumerate(inboxes) for message in run_round(spec, number, worker, inbox, max_matches)
        ]
    unread = [message for message in messages if message.kind != REPORT_KIND]
    if unread:
        raise AssertionError(f"{unread[0].kind} is left after the last round")
    return [read_report(message.payload) for message in messages]


class _HeldMessages:
    """The messages for the next round. Once they take up much memory, further ones are on disk, and the system may drop their pages."""

    def __init__(self, memory: int) -> None:
        self.memory, self.used = memory, 0

    def add(self, message: Message) -> Message:
        rows = message.payload
        if not isinstance(rows, pa.RecordBatch):  # a report, or what a worker wrote: small
            return message
        block = from_batch(rows)
        if self.used + block.nbytes <= self.memory:
            self.used += block.nbytes
            return message
        return message._replace(payload=spilled(block).to_batch(rows.schema))
