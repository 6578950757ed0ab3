"""Where the tuples of a block go: one message per target worker, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from clash.columnar.block import Block, Rows
from clash.columnar.slots import slots, split
from clash.model.block_columns import ARRIVAL, NUMBER_BITS
from clash.plan.physical import Channel
from clash.protocol.batch import BatchSpec
from clash.protocol.messages import Message, Payload, block_payload, packed


def scatter(
    spec: BatchSpec, channel: Channel, schema: pa.Schema, block: Block, keys: pa.Array | None, worker: int | None = None
) -> Iterator[Message]:
    """The block as messages on the channel. `keys`: the column whose hash decides; `worker`: where the block is, None at ingest."""
    kind, limit = channel.address.kind, spec.tuning.message_bytes
    if spec.tasks == 1 or kind == "one":
        yield from (Message(0, channel.name, payload) for payload in _payloads(block, schema, limit))
    elif channel.stays:
        if worker is None:
            raise AssertionError("only a tuple that is on a worker can stay there")
        yield from (Message(worker, channel.name, payload) for payload in _payloads(block, schema, limit))
    elif kind == "all":
        for payload in _payloads(block, schema, limit):
            once = packed(payload)  # for all of them
            yield from (Message(target, channel.name, once) for target in range(spec.tasks))
    else:
        targets = arrival_slots(block, spec.tasks) if keys is None else slots(keys, spec.tasks, spec.timezone)
        order, starts = split(targets, spec.tasks)
        by_target = block.take(order)
        for target in range(spec.tasks):
            start, end = int(starts[target]), int(starts[target + 1])
            if start < end:
                part = by_target.slice(start, end - start)
                yield from (Message(target, channel.name, payload) for payload in _payloads(part, schema, limit))


def arrival_slots(block: Block, workers: int) -> Rows:
    """The worker of each row where the arrival decides."""
    return ((block.ints(ARRIVAL) >> NUMBER_BITS) % workers).astype(np.int32)


def _payloads(block: Block, schema: pa.Schema, limit: int) -> Iterator[Payload]:
    """Of about `limit` bytes at most; a single row may be larger."""
    rows = max(1, block.rows * limit // max(block.nbytes, limit))
    for start in range(0, block.rows, rows):
        yield block_payload(block.slice(start, min(rows, block.rows - start)), schema)
