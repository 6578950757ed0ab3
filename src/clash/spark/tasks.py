"""What Spark runs in Python workers: the core's two tasks over Arrow record batches of messages.

Invariant: a task function is a module-level name with a small JSON text bound to it, so shipping it costs nothing. Messages leave in
record batches of bounded size as they are made; large payloads are neither copied on their way in nor on their way out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from clash.driver.work import Work
from clash.errors import ClashError
from clash.spark.failures import travelling
from clash.spark.pack import Places, unpack
from clash.workers.messages import Message
from clash.workers.task import ingest, work_round

MESSAGE = "target int, kind string, payload binary"
SCHEMA = pa.schema([("target", pa.int32()), ("kind", pa.string()), ("payload", pa.binary())])
LARGE = 1 << 20  # bytes of a payload that travels alone, and of small ones that travel together
WARM = 12  # tasks after which a worker has loaded what it will ever load

Task = Callable[[Work, int], Iterable[Message]]
_tasks = 0


def ingest_task(work: str, places: Places, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _guarded(lambda job, partition: ingest(job, partition, unpack(batches, places)), work)


def round_task(work: str, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _guarded(lambda job, partition: work_round(job, number, partition, inbox(batches)), work)


def _guarded(run: Task, text: str) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    try:
        yield from rows(run(Work.from_json(text), partition))
    except ClashError as error:
        raise travelling(error) from error
    _settle()


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
