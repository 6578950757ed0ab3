"""What Spark runs in Python workers: ingest and rounds, over record batches of messages or over messages as byte strings.

Invariant: a task function is a module-level name with a small JSON text bound to it, so shipping it costs nothing. Messages leave in
record batches of bounded size, or one by one, as they are made. A process that runs tasks loads neither the SQL parser nor the solver.
"""

from __future__ import annotations

import gc
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from clash.errors import ClashError
from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.protocol.messages import Message
from clash.spark.column_packing import PackedColumns, unpack_streams
from clash.spark.failures import to_travelling
from clash.spark.parquet_reader import Columns, FileSlices, read_slices
from clash.workers.ingest import run_ingest
from clash.workers.round import run_round

MESSAGE = "target int, kind string, payload binary"
SCHEMA = pa.schema([("target", pa.int32()), ("kind", pa.string()), ("payload", pa.binary())])
LARGE = 1 << 20  # bytes: a larger payload is a record batch of its own, smaller ones are put together up to this size
WARM = 12  # tasks after which a worker has loaded everything that it needs

T = TypeVar("T")
Task = Callable[[BatchSpec, int], Iterable[Message]]
_HEAD = struct.Struct("<ii")  # the worker, and the length of the kind in bytes
_NUMBER = struct.Struct("!q")  # as Java reads it
_ALIGNMENT = 64  # bytes: arrays in a payload are aligned in the frame as they are in the payload
_tasks = 0


def ingest_task(spec: str, columns: PackedColumns, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _run_task(lambda batch, partition: run_ingest(batch, partition, unpack_streams(batches, columns)), spec)


def round_task(spec: str, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _run_task(lambda batch, partition: run_round(batch, number, partition, from_rows(batches)), spec)


def _run_task(run: Task, text: str) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    return _with_errors(lambda: to_rows(run(BATCH_SPEC.loads(text), 0 if context is None else context.partitionId())))


def _with_errors(run: Callable[[], Iterable[T]]) -> Iterator[T]:
    """A ClashError that leaves the worker carries itself along in its text."""
    try:
        yield from run()
    except ClashError as error:
        raise to_travelling(error) from error
    _limit_garbage_collection()


# ---- messages as byte strings -------------------------------------------------------------------------------------


def read_task(spec: str, slices: Sequence[FileSlices], columns: Columns, partition: int, empty: Iterable[object]) -> Iterator[bytes]:
    """Ingest that reads files itself. Its input is empty, but must be read: Spark drops a worker that leaves some of its input."""

    def run() -> Iterator[bytes]:
        deque(empty, 0)
        batch = BATCH_SPEC.loads(spec)
        return addressed(run_ingest(batch, partition, read_slices(slices[partition], columns, batch.batch)))

    return _with_errors(run)


def framed_round(spec: str, number: int, is_last: bool, partition: int, frames: Iterable[bytes]) -> Iterator[bytes]:
    """After the last round only reports are left: JSON, one per line."""

    def run() -> Iterator[bytes]:
        messages = run_round(BATCH_SPEC.loads(spec), number, partition, map(unframed, frames))
        return iter([b"\n".join([bytes(message.payload) for message in messages])]) if is_last else addressed(messages)

    return _with_errors(run)


def addressed(messages: Iterable[Message]) -> Iterator[bytes]:
    """Worker, message, worker, message …, as the JVM pairs them."""
    for message in messages:
        yield _NUMBER.pack(message.worker)
        yield framed(message)


def framed(message: Message) -> bytes:
    kind = message.kind.encode()
    head = _HEAD.pack(message.worker, len(kind)) + kind
    return b"".join((head, bytes(-len(head) % _ALIGNMENT), memoryview(message.payload)))


def unframed(frame: bytes) -> Message:
    worker, length = _HEAD.unpack_from(frame)
    end = _HEAD.size + length
    return Message(worker, frame[_HEAD.size : end].decode(), pa.py_buffer(frame)[end + -end % _ALIGNMENT :])


# ---- messages as record batches -----------------------------------------------------------------------------------


def from_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    for batch in batches:
        payloads = batch.column("payload")
        names = zip(batch.column("target").to_pylist(), batch.column("kind").to_pylist(), strict=True)
        for at, (target, kind) in enumerate(names):
            yield Message(target, kind, payloads[at].as_buffer())


def to_rows(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Small payloads are put together, a large one is a record batch of its own and is not copied."""
    small: list[Message] = []
    size = 0
    for message in messages:
        length = len(message.payload)
        if length >= LARGE:
            yield _one_row(message)
            continue
        small.append(message)
        size += length
        if size >= LARGE:
            yield _rows(small)
            small, size = [], 0
    if small:
        yield _rows(small)


def _one_row(message: Message) -> pa.RecordBatch:
    payload = pa.py_buffer(message.payload)
    offsets = pa.py_buffer(np.array([0, payload.size], np.int32))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, payload])
    return pa.record_batch([pa.array([message.worker], pa.int32()), pa.array([message.kind], pa.string()), column], schema=SCHEMA)


def _rows(messages: list[Message]) -> pa.RecordBatch:
    workers = pa.array([message.worker for message in messages], pa.int32())
    kinds = pa.array([message.kind for message in messages], pa.string())
    return pa.record_batch([workers, kinds, pa.array([bytes(message.payload) for message in messages], pa.binary())], schema=SCHEMA)


def _limit_garbage_collection() -> None:
    """PySpark collects garbage after every task, which takes 60 ms where numba is loaded, unless long-lived objects are frozen."""
    global _tasks  # noqa: PLW0603
    _tasks += 1
    if _tasks <= WARM:
        gc.freeze()
    elif _tasks % 256 == 0:
        gc.collect()
        gc.freeze()
