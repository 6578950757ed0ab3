"""What travels between tasks.

A message is for one worker. Its kind is the name of a channel, whose payload is a record batch of the channel's schema, or one
of the two below, whose payload is JSON: what a task has to tell the driver, and what it wrote, for its own worker's next round.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from clash.columnar.block import Block, of_batch

REPORT = "report"
WROTE = "wrote"


class Message(NamedTuple):
    worker: int
    kind: str
    payload: pa.Buffer | bytes


def of_json(worker: int, kind: str, data: Any) -> Message:
    return Message(worker, kind, json.dumps(data, separators=(",", ":")).encode())


def to_json(payload: pa.Buffer | bytes) -> Any:
    return json.loads(bytes(payload))


def pack(block: Block, schema: pa.Schema) -> pa.Buffer:
    return block.batch(schema).serialize()


def unpack(payload: pa.Buffer | bytes, schema: pa.Schema) -> Block:
    return of_batch(pa.ipc.read_record_batch(pa.py_buffer(payload), schema))
