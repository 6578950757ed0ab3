"""A run: what `engine.start` returns, to watch, to change, to read from and to stop.

Invariant: nothing a restart could lose is kept here: what counts is in the checkpoint.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from clash.coordinator.control.changes import Change
from clash.coordinator.committed_batch import Committed
from clash.coordinator.coordinator import Driver
from clash.coordinator.control.job import Asked
from clash.errors import ClashError, OptionError
from clash.model.durations import parse_timeout
from clash.model.statistics import Statistics
from clash.model.stream import Keep, Stream
from clash.planner.plan import Format
from clash.sinks import Sink
from clash.spark.declarations import declare_query, declare_stream, say
from clash.spark.parquet_streams import Direct
from clash.spark.result_handover import Handover, folder_url, read_files, read_folder, refuse_handed_over, starting_sinks
from clash.spark.query_launcher import Launcher
from clash.spark.column_packing import Places
from clash.spark.progress import Progress
from clash.spark.query_supervisor import Batch, Supervisor
from clash.spark.transport import Transport
from clash.sql.name_lookup import did_you_mean, listed
from clash.state.storage import open_storage
from clash.workers.program import result_schema
from clash.workers.result_writer import LATE, published


class Run:
    """Made by `engine.start`. `given`: the sinks that the program names, which those of later calls join; `declare` takes note of later
    streams, so that the engine can be started again; `release` lets others have the checkpoint."""

    def __init__(
        self,
        spark: Any,
        driver: Driver,
        launcher: Launcher,
        given: dict[str, Sink | None],
        declare: Callable[[Stream, Any], None],
        release: Callable[[], None],
    ) -> None:
        self._spark, self._driver, self._launcher, self._given, self._declare = spark, driver, launcher, given, declare
        self._release = release
        self._sinks = starting_sinks(driver, given)
        self._handover = Handover(spark, driver, self._sinks)
        self._transport = Transport(driver, self._committed)
        self._progress = Progress(driver.last)
        self._life = Supervisor(spark, self._launch, self._transport, self._ended, self._transport.guilty)

    def _ended(self, error: ClashError | None) -> None:
        self._driver.close(error)
        self._release()

    # ---- life --------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return self._life.is_active

    @property
    def exception(self) -> ClashError | None:
        """Why the run ended, if it failed."""
        return self._life.exception

    def await_termination(self, timeout: float | str | None = None) -> bool:
        """Waits for the end, at most `timeout`, seconds or a duration: has it ended? Raises what it failed with."""
        return self._life.await_termination(parse_timeout(timeout, "the timeout"))

    def process_all_available(self) -> None:
        """Waits until all that the sources have now is committed. For tests: a source that never pauses never ends it."""
        self._life.process_all_available()

    def stop(self) -> None:
        """Ends the run. A batch in the making is dropped, and run again by the next start."""
        self._life.stop()

    def _launch(self, batch: Batch) -> tuple[Any, Places]:
        packed, places = self._launcher.pack(self._driver.reading, self._driver.changes.setup.needed, self._transport.program)
        stored = self._launcher.stored
        self._transport.launched(places, None if stored is None else Direct(self._spark, stored))
        return self._launcher.start(packed, batch), places

    def _committed(self, committed: Committed, began: float) -> None:
        self._handover(committed)
        self._life.committed()
        self._progress.add(committed, max(clock.perf_counter() - began, 1e-9))

    # ---- changing ----------------------------------------------------------------------------------------------

    def add_query(
        self, name: str, text: str, sink: Sink | None = None, history: bool = True, windows: Mapping[str, str] | None = None
    ) -> Change:
        """One query more, from the next epoch border on. With history it also joins rows that came before it was asked, as far as they
        are kept. If it cannot be answered it is refused here, and the running queries do not notice."""
        asked = declare_query(name, text, sink, windows)
        with self._life.active(f"query {name} cannot be added"):
            return self._take(asked, sink, lambda: self._driver.changes.add_query(asked, history))

    def replace_query(
        self, name: str, text: str, sink: Sink | None = None, history: bool = True, windows: Mapping[str, str] | None = None
    ) -> Change:
        """Another query under the name of one that runs: the last batch of the one is followed by the first of the other."""
        asked = declare_query(name, text, sink, windows)
        with self._life.active(f"query {name} cannot be replaced"):
            return self._take(asked, sink, lambda: self._driver.changes.replace_query(asked, history))

    def remove_query(self, name: str) -> Change:
        """One query less. Its results stay where they are; what is kept for it alone is dropped."""
        with self._life.active(f"query {name} cannot be removed"):
            return self._driver.changes.remove_query(name)

    def rescale(self, workers: int) -> Change:
        """Another number of workers. Nothing is moved: what the old ones have stored is read by the new ones."""
        with self._life.active("the number of workers cannot be changed"):
            return self._driver.changes.rescale(workers)

    def stream(
        self,
        name: str,
        df: Any,
        time: str | None = None,
        window: str | None = None,
        lateness: str | None = None,
        idle: str | None = None,
        keep: Keep = "needed",
    ) -> Change:
        """One stream more, for queries to come: it is read from the first batch on that a query needs it in (with keep="all": at once), for
        which the Spark query is started again between two batches. A program that is started anew has to declare it, too."""
        stream = declare_stream(name, df, time, window, lateness, idle, keep)
        with self._life.active(f"stream {name} cannot be added"):
            if name not in self._driver.changes.setup.by_name:  # before it is known: a batch may want to read it at once
                self._launcher.frames[name] = df
            change = self._driver.add_stream(stream)
            self._declare(stream, df)
            self._read_more()
        say(stream, df)
        return change

    def _take(self, asked: Asked, sink: Sink | None, ask: Callable[[], Change]) -> Change:
        with self._sinks.taking(asked, sink):
            change = ask()
        self._given[asked.name] = sink
        self._read_more()
        return change

    def _read_more(self) -> None:
        """The first rows of a new stream are for those who need it: the batch that reads them is one under them."""
        needed = self._driver.changes.setup.needed
        if not self._launcher.reads(needed):
            self._driver.read(sorted(needed))
            self._life.restart()

    # ---- what it tells -----------------------------------------------------------------------------------------

    @property
    def progress(self) -> dict[str, Any]:
        """The last committed batch, and totals since the start."""
        return self._progress.latest(self._life.durations())

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The last batches, oldest first."""
        return self._progress.recent(self._life.durations())

    @property
    def queries(self) -> dict[str, str]:
        """The live ones, by name: those of the batch that was begun last."""
        return {query.name: query.asked.text for query in self._driver.generation.setup.queries}

    @property
    def generations(self) -> list[dict[str, Any]]:
        """Every plan so far, oldest first: from which batch on it ran, why, and what it cost beside what was expected."""
        return self._driver.generations()

    @property
    def statistics(self) -> Statistics:
        """What the plans to come are made with: what was seen of the streams, else what was given."""
        return self._driver.statistics or Statistics()

    def explain(self, format: Format = "text") -> str:
        """The plan that runs today."""
        return self._driver.explain(format)

    # ---- results -----------------------------------------------------------------------------------------------

    def results(self, query: str) -> Any:
        """All committed results of a query, as a DataFrame; also after its removal."""
        live = self._driver.query(query)
        if live is None:
            return read_files(self._spark, self._schema_to_be(query), [])
        kind = live.asked.sink.kind
        if kind == "memory":
            return self._handover.memory(query, live.batch or 0)
        refuse_handed_over(query, kind)
        return read_folder(self._spark, self._driver.result_schema(query), *live.place(self._driver.uri))

    def result_stream(self, query: str) -> Any:
        """The same as a streaming DataFrame, for Spark operators behind the join."""
        live = self._driver.query(query)
        if live is None:
            self._schema_to_be(query)
            raise OptionError("the query has no batch yet", f"query {query}", "wait for it: change.wait()")
        kind = live.asked.sink.kind
        if kind == "memory":
            raise OptionError("results in memory are not a stream", f"query {query}", "use no sink, or Parquet")
        refuse_handed_over(query, kind)
        uri, folder = live.place(self._driver.uri)
        storage = open_storage(uri)
        marker = published(folder, "_clash")
        if not storage.exists(marker):
            storage.write(marker, [b""])  # Spark watches only folders that exist
        schema = from_arrow_schema(self._driver.result_schema(query), prefer_timestamp_ntz=True)
        return self._spark.readStream.schema(schema).parquet(folder_url(storage, folder))

    def _schema_to_be(self, query: str) -> pa.Schema:
        """Of a query that is asked for and has no batch yet."""
        asked = self._driver.changes.setup.parsed
        if query not in [*asked]:  # whatever was given
            names = sorted({*asked, *self._driver.known})
            raise OptionError("unknown query", repr(query), did_you_mean(str(query), names, f"queries are {listed(names)}"))
        return result_schema(asked[query])

    def late(self, stream: str) -> Any:
        """The rows of a stream that came too late, or without a time, with the columns that are read of it."""
        names = [*self._driver.changes.setup.by_name]
        if stream not in names:
            raise OptionError("unknown stream", repr(stream), did_you_mean(str(stream), names, f"streams are {listed(names)}"))
        return read_folder(self._spark, self._driver.late_schema(stream), self._driver.uri, f"{LATE}{stream}")
