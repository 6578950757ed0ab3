"""What Spark runs in Python workers: the core's two tasks, over Arrow record batches of messages or over messages as byte strings.

Invariant: a task function is a module-level name with a small JSON text bound to it, so shipping it costs nothing. Messages leave in
record batches of bounded size, or one by one, as they are made.
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

from clash.protocol.batch import Work
from clash.errors import ClashError
from clash.spark.failures import travelling
from clash.spark.parquet_reader import Columns, Pieces, read
from clash.spark.column_packing import Places, unpack
from clash.protocol.messages import Message
from clash.workers.round import ingest, work_round

MESSAGE = "target int, kind string, payload binary"
SCHEMA = pa.schema([("target", pa.int32()), ("kind", pa.string()), ("payload", pa.binary())])
LARGE = 1 << 20  # bytes of a payload that travels alone, and of small ones that travel together
WARM = 12  # tasks after which a worker has loaded what it will ever load

T = TypeVar("T")
Task = Callable[[Work, int], Iterable[Message]]
_HEAD = struct.Struct("<ii")  # the worker, and how many bytes its kind has
_NUMBER = struct.Struct("!q")  # as Java reads it
_ALIGNED = 64  # bytes: arrays in a payload lie in the frame as they would lie alone
_tasks = 0


def ingest_task(work: str, places: Places, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _guarded(lambda job, partition: ingest(job, partition, unpack(batches, places)), work)


def round_task(work: str, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _guarded(lambda job, partition: work_round(job, number, partition, inbox(batches)), work)


def _guarded(run: Task, text: str) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    return _told(lambda: rows(run(Work.from_json(text), 0 if context is None else context.partitionId())))


def _told(run: Callable[[], Iterable[T]]) -> Iterator[T]:
    """An error of ours on its way out carries itself along."""
    try:
        yield from run()
    except ClashError as error:
        raise travelling(error) from error
    _settle()


# ---- messages as byte strings -------------------------------------------------------------------------------------


def read_task(work: str, pieces: Sequence[Pieces], columns: Columns, partition: int, nothing: Iterable[object]) -> Iterator[bytes]:
    """Ingest that reads files itself. What comes in is empty, but must be read: Spark drops a worker that leaves some of its input."""

    def run() -> Iterator[bytes]:
        deque(nothing, 0)
        job = Work.from_json(work)
        return addressed(ingest(job, partition, read(pieces[partition], columns, job.batch)))

    return _told(run)


def framed_round(work: str, number: int, last: bool, partition: int, frames: Iterable[bytes]) -> Iterator[bytes]:
    """After the last round only reports are left: JSON, a line each."""

    def run() -> Iterator[bytes]:
        sent = work_round(Work.from_json(work), number, partition, map(unframed, frames))
        return iter([b"\n".join([bytes(message.payload) for message in sent])]) if last else addressed(sent)

    return _told(run)


def addressed(messages: Iterable[Message]) -> Iterator[bytes]:
    """Worker, message, worker, message …, as the JVM pairs them."""
    for message in messages:
        yield _NUMBER.pack(message.worker)
        yield framed(message)


def framed(message: Message) -> bytes:
    kind = message.kind.encode()
    head = _HEAD.pack(message.worker, len(kind)) + kind
    return b"".join((head, bytes(-len(head) % _ALIGNED), memoryview(message.payload)))


def unframed(frame: bytes) -> Message:
    worker, length = _HEAD.unpack_from(frame)
    end = _HEAD.size + length
    return Message(worker, frame[_HEAD.size : end].decode(), pa.py_buffer(frame)[end + -end % _ALIGNED :])


# ---- messages as record batches -----------------------------------------------------------------------------------


def inbox(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    for batch in batches:
        payloads = batch.column("payload")
        names = zip(batch.column("target").to_pylist(), batch.column("kind").to_pylist(), strict=True)
        for at, (target, kind) in enumerate(names):
            yield Message(target, kind, payloads[at].as_buffer())


def rows(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Small payloads together, a large one alone and uncopied."""
    small: list[Message] = []
    size = 0
    for message in messages:
        length = len(message.payload)
        if length >= LARGE:
            yield _alone(message)
            continue
        small.append(message)
        size += length
        if size >= LARGE:
            yield _together(small)
            small, size = [], 0
    if small:
        yield _together(small)


def _alone(message: Message) -> pa.RecordBatch:
    payload = pa.py_buffer(message.payload)
    offsets = pa.py_buffer(np.array([0, payload.size], np.int32))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, payload])
    return pa.record_batch([pa.array([message.worker], pa.int32()), pa.array([message.kind], pa.string()), column], schema=SCHEMA)


def _together(messages: list[Message]) -> pa.RecordBatch:
    workers = pa.array([message.worker for message in messages], pa.int32())
    kinds = pa.array([message.kind for message in messages], pa.string())
    return pa.record_batch([workers, kinds, pa.array([bytes(message.payload) for message in messages], pa.binary())], schema=SCHEMA)


def _settle() -> None:
    """PySpark collects garbage after every task: 60 ms where numba is loaded, unless what stays is out of the collector's sight."""
    global _tasks  # noqa: PLW0603
    _tasks += 1
    if _tasks <= WARM:
        gc.freeze()
    elif _tasks % 256 == 0:
        gc.collect()
        gc.freeze()
