"""What travels between tasks.

A message is for one worker. Its kind is the name of a channel, and its payload a record batch of the channel's columns; or it is one of the
two kinds below, and its payload JSON: a report for the coordinator, and what a worker wrote, for its own next round.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import pyarrow as pa

from clash.columnar.block import Block, from_batch
from clash.protocol.reports import REPORT, STORE_CHANGES, Report, StoreChanges

REPORT_KIND = "report"
STORE_CHANGES_KIND = "store_changes"

Payload: TypeAlias = "pa.Buffer | bytes"


class Message(NamedTuple):
    worker: int
    kind: str
    payload: Payload


def report_message(worker: int, report: Report) -> Message:
    return Message(worker, REPORT_KIND, REPORT.dumps(report).encode())


def read_report(payload: Payload) -> Report:
    return REPORT.loads(bytes(payload))


def store_changes_message(worker: int, changes: StoreChanges) -> Message:
    return Message(worker, STORE_CHANGES_KIND, STORE_CHANGES.dumps(changes).encode())


def read_store_changes(payload: Payload) -> StoreChanges:
    return STORE_CHANGES.loads(bytes(payload))


def pack_block(block: Block, schema: pa.Schema) -> pa.Buffer:
    return block.to_batch(schema).serialize()


def unpack_block(payload: Payload, schema: pa.Schema) -> Block:
    return from_batch(pa.ipc.read_record_batch(pa.py_buffer(payload), schema))
