"""Raw tuples in, messages out: number, admit, filter, project, route.

Invariant: arrival numbers are a total order over all tuples of all streams. Row r of partition p of a batch has the number
first + r · partitions + p, so a batch uses about as many numbers as it has tuples, and the next batch starts behind them all.
A tuple below its stream's watermark, or without a time, is late: not joined, but counted and written aside.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clash.columnar.slots import slots, split
from clash.protocol.batch import Work
from clash.errors import DataError, StateError, told
from clash.expressions import holds
from clash.expressions.arrow_types import arrow_type
from clash.model.expressions import Col
from clash.model.stream import Stream
from clash.state.failpoints import reach
from clash.statistics import Gatherer
from clash.columnar.block import ARRIVAL, NUMBER_BITS, TAU, Block, stored_name
from clash.workers.channels import Channel
from clash.protocol.messages import REPORT, Message, of_json, pack
from clash.workers.backfill_scan import stored_blocks
from clash.workers.result_writer import LATE, Results

Bools = npt.NDArray[np.bool_]
_FIRST = -(1 << 63)  # event time; a watermark may lie before it


def ingest(work: Work, partition: int, blocks: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[Message]:
    """The messages of one ingest task; the last one is its report."""
    reach("ingest-start")
    began = time.perf_counter()
    task = _Ingest(work, partition)
    waited = 0.0
    source = iter(blocks)
    gathered: dict[str, list[pa.RecordBatch]] = {}
    rows: Counter[str] = Counter()
    more = True
    while more:
        asked = time.perf_counter()
        found = next(source, None)
        waited += time.perf_counter() - asked
        more = found is not None
        if found is not None and found[1].num_rows:
            gathered.setdefault(found[0], []).append(found[1])
            rows[found[0]] += found[1].num_rows
        for stream in [name for name in gathered if not more or rows[name] >= work.tuning.gather]:
            rows[stream] = 0
            try:
                yield from task.route(stream, pa.concat_batches(gathered.pop(stream)))
            except (DataError, StateError) as error:
                raise told(error, f"stream {stream}, batch {work.batch}") from error
    yield from task.replay()
    files = task.late.close()
    reach("ingest-end")
    yield of_json(
        partition % work.workers,
        REPORT,
        {
            "kind": "ingest",
            "rows": task.rows,
            "late": task.behind,
            "taus": task.taus,
            "numbers": task.row,
            "files": files,
            "seen": task.seen.to_json(),
            "seconds": {"ingest": time.perf_counter() - began - waited, "source": waited},
        },
    )


class _Ingest:
    def __init__(self, work: Work, partition: int) -> None:
        self.work, self.partition, self.program, self.row = work, partition, work.program, 0
        self.rows: Counter[str] = Counter()
        self.behind: Counter[str] = Counter()
        self.taus: dict[str, int] = {}
        self.late = Results(work, f"late-{partition}")
        self.seen = Gatherer(self.program.wanted, work.timezone)

    def route(self, stream: str, batch: pa.RecordBatch) -> Iterator[Message]:
        declared = self.program.streams.get(stream)
        self.rows[stream] += batch.num_rows
        if declared is None:
            return
        block = self._admit(declared, self._normal(declared, batch))
        if block.rows:
            self.seen.add(stream, block)
            for channel in self.program.stream_channels[stream]:
                if channel.replay is None:
                    yield from self._send(declared, channel, block)

    def replay(self) -> Iterator[Message]:
        """Stored tuples once more, for stores that get the rows that were completed before they were introduced."""
        for store, first, last in self.work.backfill:
            for stream, channels in self.program.stream_channels.items():
                for channel in channels:
                    if channel.replay == store:
                        declared, since = self.program.streams[stream], self.program.origin_of(channel.edges[0]).since
                        for block in stored_blocks(self.work, declared, channel, max(first, since), last, self.partition):
                            yield from self._send(declared, channel, block)

    def _normal(self, stream: Stream, batch: pa.RecordBatch) -> Block:
        """Columns under our names and types, with arrival numbers and event times; a missing time is NULL still."""
        first = self.work.first + self.row * self.work.partitions + self.partition
        numbers = first + np.arange(batch.num_rows, dtype=np.int64) * self.work.partitions
        self.row += batch.num_rows
        columns: dict[str, pa.Array] = {ARRIVAL: pa.array(numbers << NUMBER_BITS)}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            kind = arrow_type(str(stream.type_of(name)))
            columns[f"{stream.name}.{name}"] = column if column.type == kind else column.cast(kind)
        if stream.time is None:
            columns[TAU] = pa.array(np.full(batch.num_rows, self.work.now))
        else:
            columns[TAU] = columns[f"{stream.name}.{stream.time}"].view(pa.int64())
        return Block(batch.num_rows, columns)

    def _admit(self, stream: Stream, block: Block) -> Block:
        tau, name = block.columns[TAU], stream.name
        if tau.null_count < len(tau):
            self.taus[name] = max(self.taus.get(name, _FIRST), pc.max(tau).as_py())
        watermark = self.work.watermarks.get(name)
        if tau.null_count == 0 and (watermark is None or pc.min(tau).as_py() >= watermark):
            return block
        on_time = pc.is_valid(tau) if watermark is None else pc.fill_null(pc.greater_equal(tau, max(watermark, _FIRST)), False)
        mask = np.asarray(on_time)
        behind = np.flatnonzero(~mask).astype(np.int32)
        self.behind[name] += len(behind)
        schema = self.program.late_schema(name)
        rows = block.select([f"{name}.{column}" for column in schema.names]).take(behind)
        self.late.add(f"{LATE}{name}", pa.RecordBatch.from_arrays(list(rows.columns.values()), schema=schema))
        return block.take(np.flatnonzero(mask).astype(np.int32))

    # ---- routing -----------------------------------------------------------------------------------------------

    def _send(self, stream: Stream, channel: Channel, block: Block) -> Iterator[Message]:
        masks = {label: mask for label in channel.edges if (mask := self._wanted(stream, label, block)) is not None}
        rows = None
        if len(masks) == len(channel.edges):
            some = np.logical_or.reduce(list(masks.values()))
            rows = None if some.all() else np.flatnonzero(some).astype(np.int32)
        columns = {name: block.columns[name] for name in channel.schema.names if name in block.columns}
        for label, name in channel.masks.items():
            columns[name] = pa.array(masks[label])
        sent = Block(block.rows, columns)
        key = channel.address.attribute
        targets = None if key is None else block.columns[stored_name(key)]
        if rows is not None:
            sent = sent.take(rows)
            targets = None if targets is None else targets.take(pa.array(rows))
        if sent.rows:
            yield from scatter(self.work, channel, sent, targets)

    def _wanted(self, stream: Stream, label: str, block: Block) -> Bools | None:
        """Which rows leave on the edge; None for all."""

        def column(col: Col) -> pa.Array:
            return block.columns[f"{stream.name}.{col.column}"]

        zone, program = self.work.timezone, self.program
        keeps = program.keeps(label)
        if keeps:
            wanted = np.zeros(block.rows, np.bool_)
            for keep in keeps:
                passes = holds(keep.filters, column, block.rows, zone)
                some = np.ones(block.rows, np.bool_) if passes is None else passes
                for key in keep.keys:
                    some = some & np.asarray(pc.is_valid(block.columns[f"{stream.name}.{key}"]))
                wanted = wanted | some
            return wanted
        return holds(program.conditions(label), column, block.rows, zone)


def scatter(work: Work, channel: Channel, block: Block, keys: pa.Array | None, worker: int | None = None) -> Iterator[Message]:
    """The block, cut by target worker. `worker` is where it is, if it is anywhere yet."""
    workers, kind, limit = work.workers, channel.address.kind, work.tuning.message
    if workers == 1 or kind == "one":
        yield from (Message(0, channel.name, payload) for payload in _packed(block, channel, limit))
    elif channel.stays:
        yield from (Message(_here(worker), channel.name, payload) for payload in _packed(block, channel, limit))
    elif kind == "all":
        for payload in _packed(block, channel, limit):
            yield from (Message(to, channel.name, payload) for to in range(workers))
    else:
        order, starts = split(_by_arrival(block, workers) if keys is None else slots(keys, workers, work.timezone), workers)
        sorted_ = block.take(order)
        for target in range(workers):
            start, end = int(starts[target]), int(starts[target + 1])
            if start < end:
                part = sorted_.slice(start, end - start)
                yield from (Message(target, channel.name, payload) for payload in _packed(part, channel, limit))


def _packed(block: Block, channel: Channel, limit: int) -> Iterator[pa.Buffer]:
    """Payloads of about `limit` bytes at most; a single row may be larger."""
    size = sum(column.nbytes for column in block.columns.values())
    rows = max(1, block.rows * limit // max(size, limit))
    for start in range(0, block.rows, rows):
        yield pack(block.slice(start, min(rows, block.rows - start)), channel.schema)


def _by_arrival(block: Block, workers: int) -> npt.NDArray[np.int32]:
    return ((block.ints(ARRIVAL) >> NUMBER_BITS) % workers).astype(np.int32)


def _here(worker: int | None) -> int:
    if worker is None:
        raise AssertionError("only a tuple that is somewhere can stay there")
    return worker
