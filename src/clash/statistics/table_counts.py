"""What is counted of the rows of a reference table: as of tuples, except that they have no event time."""

from __future__ import annotations

import pyarrow as pa

from clash.columnar.block import Block
from clash.plan.collection_spec import CollectionSpec
from clash.statistics.collected import Collected
from clash.statistics.collector import Collector

_CHUNK = 1 << 20  # rows: the collector reads fewer and fewer of a stream, not of a block


def count_table(spec: CollectionSpec, table: str, rows: pa.Table, timezone: str) -> Collected:
    """`rows`: with columns named `table.column`."""
    collector = Collector(CollectionSpec({table: spec.streams[table]} if table in spec.streams else {}, spec.links), timezone)
    for start in range(0, rows.num_rows, _CHUNK):
        part = rows.slice(start, _CHUNK).combine_chunks()
        collector.add(table, Block(part.num_rows, {name: part[name].combine_chunks() for name in part.column_names}))
    return collector.collected()
