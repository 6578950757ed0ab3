"""What travels between tasks.

A message is for one worker. Its kind is the name of a channel, and its payload a record batch of the channel's columns; or it is one of the
two kinds below: a report for the coordinator, and what a worker wrote, for its own next round. A payload stays what it is as long as it
stays in one process; `packed` makes bytes of it when it leaves.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import pyarrow as pa

from clash.columnar.block import Block, from_batch
from clash.protocol.reports import REPORT, STORE_CHANGES, IngestReport, Report, RoundReport, StoreChanges

REPORT_KIND = "report"
STORE_CHANGES_KIND = "store_changes"

Packed: TypeAlias = "pa.Buffer | bytes"
Payload: TypeAlias = "Packed | pa.RecordBatch | Report | StoreChanges"


class Message(NamedTuple):
    worker: int
    kind: str
    payload: Payload


def report_message(worker: int, report: Report) -> Message:
    return Message(worker, REPORT_KIND, report)


def read_report(payload: Payload) -> Report:
    return payload if isinstance(payload, IngestReport | RoundReport) else REPORT.loads(bytes(packed(payload)))


def store_changes_message(worker: int, changes: StoreChanges) -> Message:
    return Message(worker, STORE_CHANGES_KIND, changes)


def read_store_changes(payload: Payload) -> StoreChanges:
    return payload if isinstance(payload, StoreChanges) else STORE_CHANGES.loads(bytes(packed(payload)))


def block_payload(block: Block, schema: pa.Schema) -> Payload:
    return block.to_batch(schema)


def read_block(payload: Payload, schema: pa.Schema) -> Block:
    if isinstance(payload, pa.RecordBatch):
        return from_batch(payload)
    return from_batch(pa.ipc.read_record_batch(pa.py_buffer(packed(payload)), schema))


def packed(payload: Payload) -> Packed:
    """The payload as bytes: a record batch in Arrow's format, anything else in JSON."""
    if isinstance(payload, pa.RecordBatch):
        return payload.serialize()
    if isinstance(payload, IngestReport | RoundReport):
        return REPORT.dumps(payload).encode()
    if isinstance(payload, StoreChanges):
        return STORE_CHANGES.dumps(payload).encode()
    return payload
