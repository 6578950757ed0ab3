"""Stored tuples as if they arrived once more: how a new intermediate store gets the rows that were completed before it.

Invariant: of all ingest tasks together, every tuple that a base store holds with an arrival in the range is read exactly once: one copy
of each generation, its containers dealt out to the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from clash.coordinator.lifecycle.split_points import one_copy
from clash.protocol.batch import Work
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.state.container import read_container
from clash.state.storage import open_storage
from clash.columnar.block import ARRIVAL, TAU, Block, as_time, of_batch
from clash.workers.channels import Channel


def stored_blocks(work: Work, stream: Stream, channel: Channel, first: int, last: int, partition: int) -> Iterator[Block]:
    """Tuples of the stream with arrivals from `first` to before `last`, as ingest has them, in bounded pieces."""
    program, storage = work.program, open_storage(work.uri)
    owner = program.origin_of(channel.edges[0]).owner
    store = next(s for s in program.topology.stores if s.stream == stream.name and s.owner == owner)
    names = {f"{stream.name}.{name}" for name, _ in stream.columns}
    records = one_copy((record for record in work.containers if record.store == store.id), work.layouts)
    for record in records[partition :: work.partitions]:
        if record.last < first or record.oldest >= last:
            continue
        block = of_batch(read_container(storage, record.path).batch)
        arrivals = block.ints(ARRIVAL)
        rows = np.flatnonzero((arrivals >= max(first, record.moved)) & (arrivals < last)).astype(np.int32)
        for start in range(0, len(rows), work.tuning.gather):
            found = block.take(rows[start : start + work.tuning.gather])
            columns = {field.name: pa.nulls(found.rows, field.type) for field in channel.schema if field.name in names}  # kept later
            if stream.time is not None:
                time = Attribute(Relation(stream.name), stream.time)
                columns[str(time)] = as_time(found.columns[TAU], program.field(time).type)
            yield Block(found.rows, {**columns, **found.columns})
