"""The tasks that Spark runs in Python workers: ingest and rounds, with messages as rows of record batches or as byte strings.

Invariant: a task is a module-level function with a small JSON text bound to it, so it is cheap to ship. Messages leave a task as they are
produced, one by one or in record batches of bounded size. A process that runs tasks loads neither the SQL parser nor the solver.
"""

from __future__ import annotations

import gc
import struct
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TextIO, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from clash.errors import ClashError
from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.protocol.messages import REPORT_KIND, Message, Packed, Payload, packed
from clash.spark.column_packing import PackedColumns, unpack_streams
from clash.spark.direct_input import DirectInput, KafkaSlices, read_topics
from clash.spark.failures import to_travelling
from clash.spark.payload_files import MIN_BYTES, REFERENCE_BYTES, PayloadReader, PayloadWriter
from clash.spark.task_choice import MAX_ROWS
from clash.workers.ingest import run_ingest
from clash.workers.round import run_round
from clash.workers.whole_batch import run_whole_batch

MESSAGE = "target int, kind string, payload binary"
SCHEMA = pa.schema([("target", pa.int32()), ("kind", pa.string()), ("payload", pa.binary())])
TOO_LARGE = "too_large"
LARGE = 1 << 20  # bytes: a payload of this size is a record batch of its own, smaller ones share one of about this size
# Bytes of a report that the driver fetches by one call, as base64. Py4J sends an answer of more than 8,192 characters in two writes; by
# Nagle's algorithm the kernel keeps the second one back until the first is acknowledged, which the receiver delays by 40 ms.
PIECE = 6000
_IN_FILE = b"\0"  # what zlib writes begins with another byte
WARM_UP_TASKS = 12  # after which a worker process has loaded all modules and compiled functions that it needs

T = TypeVar("T")
Task = Callable[[BatchSpec, int], Iterable[Message]]
_HEAD = struct.Struct("<ii?")  # of a frame: the worker, the length of the kind in bytes, whether the payload is a reference
_PAIR_KEY = struct.Struct("!q")  # the worker's number, as Spark's PairwiseRDD reads it
_ALIGNMENT = 64  # bytes: a payload begins at a multiple of it, so that the arrays in it stay aligned
_finished_tasks = 0  # of this process


