"""A whole batch in one process: ingest, then all rounds, with messages that never leave memory.

Invariant: it runs the same code as the tasks of a transport that moves messages between processes. Where one task does the work of all
workers (`BatchSpec.is_one_task`), each round has one inbox; otherwise one per worker, as in those tasks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable

import pyarrow as pa

from clash.protocol.arrivals import Arrival
from clash.protocol.batch import BatchSpec
from clash.protocol.messages import REPORT_KIND, Message, Payload
from clash.workers.ingest import run_ingest
from clash.workers.round import run_round


def run_whole_batch(
    spec: BatchSpec, partitions: Iterable[Iterable[Arrival]], reorder: Callable[[list[Message]], None] | None = None
) -> list[Payload]:
    """The reports of all tasks. `reorder` changes the order in which the messages of a round arrive, for tests: a shuffle keeps none."""
    held = _HeldMessages(spec.tuning.queue_bytes)
    messages = [held.add(message) for number, rows in enumerate(partitions) for message in run_ingest(spec, number, rows)]
    for number in range(1, spec.rounds + 1):
        if reorder is not None:
            reorder(messages)
        inboxes: list[list[Message]] = [[] for _ in range(spec.tasks)]
        for message in messages:
            inboxes[message.worker].append(message)
        held = _HeldMessages(spec.tuning.queue_bytes)
        messages = [held.add(message) for worker, inbox in enumerate(inboxes) for message in run_round(spec, number, worker, inbox)]
    unread = [message for message in messages if message.kind != REPORT_KIND]
    if unread:
        raise AssertionError(f"{unread[0].kind} is left after the last round")
    return [message.payload for message in messages]


class _HeldMessages:
    """The messages for the next round. Once they take up much memory, further ones are on disk, and the system may drop their pages."""

    def __init__(self, memory: int) -> None:
        self.memory, self.used = memory, 0

    def add(self, message: Message) -> Message:
        size = len(message.payload)
        if message.kind == REPORT_KIND or self.used + size <= self.memory:
            self.used += size
            return message
        with tempfile.NamedTemporaryFile(prefix="clash-") as file:
            file.write(message.payload)
            file.flush()
            with pa.memory_map(file.name) as mapped:
                return message._replace(payload=mapped.read_buffer())
