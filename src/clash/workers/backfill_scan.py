"""Stored tuples as if they arrived once more: how a new intermediate store gets the rows that were completed before it was introduced.

Invariant: of all ingest tasks together, every tuple that a base store holds with an arrival in the range is read exactly once: of the first
copy of each layout, whose containers are divided among the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from clash.columnar.block import Block, as_time_column, from_batch, rows_where
from clash.model.block_columns import ARRIVAL, EVENT_TIME
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.plan.physical import Channel
from clash.protocol.batch import BatchSpec
from clash.protocol.containers import BackfillRange, first_copies
from clash.state.container import read_container
from clash.state.storage import open_storage
from clash.workers.loaded_plan import LoadedPlan


def scan_stored(
    spec: BatchSpec, plan: LoadedPlan, stream: Stream, channel: Channel, filled: BackfillRange, partition: int
) -> Iterator[Block]:
    """The tuples of a stream that a backfill channel sends, as ingest has them, in bounded blocks."""
    if channel.backfill is None:
        raise AssertionError(f"channel {channel.name} is not one of a backfill")
    storage = open_storage(spec.uri)
    first = max(filled.first, channel.backfill.since)
    attributes = {f"{stream.name}.{name}" for name, _ in stream.all_columns}
    schema = plan.channel_schemas[channel.name]
    records = first_copies((record for record in spec.containers if record.store == channel.backfill.scans), spec.layouts)
    for record in records[partition :: spec.partitions]:
        if record.last_arrival < first or record.oldest >= filled.before:
            continue
        container = from_batch(read_container(storage, record.path).batch)
        arrivals = container.ints(ARRIVAL)
        rows = rows_where((arrivals >= max(first, record.counts_from)) & (arrivals < filled.before))
        for start in range(0, len(rows), spec.tuning.ingest_rows):
            block = container.take(rows[start : start + spec.tuning.ingest_rows])
            # A column that was not stored yet when the row was is NULL; no query that needs it reads the row.
            missing = {field.name: pa.nulls(block.rows, field.type) for field in schema if field.name in attributes}
            columns = {**missing, **_time_column(plan, stream, block), **block.columns}
            yield Block(block.rows, columns)


def _time_column(plan: LoadedPlan, stream: Stream, block: Block) -> dict[str, pa.Array]:
    if stream.time is None:
        return {}
    attribute = Attribute(Relation(stream.name), stream.time)
    return {str(attribute): as_time_column(block.columns[EVENT_TIME], plan.arrow_type_of(attribute))}
