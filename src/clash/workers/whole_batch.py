"""A whole batch in one process: ingest, then all rounds of all workers, with messages that never leave memory.

Invariant: it runs the same tasks, with the same messages, as a transport that moves them between processes. Only the place differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from clash.protocol.batch import BatchSpec
from clash.protocol.messages import REPORT_KIND, Message, Payload
from clash.workers.ingest import run_ingest
from clash.workers.round import run_round

Rows = Iterable[tuple[str, pa.RecordBatch]]  # record batches by stream


def run_whole_batch(spec: BatchSpec, partitions: Iterable[Rows], reorder: Callable[[list[Message]], None] | None = None) -> list[Payload]:
    """The reports of all tasks. `reorder` changes the order in which the messages of a round arrive, for tests: a shuffle keeps none."""
    messages = [message for number, rows in enumerate(partitions) for message in run_ingest(spec, number, rows)]
    for number in range(1, spec.rounds + 1):
        if reorder is not None:
            reorder(messages)
        inboxes: list[list[Message]] = [[] for _ in range(spec.workers)]
        for message in messages:
            inboxes[message.worker].append(message)
        messages = [message for worker, inbox in enumerate(inboxes) for message in run_round(spec, number, worker, inbox)]
    unread = [message for message in messages if message.kind != REPORT_KIND]
    if unread:
        raise AssertionError(f"{unread[0].kind} is left after the last round")
    return [message.payload for message in messages]
