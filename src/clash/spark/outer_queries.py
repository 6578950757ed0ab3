"""The outer queries of a run: started, stopped and ended with the queries that they belong to.

    committed batch has the query   ─▶ RUNNING
    committed batch lacks the query ─▶ the rest of its results is read, and its state is deleted
    end of a run over what is available ─▶ everything published is read, then the run ends

Invariant: an outer query reads results of committed batches only, each once. Its state is deleted only when it has read all of them.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Mapping
from threading import RLock, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.control.setup import LiveQuery
from clash.coordinator.coordinator import Coordinator
from clash.errors import CheckpointError, ClashError
from clash.model.query import Query
from clash.protocol.result_files import OUTER, file_name
from clash.sinks import Memory, Sink
from clash.spark.declarations import chosen_sink
from clash.spark.failures import explain_failure
from clash.spark.outer_declaration import forgets
from clash.spark.outer_frame import IS_TIME, TIME, outer_schema, times_schema
from clash.spark.outer_query import OuterQueryRun
from clash.spark.outer_records import OuterRecords
from clash.spark.outer_sinks import sink_of
from clash.spark.result_handover import Sinks
from clash.state.storage import open_storage

_LOG = logging.getLogger("clash")


class OuterQueries:
    """`fail` ends the run with an error; `given`: the sinks that the program declares; `interval`: between two batches, as Spark spells
    it."""

    def __init__(
        self,
        spark: Any,
        coordinator: Coordinator,
        sinks: Sinks,
        given: Mapping[str, Sink | None],
        available_now: bool,
        interval: str | None,
        fail: Callable[[ClashError], None],
    ) -> None:
        self._spark, self._coordinator, self._sinks, self._given = spark, coordinator, sinks, given
        self._available_now, self._interval, self._fail = available_now, interval, fail
        self._records = OuterRecords(coordinator.uri.removesuffix("/clash"))
        self._lock = RLock()
        self._queries: dict[str, OuterQueryRun] = {}  # by life; replaced, never changed
        self._ending: list[Thread] = []
        self._ended: dict[str, OuterQueryRun] = {}  # whose results are in memory only
        self._times: dict[str, int] = {}  # by life, the last watermark that was written
        self._stopping = False
        left = dict(self._records.read())
        for live in coordinator.committed_queries if coordinator.last >= 0 else ():
            if live.request.outer is not None:
                self._add(live, sinks[live.request])
        for life, live in left.items():
            if life not in self._queries:  # its last results are not read yet
                self._add(live, self._sink_of_ended(live))

    def _sink_of_ended(self, live: LiveQuery) -> Sink | None:
        sink = chosen_sink(live.request, self._given)
        if sink is None and live.request.final_sink.kind == "foreach":
            raise CheckpointError(
                "results of a query that is dropped are not handed over",
                f"query {live.name}: the run ended before its outer query had read all of them",
                "declare the query with its function once more and start, then remove it",
            )
        return sink

    def begin(self) -> None:
        """Starts those that are there from the start; those of queries that have ended read what is left."""
        if self._available_now:
            return
        with self._lock:
            try:
                for outer in self._queries.values():
                    self._start(outer)
                self._end_others(self._coordinator.committed_queries if self._coordinator.last >= 0 else ())
            except Exception as error:
                self._fail(explain_failure(error))

    def _add(self, live: LiveQuery, sink: Sink | None) -> OuterQueryRun:
        life = live.folder or live.name
        streams = self._coordinator.generation.setup.streams_by_name
        taker = sink_of(live, sink, self._coordinator.uri, self._coordinator.sources.identity)
        taker.claim()
        if live.request.outer is None:
            raise AssertionError(f"query {live.name} has no outer part")
        is_forgetting = forgets(live.query, streams, live.request.outer.mode)
        self._records.write(life, live)
        outer = OuterQueryRun(self._spark, self._coordinator, live, taker, self._records.state(life), is_forgetting)
        self._queries = {**self._queries, life: outer}
        return outer

    def _start(self, outer: OuterQueryRun) -> None:
        if outer.is_started:
            return
        outer.start(self._available_now, self._interval)
        if not self._available_now:
            Thread(target=self._watch, args=(outer,), name=f"clash-outer-{outer.live.name}", daemon=True).start()

    def _watch(self, outer: OuterQueryRun) -> None:
        """A failure ends the run."""
        try:
            outer.await_termination()
            failure = outer.failure()
        except ClashError as error:
            failure = error
        if failure is not None and not self._stopping:
            self._fail(failure)

    # ---- while the run goes on ---------------------------------------------------------------------------------

    def committed(self, committed: CommittedBatch) -> None:
        """Called with every committed batch, after its results are published."""
        with self._lock:
            live = [query for query in self._coordinator.committed_queries if query.request.outer is not None]
            for query in live:
                life = query.folder or query.name
                outer = self._queries.get(life)
                if outer is None:
                    outer = self._add(query, self._sinks[query.request])
                    if not self._available_now:
                        self._start(outer)
                if outer.forgets:
                    self._write_time(outer, committed)
            if not self._available_now:
                self._end_others(live)

    def _write_time(self, outer: OuterQueryRun, committed: CommittedBatch) -> None:
        """What results of later batches cannot be below, as a row that tells Spark."""
        bound = watermark_of_results(outer.live.query, committed.watermarks)
        if bound is None or bound <= self._times.get(outer.sink.life, bound - 1):
            return
        schema = times_schema(outer.live.query)
        table = pa.table({TIME: pa.array([bound], pa.int64()).cast(schema.field(TIME).type), IS_TIME: [True]}, schema)
        content = io.BytesIO()
        pq.write_table(table, content)
        name = file_name(committed.batch, outer.sink.identity, "00000000", "time", 0)
        open_storage(self._coordinator.uri).write(f"{outer.times_folder}/{name}", [content.getvalue()])
        self._times[outer.sink.life] = bound

    def _end_others(self, live: Iterable[LiveQuery]) -> None:
        """Ends the outer queries of all queries that have ended."""
        lives = {query.folder or query.name for query in live}
        for life, outer in self._queries.items():
            if life not in lives and life not in {thread.name for thread in self._ending}:
                thread = Thread(target=self._end, args=(life, outer), name=life, daemon=True)
                self._ending.append(thread)
                thread.start()

    def _end(self, life: str, outer: OuterQueryRun) -> None:
        outer.process_all_available()
        is_over = outer.is_active and not self._stopping
        outer.stop()
        if is_over and outer.failure() is None:
            self._delete(life)
        with self._lock:
            self._ending = [thread for thread in self._ending if thread.name != life]
            self._queries = {name: other for name, other in self._queries.items() if name != life}
            if isinstance(outer.sink.sink, Memory):
                self._ended[life] = outer

    def _delete(self, life: str) -> None:
        """What is left of a query whose results are all read."""
        self._records.delete(life)
        storage = open_storage(self._coordinator.uri)
        for folder in (f"{OUTER}{life}", f"{OUTER}{life}.times"):
            storage.delete([f"{folder}/{name}" for name in storage.list(folder, recursive=True)])

    # ---- the end -----------------------------------------------------------------------------------------------

    def process_all_available(self) -> None:
        """Waits until all outer queries have read what is published."""
        for outer in self._queries.values():
            outer.process_all_available()
        for thread in list(self._ending):
            thread.join()

    def finish(self) -> None:
        """At the end of a run over what is available: reads all that is published. Raises what one failed with."""
        if not self._available_now:
            return
        live = {query.folder or query.name for query in self._coordinator.committed_queries}
        for outer in self._queries.values():
            if not self._stopping:
                self._start(outer)
        for life, outer in self._queries.items():
            outer.await_termination()
            failure = outer.failure()
            if failure is not None and not self._stopping:
                raise failure
            if life not in live and failure is None and not self._stopping:
                self._delete(life)

    def stop(self) -> None:
        """What is read and not committed is read again by the next start."""
        self._stopping = True
        for outer in self._queries.values():
            outer.stop()

    # ---- reading -----------------------------------------------------------------------------------------------

    def results(self, live: LiveQuery) -> Any:
        """The results of an outer query so far, also of one that has ended."""
        life = live.folder or live.name
        outer = self._queries.get(life) or self._ended.get(life)
        if outer is not None:
            return outer.sink.results(self._spark, outer.schema)
        ended = sink_of(live, chosen_sink(live.request, self._given), self._coordinator.uri, self._coordinator.sources.identity)
        return ended.results(self._spark, outer_schema(self._spark, live.query))

    def progress(self) -> dict[str, dict[str, Any]]:
        """By query, the last batch of its outer query."""
        return {outer.live.name: outer.progress() for outer in self._queries.values()}


def watermark_of_results(query: Query, watermarks: Mapping[str, int | None]) -> int | None:
    """What the event time of no later result is below, in microseconds; None while that is not known.

    The last-arriving tuple of a result is of some relation j and not below the watermark of its stream; the event time of the result's
    relation k is at most D[k, j] before it. Spark drops what is *at* its watermark, which has milliseconds.
    """
    if query.added:
        found = [watermark_of_results(branch, watermarks) for branch in query.branches]
        known = [watermark for watermark in found if watermark is not None]
        return min(known) if len(known) == len(found) else None
    if query.outer is None or query.outer.event_time is None:
        return None
    relation, reach = query.outer.event_time.relation, query.reach()
    bounds = []
    for other in query.streams:
        watermark, distance = watermarks.get(other.stream), reach[relation, other]
        if watermark is None or distance is None:
            return None
        bounds.append(watermark - distance)
    return (min(bounds) // 1000 - 1) * 1000
