"""Keeps one Spark query running: started again when Spark loses a process, and, between two batches, when it has to read something else.

    RUNNING ──▶ ENDED       the query has nothing left to read
       │  ▲
       │  └── restarted     for other columns or streams, or after a lost process
       ├────▶ FAILED        a batch or a source failed
       └────▶ STOPPING ──▶ ENDED

Invariant: at most one Spark query runs over the checkpoint. `exception` is None while the run is active, and after a stop that the user
requested. A run ends exactly once, and nothing that was requested of it before that is forgotten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from threading import Event, RLock, Thread
from typing import Any, Literal

from clash.errors import ClashError, OptionError
from clash.spark.batch_end import BatchFailedError, InterruptError, QueryRestartError
from clash.spark.batch_gate import BatchGate, end_between_batches
from clash.spark.callback_connection import CallbackConnection
from clash.spark.column_packing import PackedColumns
from clash.spark.console_log import quiet_console
from clash.spark.disk_failures import WrittenFolders
from clash.spark.failures import Search, explain_failure, find_failing_stream, is_lost, without_internal_stacks
from clash.spark.progress import read_durations

_LOG = logging.getLogger("clash")
_LIVENESS_INTERVAL = 1  # seconds between two checks whether Spark is still there
_RESTART_INTERVAL = 0.05  # seconds between two checks whether the query has been started again
_STOP_INTERVAL = 0.002  # seconds between two checks whether Spark knows that the query is stopped
_MAX_LAUNCH = 10  # seconds that Spark may need to return the query that it has started
_MAX_DURATIONS = 1000  # batches
_MAX_RESTARTS = 3  # in a row, without a batch committed in between

Batch = Callable[[Any, int], None]
Launch = Callable[[Batch], tuple[Any, PackedColumns]]


class RunState(Enum):
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True)
class Outcome:
    """Why a Spark query ended, as its batch function saw it."""

    kind: Literal["restart", "lost", "failed"]
    error: ClashError | None = None


@dataclass(frozen=True)
class SparkQuery:
    """One Spark query, from its start to its end."""

    handle: Any
    gate: BatchGate
    connection: CallbackConnection
    streams: tuple[str | None, ...]
    """The branches of its union; None for one of which Spark reads nothing."""


class QuerySupervisor:
    """`launch` starts the Spark query over a function of (df, batch) and returns it with what it delivers; `batch` is that function, of a
    batch that may begin. A QueryRestartError that it raises means: start the query again, it does not deliver what this batch needs.
    `finish` is called when the query has nothing left to read, and may fail; `on_end` is called once, with what the run failed with;
    `search` finds the stream that cannot be read, where the Spark query does not read it itself; `half`: the folder of Spark's half of the
    checkpoint."""

    def __init__(
        self,
        spark: Any,
        launch: Launch,
        batch: Batch,
        finish: Callable[[], None],
        on_end: Callable[[ClashError | None], None],
        search: Search,
        half: str,
    ) -> None:
        self._spark, self._launch, self._run_batch, self._search = spark, launch, batch, search
        self._finish, self._on_end = finish, on_end
        self._folders = WrittenFolders.of(spark, half)
        self._lock = RLock()  # a restart is requested either before the run's end, or after it
        self._done, self._launched = Event(), Event()
        self._state = RunState.RUNNING
        self._exception: ClashError | None = None
        self._failure: ClashError | None = None  # of something beside the Spark query
        self._outcome: Outcome | None = None  # of the query that runs, or has just ended
        self._restarts = 0
        self._waiting = 0  # threads that a failure is raised in
        self._durations: dict[int, dict[str, int]] = {}  # by batch, as far as they were read; replaced, never changed
        self._query = self._start()
        Thread(target=self._watch, name="clash-run", daemon=True).start()

    # ---- the run, as a user sees it ----------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return not self._done.is_set()

    @property
    def exception(self) -> ClashError | None:
        return self._exception

    @property
    def handle(self) -> Any:
        """The Spark query that runs."""
        return self._query.handle

    def await_termination(self, timeout: float | None) -> bool:
        with self._waiting_thread():
            ended = self._done.wait(timeout)
        if self._exception is not None:
            raise self._exception.with_traceback(None)
        return ended

    def process_all_available(self) -> None:
        with self._waiting_thread():
            self._process_all_available()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raises what the run has failed with, if it has."""
        if self._failure is not None:
            self._done.wait()
        if self._exception is not None:
            raise self._exception.with_traceback(None)

    @contextmanager
    def _waiting_thread(self) -> Iterator[None]:
        """A failure that is raised in a thread that waits is not logged as well: it is said once."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _process_all_available(self) -> None:
        while self.is_active:
            query = self._query
            with suppress(Exception):  # it has failed, or was ended at a boundary
                query.handle.processAllAvailable()
                if self._is_current(query):
                    break
            while self._query is query and not self._is_current(query) and not self._done.wait(_RESTART_INTERVAL):
                pass  # until it is started again, or given up

    def _is_current(self, query: SparkQuery) -> bool:
        try:
            return query is self._query and not query.gate.is_closed and bool(query.handle.isActive)
        except Exception:  # Spark itself has gone
            return False

    def stop(self, interrupt: Callable[[], None] = lambda: None) -> None:
        """`interrupt` ends what the batch in work waits for: its failure does not count from here on."""
        if self.is_active:
            self._state = RunState.STOPPING
            interrupt()
            with suppress(Exception):  # Spark itself may have gone
                self.handle.stop()
            self._done.wait()

    def fail(self, error: ClashError) -> None:
        """Ends the run with the failure of something beside the Spark query."""
        with self._lock:
            if self._state is not RunState.RUNNING:
                return
            self._failure, self._state = error, RunState.STOPPING
        with suppress(Exception):  # Spark itself may have gone
            self.handle.stop()

    @contextmanager
    def active(self, what: str) -> Iterator[None]:
        """An active run does not end while this is held; for one that has ended it is refused."""
        with self._lock:
            if self._state is not RunState.RUNNING:
                raise OptionError("the run is not active", what, "do it before engine.start(), or while the run goes on")
            yield

    def restart(self) -> None:
        """Starts the Spark query again when the batch in work is done, even if it was the last."""
        with self._lock:
            query = self._query
            query.gate.close()
            Thread(target=_end_quietly, args=(query,), name="clash-end-query", daemon=True).start()

    def durations(self) -> dict[int, dict[str, int]]:
        """By batch, the milliseconds that Spark reports, of the last batches. Reports that were read before are not read again: Spark
        keeps a thousand of them, and programs ask for the progress in a loop."""
        durations = self._durations
        with suppress(Exception):  # Spark may have been stopped: what is known is shown all the same
            read = read_durations(self.handle._jsq.recentProgress(), max(durations, default=-1))
            durations = dict(sorted((durations | read).items())[-_MAX_DURATIONS:])
            self._durations = durations
        return durations

    def batch_committed(self) -> None:
        """Processes that were lost before a committed batch do not count any more."""
        self._restarts = 0

    # ---- the Spark query ---------------------------------------------------------------------------------------

    def _start(self) -> SparkQuery:
        with self._lock:
            self._outcome = None
            self._launched.clear()
            gate, connection = BatchGate(), CallbackConnection(self._spark.sparkContext._gateway)
            handle, columns = self._launch(partial(self._batch, gate, connection))
            self._query = SparkQuery(handle, gate, connection, tuple(stream if read else None for stream, read in columns))
            self._launched.set()
            return self._query

    def _watch(self) -> None:
        try:
            while self._continues(self._await_end()):
                self.durations()  # before the reports of this query are gone
                self._query.connection.close()
                self._start()
                if self._state is RunState.STOPPING:
                    self.handle.stop()
            if self._state is RunState.ENDED:
                self._finish()
            self._exception = self._exception or self._failure
        except Exception as error:
            self._exception = without_internal_stacks(explain_failure(error, folders=self._folders))
        finally:
            self._query.connection.close()
            with self._lock:
                if self._exception is not None and not self._waiting:
                    _LOG.error("the run has failed: %s", self._exception)
                self._state = RunState.ENDED if self._exception is None else RunState.FAILED
                try:
                    self._on_end(self._exception)
                finally:
                    self._done.set()

    def _continues(self, error: Exception | None) -> bool:
        """Whether the query is to be started again, after it has ended, perhaps with an error of Spark's."""
        if self._state is RunState.STOPPING:
            return False
        outcome = self._outcome
        if outcome is None and error is not None:
            _LOG.debug("the Spark query failed", exc_info=error)
            failure = explain_failure(error, folders=self._folders)
            outcome = Outcome("lost" if is_lost(error) else "failed", without_internal_stacks(failure))
        if outcome is None:
            with self._lock:  # a restart that is requested from here on finds a run that has ended
                if self._query.gate.is_closed:
                    return True
                self._state = RunState.ENDED
                return False
        if outcome.kind == "restart":
            _LOG.debug("the Spark query is started again, for other columns or streams")
            return True
        if outcome.kind == "failed" or self._restarts >= _MAX_RESTARTS:
            self._state, self._exception = RunState.FAILED, outcome.error
            return False
        self._restarts += 1
        _LOG.warning("Spark lost a process, or its jobs were cancelled; the batch is run again (%d of %d)", self._restarts, _MAX_RESTARTS)
        return True

    def _await_end(self) -> Exception | None:
        """Waits for the end of the Spark query, and of Spark, which does not end its queries."""
        try:
            quiet_console(self._spark, self.handle.id)
            while not self.handle.awaitTermination(_LIVENESS_INTERVAL):
                if self._spark.sparkContext._jsc is None:
                    stopping = self._state is RunState.STOPPING
                    return None if stopping else ClashError("Spark was stopped under the run", "", "call run.stop() before spark.stop()")
        except Exception as error:
            return error
        return None

    def _batch(self, gate: BatchGate, connection: CallbackConnection, df: Any, batch: int) -> None:
        connection.remember()
        try:
            with gate.batch():
                self._run_batch(df, batch)
        except QueryRestartError:
            self._outcome = Outcome("restart")
            gate.close()
            self._stop_in_place_of_batch()
            raise InterruptError from None
        except Exception as error:
            if self._state is RunState.STOPPING:
                raise InterruptError from None
            failure = explain_failure(error, batch, self._find_failing_stream, self._folders)
            _LOG.debug("batch %d failed", batch, exc_info=error)  # with Java's stack, which users need not see
            self._outcome = Outcome("lost" if is_lost(error) else "failed", without_internal_stacks(failure))
            raise BatchFailedError(str(failure)) from None

    def _stop_in_place_of_batch(self) -> None:
        """Returns when Spark knows that the query of the calling batch is stopped: it is then interrupted, and has not failed. Spark has
        planned the batch and will not record it as done, so the next query begins with it."""
        if not self._launched.wait(_MAX_LAUNCH):
            raise QueryRestartError  # Spark takes it for a failure of the query, with the same effect
        handle = self.handle
        Thread(target=_stop_quietly, args=(handle,), name="clash-stop-query", daemon=True).start()  # it waits for the end of this batch
        while handle.isActive:
            time.sleep(_STOP_INTERVAL)

    def _find_failing_stream(self) -> tuple[str, BaseException] | None:
        failing = self._search()
        if failing is None and self._launched.wait(_MAX_LAUNCH):
            failing = find_failing_stream(self.handle, self._query.streams)
        return failing


def _end_quietly(query: SparkQuery) -> None:
    with suppress(Exception):  # a query that ends otherwise is handled by the thread that waits for it
        end_between_batches(query.handle, query.gate)


def _stop_quietly(handle: Any) -> None:
    with suppress(Exception):  # Spark itself may have gone
        handle.stop()
