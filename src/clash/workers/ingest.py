"""Raw tuples in, messages out: number, admit, filter, project, route.

Invariant: arrival numbers are a total order over all tuples of all streams. Row r of partition p of a batch has the number
first + r · partitions + p, so a batch uses about as many numbers as it has tuples, and the next batch starts behind all of them.
A tuple below its stream's watermark, or without an event time, is late: not joined, but counted and written to the late rows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.columnar.block import Block, Bools, rows_where
from clash.errors import DataError, StateError, with_context
from clash.expressions import arrow_type, evaluate, holds
from clash.model.block_columns import ARRIVAL, EVENT_TIME, NUMBER_BITS, stored_name
from clash.model.expressions import Col, Expr
from clash.model.stream import Stream
from clash.plan.physical import Channel, EdgeFilter
from clash.protocol.arrivals import Arrival, Lost, Rejected
from clash.protocol.batch import BatchSpec
from clash.protocol.messages import Message, report_message
from clash.protocol.reports import IngestReport
from clash.protocol.result_files import LATE, REJECTED
from clash.state.failpoints import reach
from clash.statistics import Collector
from clash.workers.backfill_scan import scan_stored
from clash.workers.loaded_plan import plan_of
from clash.workers.result_writer import ResultWriter
from clash.workers.routing import scatter

_FIRST_EVENT_TIME = -(1 << 63)  # a watermark may lie before it


def run_ingest(spec: BatchSpec, partition: int, arrivals: Iterable[Arrival]) -> Iterator[Message]:
    """The messages of one ingest task; the last message is its report."""
    reach("ingest-start")
    began = time.perf_counter()
    task = _IngestTask(spec, partition)
    waited = 0.0
    source = iter(arrivals)
    pending: dict[str, list[pa.RecordBatch]] = {}
    pending_rows: Counter[str] = Counter()
    more = True
    while more:
        waits = time.perf_counter()
        arrived = next(source, None)
        waited += time.perf_counter() - waits
        more = arrived is not None
        if isinstance(arrived, Rejected | Lost):
            task.count_missing(arrived)
        elif arrived is not None:
            name, rows = arrived
            if rows.num_rows:
                pending.setdefault(name, []).append(rows)
                pending_rows[name] += rows.num_rows
        for stream in [name for name in pending if not more or pending_rows[name] >= spec.tuning.ingest_rows]:
            pending_rows[stream] = 0
            try:
                yield from task.route(stream, pa.concat_batches(pending.pop(stream)))
            except (DataError, StateError) as error:
                raise with_context(error, f"stream {stream}, batch {spec.batch}") from error
    yield from task.backfill()
    files = task.other_rows.close()
    reach("ingest-end")
    report = IngestReport(
        rows=dict(task.rows),
        late=dict(task.late),
        max_event_times=task.max_event_times,
        numbers=task.numbers,
        files=files,
        statistics=task.statistics.collected(),
        seconds={"ingest": time.perf_counter() - began - waited, "source": waited},
        rejected=dict(task.rejected),
        lost=dict(task.lost),
    )
    yield report_message(partition % spec.tasks, report)


class _IngestTask:
    def __init__(self, spec: BatchSpec, partition: int) -> None:
        self.spec, self.partition, self.plan = spec, partition, plan_of(spec)
        self.numbers = 0  # arrival numbers used so far
        self.rows: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.max_event_times: dict[str, int] = {}
        self.other_rows = ResultWriter(spec, f"late-{partition}")  # late ones, and rejected records
        self.statistics = Collector(self.plan.physical.statistics, spec.timezone, hints=self.plan.sampling_hints)

    def count_missing(self, arrived: Rejected | Lost) -> None:
        """Records that are not tuples; those that are rejected are kept. A stream that no query reads has none."""
        if arrived.stream not in self.plan.ingest:
            return
        if isinstance(arrived, Lost):
            self.lost[arrived.stream] += arrived.count
        else:
            self.rejected[arrived.stream] += arrived.records.num_rows
            self.other_rows.add(f"{REJECTED}{arrived.stream}", arrived.records)

    def route(self, stream: str, batch: pa.RecordBatch) -> Iterator[Message]:
        """Messages of the tuples of a stream; the tuples of a stream that no query reads are only counted."""
        ingest = self.plan.ingest.get(stream)
        self.rows[stream] += batch.num_rows
        if ingest is None:
            return
        declared = self.plan.streams[stream]
        block = self._split_late(declared, self._number(declared, batch))
        if block.rows:
            block = self._evaluated(stream, ingest.evaluated, block)
            self.statistics.add(stream, block)
            for channel in ingest.channels:
                if channel.backfill is None:
                    yield from self._send(declared, channel, block)

    def backfill(self) -> Iterator[Message]:
        """Messages of stored tuples, for stores that get the rows that were completed before they were introduced."""
        for filled in self.spec.backfill:
            for stream, ingest in self.plan.ingest.items():
                for channel in ingest.channels:
                    if channel.backfill is not None and channel.backfill.fills == filled.store:
                        declared = self.plan.streams[stream]
                        for block in scan_stored(self.spec, self.plan, declared, channel, filled, self.partition):
                            yield from self._send(declared, channel, block)

    def _number(self, stream: Stream, batch: pa.RecordBatch) -> Block:
        """Columns under their names in blocks, with arrival numbers and event times; a missing event time is still NULL."""
        first = self.spec.first_number + self.numbers * self.spec.partitions + self.partition
        numbers = first + np.arange(batch.num_rows, dtype=np.int64) * self.spec.partitions
        self.numbers += batch.num_rows
        columns: dict[str, pa.Array] = {ARRIVAL: pa.array(numbers << NUMBER_BITS)}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):  # perhaps more than the plan reads
            declared = stream.type_of(name)
            if declared is None:  # computed for a query that has ended since
                continue
            kind = arrow_type(declared)
            columns[f"{stream.name}.{name}"] = column if column.type == kind else column.cast(kind)
        if stream.time is None:
            columns[EVENT_TIME] = pa.array(np.full(batch.num_rows, self.spec.now))
        else:
            columns[EVENT_TIME] = columns[f"{stream.name}.{stream.time}"].view(pa.int64())
        return Block(batch.num_rows, columns)

    def _split_late(self, stream: Stream, block: Block) -> Block:
        """The tuples that are not late. The others are counted and written to the late rows."""
        event_times, name = block.columns[EVENT_TIME], stream.name
        if event_times.null_count < len(event_times):
            self.max_event_times[name] = max(self.max_event_times.get(name, _FIRST_EVENT_TIME), pc.max(event_times).as_py())
        watermark = self.spec.watermarks.get(name)
        if event_times.null_count == 0 and (watermark is None or pc.min(event_times).as_py() >= watermark):
            return block
        if watermark is None:
            on_time = np.asarray(pc.is_valid(event_times))
        else:
            on_time = np.asarray(pc.fill_null(pc.greater_equal(event_times, max(watermark, _FIRST_EVENT_TIME)), False))
        late = rows_where(~on_time)
        self.late[name] += len(late)
        schema = self.plan.ingest_schemas[name]
        rows = block.select([f"{name}.{column}" for column in schema.names]).take(late)
        self.other_rows.add(f"{LATE}{name}", pa.RecordBatch.from_arrays(list(rows.columns.values()), schema=schema))
        return block.take(rows_where(on_time))

    # ---- routing -----------------------------------------------------------------------------------------------

    def _send(self, stream: Stream, channel: Channel, block: Block) -> Iterator[Message]:
        """The tuples that some edge of the channel takes, with the columns of the channel."""
        masks = {label: mask for label in channel.edges if (mask := self._taken(stream, label, block)) is not None}
        rows = None
        if len(masks) == len(channel.edges):
            taken = np.logical_or.reduce(list(masks.values()))
            rows = None if taken.all() else rows_where(taken)
        columns = {name: block.columns[name] for name, _ in channel.columns if name in block.columns}
        for label, name in channel.masks.items():
            columns[name] = pa.array(masks[label])
        sent = Block(block.rows, columns)
        key = channel.address.attribute
        keys = None if key is None else block.columns[stored_name(key)]
        if rows is not None:
            sent = sent.take(rows)
            keys = None if keys is None else keys.take(pa.array(rows))
        if sent.rows:
            yield from scatter(self.spec, channel, self.plan.channel_schemas[channel.name], sent, keys)

    def _taken(self, stream: Stream, label: str, block: Block) -> Bools | None:
        """Which rows leave on the edge; None for all."""
        edge_filter = self.plan.ingest[stream.name].filters.get(label)
        if edge_filter is None:
            return None
        column = self._columns(stream.name, block)
        if not edge_filter.row_filters:
            return holds(edge_filter.conditions, column, block.rows, self.spec.timezone)
        return self._retained(stream, edge_filter, block, column)

    def _evaluated(self, stream: str, expressions: Iterable[tuple[str, Expr]], block: Block) -> Block:
        """The tuples with the columns that are computed of those that were read."""
        column = self._columns(stream, block)
        added = {f"{stream}.{name}": evaluate(each, column, block.rows, self.spec.timezone) for name, each in expressions}
        return Block(block.rows, {**block.columns, **added}) if added else block

    def _columns(self, stream: str, block: Block) -> Callable[[Col], pa.Array]:
        return lambda col: block.columns[f"{stream}.{col.column}"]

    def _retained(self, stream: Stream, edge_filter: EdgeFilter, block: Block, column: Callable[[Col], pa.Array]) -> Bools:
        """Which rows the store that the edge leads to retains: those that one of its row filters keeps."""
        retained = np.zeros(block.rows, np.bool_)
        for row_filter in edge_filter.row_filters:
            passes = holds(row_filter.filters, column, block.rows, self.spec.timezone)
            kept = np.ones(block.rows, np.bool_) if passes is None else passes
            for key in row_filter.keys:
                kept = kept & np.asarray(pc.is_valid(block.columns[f"{stream.name}.{key}"]))
            retained = retained | kept
        return retained