def ingest_task(spec: str, columns: PackedColumns, kafka: KafkaSlices, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    def run(batch: BatchSpec, partition: int) -> Iterator[Message]:
        return run_ingest(batch, partition, chain(unpack_streams(batches, columns), read_topics(kafka, partition, batch)))

    return _run_task(run, spec)


def round_task(spec: str, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _run_task(lambda batch, partition: run_round(batch, number, partition, from_rows(batches)), spec)


def whole_batch_of_rows(
    spec: str, columns: PackedColumns, kafka: KafkaSlices, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """All tasks of a batch in one; a message of the kind `TOO_LARGE` instead of reports if it has too many rows for that."""

    def run(batch: BatchSpec, partition: int) -> Iterator[Message]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for arrived in batches:
            rows += arrived.num_rows
            if rows > MAX_ROWS:
                deque(batches, 0)  # Spark does not reuse a worker process that leaves input unread
                yield Message(0, TOO_LARGE, b"")
                return
            held.append(arrived)
        arrivals = chain(unpack_streams(held, columns), read_topics(kafka, 0, batch))
        yield from (Message(0, REPORT_KIND, report) for report in run_whole_batch(batch, [arrivals]))

    return _run_task(run, spec)


def _run_task(run: Task, text: str) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    return _with_errors(lambda: to_rows(run(BATCH_SPEC.loads(text), 0 if context is None else context.partitionId())))


def _with_errors(run: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Yields what `run` yields; a ClashError leaves the worker encoded in its text."""
    if not isinstance(sys.stderr, _WorkerStderr) and sys.stderr is not None:
        sys.stderr = _WorkerStderr(sys.stderr)
    try:
        yield from run()
    except ClashError as error:
        raise to_travelling(error) from error
    _limit_garbage_collection()


class _WorkerStderr:
    """The standard error of a worker process, without what PySpark prints in a worker whose task was cancelled: that its
    output is not read any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return len(text) if isinstance(sys.exc_info()[1], BrokenPipeError) else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# ---- messages as byte strings -------------------------------------------------------------------------------------


def read_task(spec: str, source: DirectInput, folder: str | None, partition: int, empty: Iterable[object]) -> Iterator[bytes]:
    """Ingest over what tasks read. The input is empty but must be consumed: Spark does not reuse a process that leaves input unread.
    `folder`: for large payloads, if all tasks run on one machine."""

    def run() -> Iterator[bytes]:
        deque(empty, 0)
        batch = BATCH_SPEC.loads(spec)
        writer = None if folder is None else PayloadWriter(folder, 0, partition)
        return addressed(run_ingest(batch, partition, source.read(partition, batch)), writer)

    return _with_errors(run)


def framed_round(spec: str, number: int, is_last: bool, folder: str | None, partition: int, frames: Iterable[bytes]) -> Iterator[bytes]:
    """A round over framed messages. The last round has only reports for a result."""

    def run() -> Iterator[bytes]:
        reader = None if folder is None else PayloadReader(folder)
        messages = run_round(BATCH_SPEC.loads(spec), number, partition, (unframed(frame, reader) for frame in frames))
        writer = None if folder is None else PayloadWriter(folder, number, partition)
        return to_pieces((message.payload for message in messages), writer) if is_last else addressed(messages, writer)

    return _with_errors(run)


def whole_batch_task(spec: str, source: DirectInput, partition: int, empty: Iterable[object]) -> Iterator[bytes]:
    """All tasks of a batch in one; its result is that of a last round."""

    def run() -> Iterator[bytes]:
        deque(empty, 0)
        batch = BATCH_SPEC.loads(spec)
        return to_pieces(run_whole_batch(batch, [source.read(0, batch)]))

    return _with_errors(run)


def to_pieces(reports: Iterable[Payload], writer: PayloadWriter | None = None) -> Iterator[bytes]:
    """Reports, each a line of JSON, compressed and in pieces of at most `PIECE` bytes; `from_pieces` joins those of all tasks. With a
    writer, what needs several pieces is in its file instead, and a piece of one byte more than a reference names it."""
    text = zlib.compress(b"".join([bytes(packed(report)) + b"\n" for report in reports]), 1)
    if writer is not None and len(text) > PIECE:
        text = _IN_FILE + writer.put(text)
        writer.close()
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def from_pieces(pieces: Iterable[bytes], reader: PayloadReader | None = None) -> list[bytes]:
    """The reports in the pieces of several tasks, those of one task together and in order."""
    rest, lines = b"".join(pieces), list[bytes]()
    while rest:
        if reader is not None and rest.startswith(_IN_FILE):
            end = len(_IN_FILE) + REFERENCE_BYTES
            lines += zlib.decompress(reader.get(rest[len(_IN_FILE) : end])).splitlines()
            rest = rest[end:]
            continue
        stream = zlib.decompressobj()
        lines += stream.decompress(rest).splitlines()
        rest = stream.unused_data
    return lines


def addressed(messages: Iterable[Message], writer: PayloadWriter | None = None) -> Iterator[bytes]:
    """For each message the number of its worker, then the frame: the JVM makes pairs of them."""
    try:
        for message in messages:
            yield _PAIR_KEY.pack(message.worker)
            yield framed(message, writer)
    finally:
        if writer is not None:
            writer.close()


def framed(message: Message, writer: PayloadWriter | None = None) -> bytes:
    """A message as one byte string: worker, length of the kind, whether the payload is a reference, kind, zeros up to the alignment,
    payload."""
    kind, payload = message.kind.encode(), packed(message.payload)
    is_reference = writer is not None and len(payload) >= MIN_BYTES
    if writer is not None and is_reference:
        payload = writer.put(payload)
    head = _HEAD.pack(message.worker, len(kind), is_reference) + kind
    return b"".join((head, bytes(-len(head) % _ALIGNMENT), memoryview(payload)))


def unframed(frame: bytes, reader: PayloadReader | None = None) -> Message:
    """The message in a frame; its payload is a view of the frame or of a file, not a copy."""
    worker, length, is_reference = _HEAD.unpack_from(frame)
    end = _HEAD.size + length
    payload = pa.py_buffer(frame)[end + -end % _ALIGNMENT :]
    if reader is not None and is_reference:
        payload = reader.get(payload.to_pybytes())
    return Message(worker, frame[_HEAD.size : end].decode(), payload)


# ---- messages as record batches -----------------------------------------------------------------------------------


def from_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """The messages in record batches of `SCHEMA`; payloads are not copied."""
    for batch in batches:
        payloads = batch.column("payload")
        heads = zip(batch.column("target").to_pylist(), batch.column("kind").to_pylist(), strict=True)
        for row, (worker, kind) in enumerate(heads):
            yield Message(worker, kind, payloads[row].as_buffer())


def to_rows(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as record batches of `SCHEMA`: small payloads share one, a large one is a record batch of its own and is not copied."""
    small: list[tuple[Message, Packed]] = []
    size = 0
    for message in messages:
        payload = packed(message.payload)
        length = len(payload)
        if length >= LARGE:
            yield _single_row(message, payload)
            continue
        small.append((message, payload))
        size += length
        if size >= LARGE:
            yield _rows(small)
            small, size = [], 0
    if small:
        yield _rows(small)


def _single_row(message: Message, payload: Packed) -> pa.RecordBatch:
    data = pa.py_buffer(payload)
    offsets = pa.py_buffer(np.array([0, data.size], np.int32))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    return pa.record_batch([pa.array([message.worker], pa.int32()), pa.array([message.kind], pa.string()), column], schema=SCHEMA)


def _rows(messages: list[tuple[Message, Packed]]) -> pa.RecordBatch:
    workers = pa.array([message.worker for message, _ in messages], pa.int32())
    kinds = pa.array([message.kind for message, _ in messages], pa.string())
    return pa.record_batch([workers, kinds, pa.array([bytes(payload) for _, payload in messages], pa.binary())], schema=SCHEMA)


def _limit_garbage_collection() -> None:
    """Freezes long-lived objects: PySpark collects garbage after every task, and with the objects of numba that takes 60 ms."""
    global _finished_tasks  # noqa: PLW0603
    _finished_tasks += 1
    if _finished_tasks <= WARM_UP_TASKS:
        gc.freeze()
    elif _finished_tasks % 256 == 0:
        gc.collect()
        gc.freeze()
