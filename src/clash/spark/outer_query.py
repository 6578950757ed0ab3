"""One outer query: Spark's stateful streaming query over the folder that the results of a join core are published in.

Invariant: Spark reads each published file once, by the log of its source of files. A file is deleted only when a batch that lists the
folder after the file was seen is committed, and never while the run may publish its batch again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema

from clash.coordinator.control.setup import LiveQuery
from clash.coordinator.coordinator import Coordinator
from clash.coordinator.inspection import result_schema
from clash.errors import ClashError, StateError
from clash.protocol.result_files import OUTER, origin_of
from clash.spark.callback_connection import CallbackConnection
from clash.spark.console_log import quiet_console
from clash.spark.failures import explain_failure, without_internal_stacks
from clash.spark.outer_frame import final_frame, outer_frame, outer_schema, outer_session, times_schema
from clash.spark.outer_sinks import OuterSink
from clash.spark.result_handover import folder_url
from clash.state.storage import open_storage

_LOG = logging.getLogger("clash")
_TIMES = ".times"  # what the name of the folder ends with that the watermarks are in
_INTERVAL = "500 milliseconds"  # between two looks into the folder: each costs a list of it


class OuterQueryRun:
    """`state`: the folder of Spark's checkpoint; `forgets`: whether Spark forgets groups that are complete."""

    def __init__(self, spark: Any, coordinator: Coordinator, live: LiveQuery, sink: OuterSink, state: str, forgets: bool) -> None:
        self._spark, self._coordinator, self.live, self.sink, self._state = spark, coordinator, live, sink, state
        self.forgets = forgets
        self.folder = f"{OUTER}{sink.life}"
        self._connection = CallbackConnection(spark.sparkContext._gateway)
        self._handle: Any = None
        self._error: ClashError | None = None
        self._seen: list[frozenset[str]] = []  # what was in the folders in the last batches
        session = outer_session(spark, max(1, coordinator.generation.setup.workers))
        times = self._stream(session, f"{self.folder}{_TIMES}", times_schema(live.query)) if forgets else None
        self._frame = outer_frame(session, live.query, self._stream(session, self.folder, result_schema(live.query)), times)
        self.schema = outer_schema(session, live.query)

    def _stream(self, session: Any, folder: str, schema: Any) -> Any:
        storage = open_storage(self._coordinator.uri)
        if not storage.list(folder):
            storage.write(f"{folder}/_clash", [b""])  # Spark watches only folders that exist
        return session.readStream.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True)).parquet(folder_url(storage, folder))

    @property
    def times_folder(self) -> str:
        return f"{self.folder}{_TIMES}"

    def start(self, available_now: bool, interval: str | None) -> None:
        """Starts the Spark query; with `available_now` it ends when it has read what is published."""
        if self.live.request.outer is None:
            raise AssertionError(f"query {self.live.name} has no outer part")
        writer = self._frame.writeStream.foreachBatch(self._batch).outputMode(self.live.request.outer.mode)
        writer = writer.option("checkpointLocation", self._state)
        writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=interval or _INTERVAL)
        self._handle = writer.start()
        quiet_console(self._spark, self._handle.id)

    def _batch(self, df: Any, batch: int) -> None:
        self._connection.remember()
        try:
            self._refuse_dropped()
            self._delete_read()
            self._hand_over(df, batch)
        except Exception as error:
            self._error = without_internal_stacks(explain_failure(error, batch))
            raise

    def _hand_over(self, df: Any, batch: int) -> None:
        if self.live.query.outer is None or self.live.query.outer.final is None:
            self.sink(df, batch)
            return
        groups = df.persist()  # what is around may read them several times, and Spark would update its state each time
        try:
            self.sink(final_frame(self.live.query, groups), batch)
        finally:
            groups.unpersist()

    def _delete_read(self) -> None:
        """Files that were seen two batches ago were listed for the batch before this one at the latest, and that one is committed."""
        storage, last = open_storage(self._coordinator.uri), self._coordinator.last
        if len(self._seen) == 2:
            storage.delete(sorted(self._seen.pop(0)))
        folders = [self.folder, *([self.times_folder] if self.forgets else [])]
        found = [(f"{folder}/{name}", origin_of(name)) for folder in folders for name in storage.list(folder)]
        self._seen.append(frozenset(path for path, origin in found if origin is not None and origin.batch < last))

    def _refuse_dropped(self) -> None:
        """Rows below the watermark, which Spark drops: there are none unless windows or bounds have become longer."""
        progress = None if self._handle is None else self._handle.lastProgress
        if progress is None:
            return
        dropped = sum(int(operator["numRowsDroppedByWatermark"]) for operator in progress["stateOperators"])
        if dropped:
            raise StateError(
                "an outer query was given results below its watermark",
                f"query {self.live.name}: {dropped} rows, in batch {progress['batchId']} of its outer query",
                "the window of a stream has become longer; replace the query, which then begins anew",
            )

    # ---- the end -----------------------------------------------------------------------------------------------

    @property
    def is_started(self) -> bool:
        return self._handle is not None

    @property
    def is_active(self) -> bool:
        try:
            return self._handle is not None and bool(self._handle.isActive)
        except Exception:  # Spark itself has gone
            return False

    def failure(self) -> ClashError | None:
        """Why it has ended, if it failed."""
        if self._error is None and self._handle is not None:
            error = None
            with suppress(Exception):  # Spark itself may have gone
                error = self._handle.exception()
            if error is not None:
                self._error = without_internal_stacks(explain_failure(error))
        if self._error is None:
            return None
        if self.live.name in f"{self._error.what} {self._error.detail}":
            return self._error
        detail = f"query {self.live.name}: {self._error.what}; {self._error.detail}"
        return ClashError("an outer query failed", detail, self._error.hint)

    def await_termination(self) -> None:
        with suppress(Exception):  # `failure` says what
            self._handle.awaitTermination()
        if self.failure() is None:
            self._refuse_dropped()

    def process_all_available(self) -> None:
        with suppress(Exception):
            self._handle.processAllAvailable()

    def stop(self) -> None:
        with suppress(Exception):  # Spark itself may have gone
            if self._handle is not None:
                self._handle.stop()
        self._connection.close()

    def progress(self) -> dict[str, Any]:
        """The last batch of the outer query."""
        last = None
        with suppress(Exception):
            last = None if self._handle is None else self._handle.lastProgress
        if last is None:
            return {"mode": self.sink.mode, "batch": None, "input": 0, "groups": 0, "watermark": None}
        groups = sum(int(operator["numRowsTotal"]) for operator in last["stateOperators"])
        watermark = last["eventTime"].get("watermark") if self.forgets else None
        return {"mode": self.sink.mode, "batch": last["batchId"], "input": last["numInputRows"], "groups": groups, "watermark": watermark}
