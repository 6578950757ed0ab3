"""One worker, one round: per phase first everything that is stored, then everything that probes.

Results whose next store is on this worker, and filled by now, go on at once; results for a later phase are queued; the others leave as
messages. Each block goes through its whole tree before the next one is made, so memory stays bounded.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from clash.columnar.block import Block, as_time_column, deadlines, rows_where
from clash.columnar.slots import hot_rows
from clash.errors import DataError, StateError, with_context
from clash.expressions import evaluate, holds
from clash.model.block_columns import ARRIVAL, DEADLINE, EARLIEST, EVENT_TIME, LATEST, part_event_time, stored_name
from clash.model.expressions import Col
from clash.model.query import query_of
from clash.model.relation import Attribute
from clash.plan.physical import Channel, OriginEntry, ProbeStep, Refinement
from clash.protocol.batch import BatchSpec
from clash.protocol.messages import (
    REPORT_KIND,
    STORE_CHANGES_KIND,
    Message,
    read_block,
    read_store_changes,
    report_message,
    store_changes_message,
)
from clash.protocol.reports import ProbeCount, ResultFile, RoundReport, StoreChanges
from clash.protocol.result_files import JOINED_ROWS
from clash.state.failpoints import reach
from clash.workers.block_queue import BlockQueue
from clash.workers.loaded_plan import plan_of
from clash.workers.probe import probe_step
from clash.workers.result_writer import ResultWriter
from clash.workers.routing import scatter
from clash.workers.stores import WorkerStores


class TooManyMatchesError(Exception):
    """A round has found more matches than it was to find in this process."""


def run_round(spec: BatchSpec, number: int, worker: int, inbox: Iterable[Message], max_matches: int | None = None) -> Iterator[Message]:
    """The messages that a worker sends in round `number`; after the last round only reports are left."""
    reach("round-start")
    task = _RoundTask(spec, number, worker, max_matches)
    began, sending = time.perf_counter(), 0.0
    messages = task.run(inbox)
    while True:
        try:
            message = next(messages, None)
        except StateError as error:
            raise with_context(error, f"batch {spec.batch}, worker {worker}") from error
        if message is None:
            break
        sent = time.perf_counter()
        yield message
        sending += time.perf_counter() - sent
    task.seconds["shuffle"] += sending
    reach("round-end")
    yield report_message(worker, task.report(time.perf_counter() - began))


class _RoundTask:
    def __init__(self, spec: BatchSpec, number: int, worker: int, max_matches: int | None) -> None:
        self.spec, self.number, self.worker, self.plan = spec, number, worker, plan_of(spec)
        self.matches_left = sys.maxsize if max_matches is None else max_matches
        self.stores = WorkerStores(spec, worker, number)
        self.results = ResultWriter(spec, f"r{number}-w{worker}")
        self.queue = BlockQueue(spec.tuning.queue_bytes, spec.tuning.block_rows)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.probes: dict[str, ProbeCount] = {}
        self.files: tuple[ResultFile, ...] = ()
        self.earlier_changes: list[Message] = []  # of earlier rounds: the next round of this worker needs them, too

    def run(self, inbox: Iterable[Message]) -> Iterator[Message]:
        yield from self._receive(inbox)
        while self.queue:
            phase, edges = self.queue.next_phase()
            with self._timed("store"):
                for label, blocks in edges.items():
                    if label in self.plan.store_edges:
                        for block in blocks:
                            self.stores.add(self.plan.copy_of_edge(label), block)
            for label, blocks in edges.items():
                if label not in self.plan.store_edges:
                    for block in self.queue.pieces(blocks):
                        yield from self._probe(label, block, phase)
        with self._timed("store"):
            changes = self.stores.close()
        reach("round-stored")
        with self._timed("sink"):
            self.files = self.results.close()
        reach("round-results")
        if self.number < self.spec.rounds:
            yield from self.earlier_changes
            if changes.added or changes.removed:
                yield store_changes_message(self.worker, changes)

    def report(self, seconds: float) -> RoundReport:
        return RoundReport(self.worker, self.stores.changes(), self.files, self.probes, {**self.seconds, "round": seconds})

    # ---- receiving ---------------------------------------------------------------------------------------------

    def _receive(self, inbox: Iterable[Message]) -> Iterator[Message]:
        """Queues the blocks of this round and yields what is for later rounds."""
        blocks: dict[str, list[Block]] = {}
        changes: list[StoreChanges] = []
        began = time.perf_counter()
        for message in inbox:
            if message.kind == REPORT_KIND:
                yield message
            elif message.kind == STORE_CHANGES_KIND:
                changes.append(read_store_changes(message.payload))
                self.earlier_changes.append(message)
            elif self.plan.channels[message.kind].round > self.number:
                yield message
            else:
                block = read_block(message.payload, self.plan.channel_schemas[message.kind])
                blocks.setdefault(message.kind, []).append(self.queue.hold(block))
        self.seconds["shuffle"] += time.perf_counter() - began
        # A shuffle keeps no order, but a round may have merged what the one before it wrote.
        for change in sorted(changes, key=lambda change: change.round):
            self.stores.apply(change)
        for name in sorted(blocks):
            channel = self.plan.channels[name]
            for block in self.queue.pieces(blocks.pop(name)):
                for label in channel.edges:
                    self._enter(channel, label, block)

    def _enter(self, channel: Channel, label: str, block: Block) -> None:
        """Queues a received block with the rows and columns that the edge takes; tuples that are results by themselves are written."""
        mask = channel.masks.get(label)
        if mask is not None:
            taken = np.asarray(block.columns[mask])
            if not taken.all():
                block = block.take(rows_where(taken))
        entry = self.plan.physical.entries.get(label)
        if entry is not None and entry.emits:
            self._emit(entry.emits, self._start(entry, block))
        elif block.rows:
            self._enqueue(label, block if entry is None else self._start(entry, block))

    def _start(self, entry: OriginEntry, block: Block) -> Block:
        """Raw tuples in the role of the relation that starts a probe tree."""
        relation, event_times, arrival = entry.relation, block.columns[EVENT_TIME], block.columns[ARRIVAL]
        columns = {ARRIVAL: arrival if relation.number == 0 else pa.array(block.ints(ARRIVAL) + relation.number)}
        if self.plan.starts:
            columns[EARLIEST] = arrival
        if self.plan.timed:
            columns[LATEST] = columns[part_event_time(relation)] = event_times
            columns[DEADLINE] = pa.array(deadlines(block.ints(EVENT_TIME), entry.window))
        for attribute in entry.columns:
            if self.plan.is_time(attribute):
                columns[str(attribute)] = as_time_column(event_times, self.plan.arrow_type_of(attribute))
            else:
                columns[str(attribute)] = block.columns[stored_name(attribute)]
        return Block(block.rows, columns)

    def _enqueue(self, label: str, block: Block) -> None:
        self.queue.add(self.plan.topology.edge[label].position.phase, label, block)

    # ---- probing -----------------------------------------------------------------------------------------------

    def _probe(self, label: str, block: Block, phase: int) -> Iterator[Message]:
        step = self.plan.steps[label]
        with self._timed("store"):
            containers = self.stores.open(self.plan.copies[step.store, step.copy])
        self._count(label, self._own_share(step, block), 0)
        if not containers or not block.rows:
            return
        pieces = probe_step(self.plan, step, block, containers, self.spec.tuning.block_rows)
        while True:
            with self._timed("probe"):
                try:
                    piece = next(pieces, None)
                except DataError as error:
                    readers = ", ".join(self.plan.physical.readers[label])
                    raise with_context(error, f"query {readers}, batch {self.spec.batch}") from error
            if piece is None:
                return
            self._count(label, 0, piece.rows)
            self.matches_left -= piece.rows
            if self.matches_left < 0:
                raise TooManyMatchesError
            self._emit(step.emits, piece, step.refinements)
            for channel in step.channels:
                yield from self._send(channel, piece)
            for child in step.local:
                if child in self.plan.store_edges or self.plan.topology.edge[child].position.phase > phase:
                    self._enqueue(child, piece)
                else:
                    yield from self._probe(child, piece, phase)

    def _own_share(self, step: ProbeStep, block: Block) -> float:
        """The number of probing tuples, of which those that every worker gets are counted once in all."""
        if step.broadcast:
            return block.rows / self.spec.tasks
        if step.spread is None or self.spec.tasks == 1:
            return block.rows
        hot = int(hot_rows(block.columns[str(step.spread.attribute)], step.spread.hot, self.spec.timezone).sum())
        return block.rows - hot + hot / self.spec.tasks

    def _count(self, label: str, probes: float, matches: float) -> None:
        before = self.probes.get(label, ProbeCount(0.0, 0.0))
        self.probes[label] = ProbeCount(before.probes + probes, before.matches + matches)

    def _send(self, channel: Channel, block: Block) -> Iterator[Message]:
        with self._timed("route"):
            key = channel.address.attribute
            keys = None if key is None else block.columns[str(key)]
            messages = list(scatter(self.spec, channel, self.plan.channel_schemas[channel.name], block, keys, self.worker))
        yield from messages

    # ---- results -----------------------------------------------------------------------------------------------

    def _emit(self, queries: Iterable[str], block: Block, refinements: Iterable[Refinement] = ()) -> None:
        refined = {refinement.query: refinement for refinement in refinements}
        for query in queries:
            rows = self._without_history(query, block)
            if query in refined and rows.rows:
                rows = self._refined(refined[query], rows)

            def column(col: Col, rows: Block = rows) -> pa.Array:
                return rows.columns[str(Attribute(col.relation, col.column))]

            if rows.rows:
                with self._timed("sink"):
                    try:
                        outputs = self.plan.queries[query].outputs
                        columns = [evaluate(output.expression, column, rows.rows, self.spec.timezone) for output in outputs]
                    except DataError as error:
                        raise with_context(error, f"query {query}, batch {self.spec.batch}") from error
                    self.results.add(self._destination(query), pa.RecordBatch.from_arrays(columns, schema=self.plan.result_schemas[query]))

    def _refined(self, refinement: Refinement, block: Block) -> Block:
        """The rows that answer the query, of those of a weaker join."""
        keep = np.ones(block.rows, np.bool_)
        for relation, window in refinement.windows:
            keep &= block.ints(LATEST) <= deadlines(block.ints(part_event_time(relation)), window)
        block = block if keep.all() else block.take(rows_where(keep))

        def column(col: Col) -> pa.Array:
            return block.columns[str(Attribute(col.relation, col.column))]

        passed = holds(refinement.conditions, column, block.rows, self.plan.timezone) if block.rows else None
        return block if passed is None or passed.all() else block.take(rows_where(passed))

    def _destination(self, query: str) -> str:
        """Where the rows of a join go: they are results, or what results are computed of."""
        return query_of(query) if self.plan.queries[query].projection is None else f"{JOINED_ROWS}{query}"

    def _without_history(self, query: str, block: Block) -> Block:
        """The rows that answer the query: one without history takes no tuple from before it was added."""
        start = self.plan.starts.get(query)
        if start is None or not block.rows:
            return block
        rows = rows_where(block.ints(EARLIEST) >= start)
        return block if len(rows) == block.rows else block.take(rows)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - began
