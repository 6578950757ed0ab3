"""A run: one Spark query that is watched, and started again when Spark loses a process.

Invariant: `exception` is None as long as the run is active, and after a stop that the user asked for. Nothing a restart could lose is
kept here: what counts is in the checkpoint.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Thread
from typing import Any, Literal

from pyspark.sql.pandas.types import from_arrow_schema

from clash.driver.committed import Committed
from clash.driver.driver import Driver
from clash.driver.job import Job
from clash.errors import ClashError, OptionError
from clash.sinks import Memory, Sink
from clash.spark.failures import explained, guilty_stream, is_lost
from clash.spark.handover import Handover, folder_url, read_folder, refuse_handed_over
from clash.spark.pack import Places
from clash.spark.progress import Progress
from clash.spark.transport import Transport
from clash.sql.names import did_you_mean, listed
from clash.state.storage import open_storage
from clash.workers.results import LATE, published

_LOG = logging.getLogger("clash")
_LOOK = 1  # seconds between two looks at whether Spark is still there
_RESTARTS = 3  # in a row, without a batch committed in between


class Run:
    """Made by `engine.start`. `launch` starts the Spark query over a function of (df, batch)."""

    def __init__(
        self,
        spark: Any,
        driver: Driver,
        job: Job,
        sinks: Mapping[str, Sink | None],
        places: Places,
        launch: Callable[[Callable[[Any, int], None]], Any],
    ) -> None:
        self._spark, self._driver, self._job, self._sinks, self._launch = spark, driver, job, sinks, launch
        self._streams = [stream for stream, _ in places]
        self._handover = Handover(spark, driver, sinks)
        self._transport = Transport(driver, places, self._committed)
        self._progress = Progress(driver.last)
        self._failure: ClashError | None = None  # of the Spark query that has just ended
        self._lost = self._stopping = False
        self._restarts = 0
        self._exception: ClashError | None = None
        self._started, self._done = Event(), Event()
        self._query = self._start()
        Thread(target=self._watch, name="clash-run", daemon=True).start()

    # ---- life --------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return not self._done.is_set()

    @property
    def exception(self) -> ClashError | None:
        """Why the run ended, if it failed."""
        return self._exception

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most `timeout` seconds: has it ended? Raises what it failed with."""
        ended = self._done.wait(timeout)
        if self._exception is not None:
            raise self._exception
        return ended

    def process_all_available(self) -> None:
        """Waits until all that the sources have now is committed. For tests: a source that never pauses never ends it."""
        while self.is_active:
            query = self._query
            try:
                query.processAllAvailable()
            except Exception:
                while self._query is query and not self._done.wait(0.05):  # started again, or given up
                    pass
                continue
            if query is self._query:
                break
        if self._exception is not None:
            raise self._exception

    def stop(self) -> None:
        """Ends the run. A batch in the making is dropped, and run again by the next start."""
        self._stopping = True
        if self.is_active:
            with suppress(Exception):  # Spark itself may be gone
                self._query.stop()
            self._done.wait()

    def _start(self) -> Any:
        self._failure, self._lost = None, False
        self._started.clear()
        query = self._launch(self._batch)
        self._query = query
        self._started.set()
        return query

    def _watch(self) -> None:
        try:
            while True:
                error = self._ended()
                if self._stopping or (error is None and self._failure is None):
                    return
                if self._failure is None and error is not None:
                    self._lost, self._failure = is_lost(error), explained(error)
                if not self._lost or self._restarts >= _RESTARTS:
                    self._exception = self._failure
                    _LOG.error("the run has failed: %s", self._exception)
                    return
                self._restarts += 1
                _LOG.warning("Spark lost a process; the batch is run again (%d of %d)", self._restarts, _RESTARTS)
                self._start()
                if self._stopping:
                    self._query.stop()
        except Exception as error:
            self._exception = explained(error)
        finally:
            self._done.set()

    def _ended(self) -> Exception | None:
        """Waits for the end of the Spark query, and of Spark, which does not end its queries."""
        try:
            while not self._query.awaitTermination(_LOOK):
                if self._spark.sparkContext._jsc is None:
                    return (
                        None if self._stopping else ClashError("Spark was stopped under the run", "", "call run.stop() before spark.stop()")
                    )
        except Exception as error:
            return error
        return None

    # ---- batches -----------------------------------------------------------------------------------------------

    def _batch(self, df: Any, batch: int) -> None:
        try:
            self._transport(df, batch)
        except Exception as error:
            if not self._stopping:
                self._lost = is_lost(error)
                self._failure = explained(error, batch, self._guilty)
                _LOG.debug("batch %d failed", batch, exc_info=error)  # with Java's stack, which is nobody's answer
            raise

    def _guilty(self) -> tuple[str, BaseException] | None:
        return guilty_stream(self._query, self._streams) if self._started.wait(10) else None

    def _committed(self, committed: Committed, began: float) -> None:
        self._handover(committed)
        self._restarts = 0
        self._progress.add(committed, max(time.perf_counter() - began, 1e-9))

    # ---- what it tells -----------------------------------------------------------------------------------------

    @property
    def progress(self) -> dict[str, Any]:
        """The last committed batch, and totals since the start."""
        return self._progress.latest(self._durations())

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The last batches, oldest first."""
        return self._progress.recent(self._durations())

    def _durations(self) -> dict[int, dict[str, int]]:
        try:
            return {report["batchId"]: dict(report["durationMs"]) for report in self._query.recentProgress}
        except Exception:  # Spark has been stopped: what we know ourselves is told all the same
            return {}

    @property
    def queries(self) -> dict[str, str]:
        return {asked.name: asked.text for asked in self._job.queries}

    def explain(self, format: Literal["text", "json", "dot"] = "text") -> str:
        """The plan that runs."""
        return self._driver.explain(format)

    # ---- results -----------------------------------------------------------------------------------------------

    def results(self, query: str) -> Any:
        """All committed results of a query, as a DataFrame."""
        sink = self._sink(query)
        if isinstance(sink, Memory):
            return self._handover.memory(query)
        refuse_handed_over(query, sink)
        return read_folder(self._spark, self._driver.result_schema(query), *self._driver.sinks[query])

    def result_stream(self, query: str) -> Any:
        """The same as a streaming DataFrame, for Spark operators behind the join."""
        sink = self._sink(query)
        if isinstance(sink, Memory):
            raise OptionError("results in memory are not a stream", f"query {query}", "use no sink, or Parquet")
        refuse_handed_over(query, sink)
        uri, folder = self._driver.sinks[query]
        storage = open_storage(uri)
        marker = published(folder, "_clash")
        if not storage.exists(marker):
            storage.write(marker, [b""])  # Spark watches only folders that exist
        schema = from_arrow_schema(self._driver.result_schema(query), prefer_timestamp_ntz=True)
        return self._spark.readStream.schema(schema).parquet(folder_url(storage, folder))

    def late(self, stream: str) -> Any:
        """The rows of a stream that came too late, or without a time, with the columns that are read of it."""
        names = [known.name for known in self._job.streams]
        if stream not in names:
            raise OptionError("unknown stream", repr(stream), did_you_mean(str(stream), names, f"streams are {listed(names)}"))
        return read_folder(self._spark, self._driver.program.late_schema(stream), self._driver.uri, f"{LATE}{stream}")

    def _sink(self, query: str) -> Sink | None:
        if query not in self._sinks:
            raise OptionError("unknown query", repr(query), did_you_mean(str(query), self._sinks, f"queries are {listed(self._sinks)}"))
        return self._sinks[query]
