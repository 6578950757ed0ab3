"""Where the tuples of a block go: one message per target worker, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from clash.columnar.block import Block, Rows, rows_where
from clash.columnar.slots import hot_rows, slots, split
from clash.model.block_columns import ARRIVAL, NUMBER_BITS
from clash.plan.physical import Channel
from clash.plan.topology import Address
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
    elif keys is not None and kind == "key" and channel.address.hot:
        hot = hot_rows(keys, channel.address.hot, spec.timezone)
        cold = rows_where(~hot)
        if len(cold) < block.rows:
            everywhere = replace(channel, address=Address("all"))
            yield from scatter(spec, everywhere, schema, block.take(rows_where(hot)), None)
            block, keys = block.take(cold), keys.take(pa.array(cold))
        yield from _divided(spec, channel, schema, block, slots(keys, spec.tasks, spec.timezone))
    else:
        yield from _divided(spec, channel, schema, block, home_slots(block, keys, channel.address.hot, spec.tasks, spec.timezone))


def _divided(spec: BatchSpec, channel: Channel, schema: pa.Schema, block: Block, targets: Rows) -> Iterator[Message]:
    """Each row to its target."""
    order, starts = split(targets, spec.tasks)
    by_target = block.take(order)
    for target in range(spec.tasks):
        start, end = int(starts[target]), int(starts[target + 1])
        if start < end:
            part = by_target.slice(start, end - start)
            yield from (Message(target, channel.name, payload) for payload in _payloads(part, schema, spec.tuning.message_bytes))


def home_slots(block: Block, keys: pa.Array | None, hot: tuple[int, ...], workers: int, timezone: str) -> Rows:
    """The worker of each row that is stored under a hash layout: by its key, or by its arrival where there is none or the key is hot."""
    if keys is None:
        return arrival_slots(block, workers)
    by_key = slots(keys, workers, timezone)
    return np.where(hot_rows(keys, hot, timezone), arrival_slots(block, workers), by_key) if hot else by_key


def arrival_slots(block: Block, workers: int) -> Rows:
    """The worker of each row where the arrival decides."""
    return ((block.ints(ARRIVAL) >> NUMBER_BITS) % workers).astype(np.int32)


def _payloads(block: Block, schema: pa.Schema, limit: int) -> Iterator[Payload]:
    """Of about `limit` bytes at most; a single row may be larger."""
    rows = max(1, block.rows * limit // max(block.nbytes, limit))
    for start in range(0, block.rows, rows):
        yield block_payload(block.slice(start, min(rows, block.rows - start)), schema)
