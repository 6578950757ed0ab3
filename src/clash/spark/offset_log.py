"""The sources of the Spark query: one more of them over the same checkpoint, and a stop between two batches to get there.

Invariant: Spark's offset log is only ever told of sources that it does not know yet ("-": nothing read so far), so the batches it has
planned or committed mean what they meant, and telling it again, after a crash in between, changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from clash.errors import CheckpointError
from clash.state.failpoints import reach
from clash.state.storage import Storage

_LOG = "offsets"
_NOTHING = "-"  # how Spark writes that a source has no offset yet
_POSITIONAL = "v1"  # "v2" names sources: there Spark itself takes an unknown one for a new one
_LOOK = 0.01  # seconds


def _is_news(record: logging.LogRecord) -> bool:
    """Py4J tells every exception of a batch function with its traceback, also those that only end a query."""
    return not (record.exc_info and isinstance(record.exc_info[1], BorderError))


logging.getLogger("py4j.clientserver").addFilter(_is_news)


class BorderError(Exception):
    """Ends the Spark query in place of a batch. The batch is planned, not begun: the next query over the checkpoint runs it."""

    def __init__(self) -> None:
        super().__init__("not a failure: clash starts its Spark query anew, with other sources or columns, and goes on with this batch")


class Gate:
    """What batches pass, one at a time. Closed, it ends the Spark query in place of the next batch; the one inside is not disturbed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._closed = self._inside = False

    @contextmanager
    def batch(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise BorderError
            self._inside = True
        try:
            yield
        finally:
            self._inside = False

    def open(self) -> None:
        self._closed = False

    def close(self) -> None:
        """After this no batch begins."""
        with self._lock:
            self._closed = True

    def is_closed(self) -> bool:
        return self._closed

    def is_empty(self) -> bool:
        return not self._inside


def halt(query: Any, gate: Gate) -> None:
    """Ends a Spark query between two batches: by the closed gate if there is a next one, by hand if there is nothing to read.

    Stopping by hand waits for the trigger's end: between our commit and Spark's own, a stop would make Spark repeat the batch.
    """
    gate.close()
    while query.isActive:
        if gate.is_empty() and not query.status["isTriggerActive"]:
            query.stop()  # should a trigger have begun just now, the gate keeps its batch from beginning
            return
        time.sleep(_LOOK)


def count_sources(df: Any) -> int:
    """As Spark counts them in its offset log: a source that is read in two places counts twice."""
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    return sum(bool(leaves.apply(at).isStreaming()) for at in range(leaves.size()))


def fit(storage: Storage, sources: int) -> bool:
    """Tells the offset log of a checkpoint that there are so many sources now, the new ones last; was that news?

    Spark reads the last two entries: the last batch that was planned and the one before it. The older one comes first here: if the last
    entry is right, both are.
    """
    batches = sorted(int(name) for name in storage.list(_LOG) if name.isdigit())[-2:]
    written = False
    for batch in batches:
        path = f"{_LOG}/{batch}"
        text = storage.read(path, mapped=False).to_pybytes().decode()
        version, _metadata, *offsets = text.removesuffix("\n").split("\n")
        if version != _POSITIONAL or len(offsets) == sources:
            continue
        if len(offsets) > sources:
            raise CheckpointError(
                "the checkpoint knows more sources than the streams have now",
                f"{storage.label(path)} has {len(offsets)}, the streams of this start {sources}",
                "declare the streams as they were when the checkpoint was written, or use another checkpoint folder",
            )
        storage.delete([f"{_LOG}/.{batch}.crc"])  # a checksum that Hadoop's local file system keeps of what was there
        if written:
            reach("between-sources")
        storage.write(path, ["\n".join([text.removesuffix("\n"), *[_NOTHING] * (sources - len(offsets))]).encode()], durable=True)
        written = True
    return written
