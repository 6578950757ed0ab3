"""Keeps one Spark query running: started again when Spark loses a process, and, between two batches, when it has to read something else.

Invariant: at most one Spark query runs over the checkpoint. `exception` is None as long as the run is active, and after a stop that the
user asked for. A run ends exactly once, and nothing that was asked of it before that is forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, RLock, Thread
from typing import Any

from clash.errors import ClashError, OptionError
from clash.spark.failures import Search, explained, guilty_stream, is_lost
from clash.spark.column_packing import Places
from clash.spark.offset_log import BorderError, Gate, halt

_LOG = logging.getLogger("clash")
_LOOK = 1  # seconds between two looks at whether Spark is still there
_WAIT = 0.05  # seconds between two looks at whether the query has been started again
_KEPT = 1000  # batches
_RESTARTS = 3  # in a row, without a batch committed in between

Batch = Callable[[Any, int], None]
Launch = Callable[[Batch], tuple[Any, Places]]


class InterruptError(Exception):
    """What Spark is told of a batch that a stop has broken off. It looks for an interrupt in the text of what failed, by a pattern that
    recurses for every character: the Java stack of a cancelled job overflows that of Spark's thread, which shows it on a thousand lines."""

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling a batch: java.lang.InterruptedException: the run is stopped"
        )


class Supervisor:
    """`launch` starts the Spark query over a function of (df, batch) and says what it delivers; `batch` is that function, of a batch that
    may begin. A BorderError that it raises means: start the query again, it does not deliver what this batch needs. `end` is called once,
    with what the run failed with; `search` finds the stream that cannot be read, where the Spark query does not read it itself."""

    def __init__(self, spark: Any, launch: Launch, batch: Batch, end: Callable[[ClashError | None], None], search: Search) -> None:
        self._spark, self._launch, self._do, self._end, self._search = spark, launch, batch, end, search
        self._lock = RLock()  # a restart is asked for either before the run's end, or after it
        self._failure: ClashError | None = None  # of the Spark query that has just ended
        self._lost = self._stopping = self._border = self._over = False
        self._restarts = 0
        self._exception: ClashError | None = None
        self._started, self._done = Event(), Event()
        self._gate = Gate()
        self._streams: list[str] = []
        self._spent: dict[int, dict[str, int]] = {}
        self.query: Any = None
        self._start()
        Thread(target=self._watch, name="clash-run", daemon=True).start()

    @property
    def is_active(self) -> bool:
        return not self._done.is_set()

    @property
    def exception(self) -> ClashError | None:
        return self._exception

    def await_termination(self, timeout: float | None) -> bool:
        ended = self._done.wait(timeout)
        if self._exception is not None:
            raise self._exception
        return ended

    def process_all_available(self) -> None:
        while self.is_active:
            query, gate = self.query, self._gate
            with suppress(Exception):  # it has failed, or was ended at a border
                query.processAllAvailable()
                if self._is_current(query, gate):
                    break
            while self.query is query and not self._is_current(query, gate) and not self._done.wait(_WAIT):
                pass  # until it is started again, or given up
        if self._exception is not None:
            raise self._exception

    def _is_current(self, query: Any, gate: Gate) -> bool:
        try:
            return query is self.query and not gate.is_closed() and bool(query.isActive)
        except Exception:  # Spark itself is gone
            return False

    def stop(self) -> None:
        self._stopping = True
        if self.is_active:
            with suppress(Exception):  # Spark itself may be gone
                self.query.stop()
            self._done.wait()

    @contextmanager
    def active(self, what: str) -> Iterator[None]:
        """An active run does not end while this is held; for one that has ended it is refused."""
        with self._lock:
            if self._stopping or self._over or not self.is_active:
                raise OptionError("the run is not active", what, "do it before engine.start(), or while the run goes on")
            yield

    def restart(self) -> None:
        """Starts the Spark query again when the batch in work is done, even if it was the last."""
        with self._lock:
            self._gate.close()
            Thread(target=_halt, args=(self.query, self._gate), name="clash-halt", daemon=True).start()

    def durations(self) -> dict[int, dict[str, int]]:
        """By batch, the milliseconds that Spark reports, of the last batches."""
        found = dict(self._spent)
        with suppress(Exception):  # Spark may have been stopped: what is known is told all the same
            found |= {report["batchId"]: dict(report["durationMs"]) for report in self.query.recentProgress}
        return dict(list(found.items())[-_KEPT:])

    def committed(self) -> None:
        """A batch is: whatever was lost before it is forgiven."""
        self._restarts = 0

    # ---- the query ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            self._spent = self.durations()
            self._failure, self._lost, self._border = None, False, False
            self._started.clear()
            self._gate = gate = Gate()
            query, places = self._launch(partial(self._batch, gate))
            self.query, self._streams = query, [stream for stream, _ in places]
            self._started.set()

    def _watch(self) -> None:
        try:
            while self._goes_on(self._ended()):
                self._start()
                if self._stopping:
                    self.query.stop()
        except Exception as error:
            self._exception = explained(error)
        finally:
            with self._lock:
                self._end(self._exception)
                self._done.set()

    def _goes_on(self, error: Exception | None) -> bool:
        """Is the query to be started again, after it has ended?"""
        if self._stopping:
            return False
        if self._border:
            _LOG.debug("the Spark query is started again, for other columns or streams")
            return True
        if error is None and self._failure is None:
            with self._lock:  # a restart that is asked for from here on finds a run that has ended
                self._over = not self._gate.is_closed()
                return not self._over
        if self._failure is None and error is not None:
            self._lost, self._failure = is_lost(error), explained(error)
        if not self._lost or self._restarts >= _RESTARTS:
            self._exception = self._failure
            _LOG.error("the run has failed: %s", self._exception)
            return False
        self._restarts += 1
        _LOG.warning("Spark lost a process; the batch is run again (%d of %d)", self._restarts, _RESTARTS)
        return True

    def _ended(self) -> Exception | None:
        """Waits for the end of the Spark query, and of Spark, which does not end its queries."""
        try:
            while not self.query.awaitTermination(_LOOK):
                if self._spark.sparkContext._jsc is None:
                    return (
                        None if self._stopping else ClashError("Spark was stopped under the run", "", "call run.stop() before spark.stop()")
                    )
        except Exception as error:
            return error
        return None

    def _batch(self, gate: Gate, df: Any, batch: int) -> None:
        try:
            with gate.batch():
                self._do(df, batch)
        except BorderError:
            self._border = True
            raise
        except Exception as error:
            if self._stopping:
                raise InterruptError from None
            self._lost = is_lost(error)
            self._failure = explained(error, batch, self._guilty)
            _LOG.debug("batch %d failed", batch, exc_info=error)  # with Java's stack, which is nobody's answer
            raise

    def _guilty(self) -> tuple[str, BaseException] | None:
        return self._search() or (guilty_stream(self.query, self._streams) if self._started.wait(10) else None)


def _halt(query: Any, gate: Gate) -> None:
    with suppress(Exception):  # a query that ends otherwise is looked after by whoever waits for it
        halt(query, gate)
