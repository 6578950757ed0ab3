"""A gate that batches pass, so that a Spark query can be ended between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from clash.spark.batch_end import QueryRestartError

_POLL = 0.01  # seconds


class BatchGate:
    """Batches pass one at a time. Closed, it ends the Spark query in place of the next batch; the one inside is not disturbed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._closed = False
        self._batches = 0  # inside

    @contextmanager
    def batch(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise QueryRestartError
            self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1

    def close(self) -> None:
        """After this no batch begins."""
        with self._lock:
            self._closed = True

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_empty(self) -> bool:
        return not self._batches


def end_between_batches(query: Any, gate: BatchGate) -> None:
    """Ends a Spark query between two batches: by the closed gate if there is a next batch, by a stop if there is nothing to read.

    A stop waits for the end of the trigger: between our commit and Spark's own it would make Spark repeat the batch.
    """
    gate.close()
    while query.isActive:
        if gate.is_empty and not query.status["isTriggerActive"]:
            query.stop()  # should a trigger have begun just now, the gate keeps its batch from beginning
            return
        time.sleep(_POLL)
