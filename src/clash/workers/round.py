"""One worker, one round: per phase first everything that is stored, then everything that probes.

A probe whose next store is on this worker, and filled by now, goes on at once; rows for a later phase wait; the rest leaves as
messages. Pieces go through the whole tree before the next one is made, so memory stays bounded.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from clash.protocol.batch import ContainerRecord, Work
from clash.errors import DataError, StateError, told
from clash.expressions import evaluate
from clash.model.expressions import Col
from clash.model.relation import Attribute
from clash.state.failpoints import reach
from clash.columnar.block import ARRIVAL, DEADLINE, EARLIEST, FOREVER, LATEST, TAU, Block, as_time, deadlines, part_tau, stored_name
from clash.workers.channels import Channel
from clash.workers.ingest import ingest, scatter
from clash.protocol.messages import REPORT, WROTE, Message, of_json, to_json, unpack
from clash.workers.probe import probe_step
from clash.workers.result_writer import Results
from clash.workers.stores import Stores
from clash.workers.block_queue import Waiting

__all__ = ["ingest", "work_round"]


def work_round(work: Work, number: int, worker: int, inbox: Iterable[Message]) -> Iterator[Message]:
    """The messages that a worker sends after round `number`; after the last one only reports are left."""
    reach("round-start")
    task = _Round(work, number, worker)
    began, sent = time.perf_counter(), 0.0
    messages = task.run(inbox)
    while True:
        try:
            message = next(messages, None)
        except StateError as error:
            raise told(error, f"batch {work.batch}, worker {worker}") from error
        if message is None:
            break
        left = time.perf_counter()
        yield message
        sent += time.perf_counter() - left
    task.seconds["shuffle"] += sent
    reach("round-end")
    seconds = {**task.seconds, "round": time.perf_counter() - began}
    yield of_json(worker, REPORT, {**task.report(), "seconds": seconds})


class _Round:
    def __init__(self, work: Work, number: int, worker: int) -> None:
        self.work, self.number, self.worker, self.program = work, number, worker, work.program
        self.stores = Stores(work, worker, number)
        self.results = Results(work, f"r{number}-w{worker}")
        self.waiting = Waiting(work.tuning.memory, work.tuning.piece)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.matches: dict[str, list[float]] = {}  # per edge: tuples that asked, and what they found
        self.files: list[dict[str, object]] = []
        self.earlier: list[Message] = []

    def run(self, inbox: Iterable[Message]) -> Iterator[Message]:
        yield from self._receive(inbox)
        while self.waiting:
            phase, edges = self.waiting.next()
            with self._timed("store"):
                for label, blocks in edges.items():
                    if self.program.is_store(label):
                        for block in blocks:
                            self.stores.add(self.program.store_rule(label), block)
            for label, blocks in edges.items():
                if not self.program.is_store(label):
                    for block in self.waiting.pieces(blocks):
                        yield from self._probe(label, block, phase)
        with self._timed("store"):
            self.stores.close()
        reach("round-stored")
        with self._timed("sink"):
            self.files = self.results.close()
        reach("round-results")
        if self.number < self.program.topology.rounds:
            yield from self.earlier
            if self.stores.added or self.stores.removed:
                yield of_json(self.worker, WROTE, {"round": self.number, **self._wrote()})

    def report(self) -> dict[str, object]:
        told = {"kind": "round", "round": self.number, "worker": self.worker, "files": self.files, "matches": self.matches}
        return {**told, **self._wrote()}

    def _wrote(self) -> dict[str, object]:
        return {"added": [record.to_json() for record in self.stores.added], "removed": self.stores.removed}

    # ---- what comes in -----------------------------------------------------------------------------------------

    def _receive(self, inbox: Iterable[Message]) -> Iterator[Message]:
        blocks: dict[str, list[Block]] = {}
        wrote: list[dict[str, Any]] = []
        began = time.perf_counter()
        for message in inbox:
            if message.kind == REPORT:
                yield message
            elif message.kind == WROTE:
                wrote.append(to_json(message.payload))
                self.earlier.append(message)
            elif self.program.channels[message.kind].round > self.number:
                yield message
            else:
                block = unpack(message.payload, self.program.channels[message.kind].schema)
                blocks.setdefault(message.kind, []).append(self.waiting.kept(block))
        self.seconds["shuffle"] += time.perf_counter() - began
        # a shuffle keeps no order, but a round may have merged what the one before it wrote
        for one in sorted(wrote, key=lambda one: one["round"]):
            self.stores.apply([ContainerRecord.from_json(record) for record in one["added"]], one["removed"])
        for name in sorted(blocks):
            channel = self.program.channels[name]
            for block in self.waiting.pieces(blocks.pop(name)):
                for label in channel.edges:
                    self._enter(channel, label, block)

    def _enter(self, channel: Channel, label: str, block: Block) -> None:
        """A block that has arrived, as the edge wants it."""
        mask = channel.masks.get(label)
        if mask is not None:
            wanted = np.asarray(block.columns[mask])
            if not wanted.all():
                block = block.take(np.flatnonzero(wanted).astype(np.int32))
        edge = self.program.topology.edge.get(label)
        if edge is None:
            origin = self.program.origin_of(label)
            self._emit(origin.emits, self._as_origin(label, self.program.outputs_of(origin.emits), block))
        elif block.rows:
            if edge.source.kind == "origin":
                block = self._as_origin(label, edge.columns, block)
            self._wait(label, block)

    def _as_origin(self, label: str, columns: Iterable[Attribute], block: Block) -> Block:
        """Raw tuples in the role of the relation that starts the probe tree."""
        origin = self.program.origin_of(label)
        relation, tau = origin.relation, block.columns[TAU]
        arrival = block.columns[ARRIVAL]
        found = {ARRIVAL: arrival if relation.number == 0 else pa.array(block.ints(ARRIVAL) + relation.number)}
        if self.program.starts:
            found[EARLIEST] = arrival
        if self.program.timed:
            window = dict(origin.start.windows)[relation]
            found[LATEST] = found[part_tau(relation)] = tau
            found[DEADLINE] = pa.array(deadlines(block.ints(TAU), FOREVER if window is None else window))
        for a in columns:
            time_column = self.program.is_time(a)
            found[str(a)] = as_time(tau, self.program.field(a).type) if time_column else block.columns[stored_name(a)]
        return Block(block.rows, found)

    def _wait(self, label: str, block: Block) -> None:
        self.waiting.add(self.program.topology.edge[label].position.phase, label, block)

    # ---- what is done with it ----------------------------------------------------------------------------------

    def _probe(self, label: str, block: Block, phase: int) -> Iterator[Message]:
        step = self.program.steps[label]
        with self._timed("store"):
            stored = self.stores.open(step.copy)
        count = self.matches.setdefault(label, [0.0, 0.0])
        # what every worker asks for itself is one question
        count[0] += block.rows / (self.work.workers if self.program.topology.edge[label].address.kind == "all" else 1)
        if not stored or not block.rows:
            return
        pieces = probe_step(self.program, step, block, stored, self.work.tuning.piece)
        while True:
            with self._timed("probe"):
                try:
                    piece = next(pieces, None)
                except DataError as error:
                    raise told(error, f"query {', '.join(self.program.serves(label))}, batch {self.work.batch}") from error
            if piece is None:
                return
            count[1] += piece.rows
            self._emit(step.rule.emits, piece)
            for channel in step.channels:
                yield from self._send(channel, piece)
            for child in step.local:
                if self.program.is_store(child) or self.program.topology.edge[child].position.phase > phase:
                    self._wait(child, piece)
                else:
                    yield from self._probe(child, piece, phase)

    def _send(self, channel: Channel, block: Block) -> Iterator[Message]:
        with self._timed("route"):
            key = channel.address.attribute
            sent = list(scatter(self.work, channel, block, None if key is None else block.columns[str(key)], self.worker))
        yield from sent

    def _emit(self, queries: Iterable[str], block: Block) -> None:
        for query in queries:
            answers = self._wanted(query, block)

            def column(col: Col, answers: Block = answers) -> pa.Array:
                return answers.columns[str(Attribute(col.relation, col.column))]

            if answers.rows:
                with self._timed("sink"):
                    try:
                        outputs = self.program.queries[query].outputs
                        columns = [evaluate(o.expression, column, answers.rows, self.work.timezone) for o in outputs]
                    except DataError as error:
                        raise told(error, f"query {query}, batch {self.work.batch}") from error
                    self.results.add(query, pa.RecordBatch.from_arrays(columns, schema=self.program.result_schema(query)))

    def _wanted(self, query: str, block: Block) -> Block:
        """A query without history wants no tuple from before it was added."""
        start = self.program.starts.get(query)
        if start is None or not block.rows:
            return block
        rows = np.flatnonzero(block.ints(EARLIEST) >= start)
        return block if len(rows) == block.rows else block.take(rows.astype(np.int32))

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - began
