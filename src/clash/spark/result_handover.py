"""Committed results, on their way to sinks that are functions, and back to whoever asks for them.

Invariant: the files of a batch stay until Spark begins the next one, so a batch is handed over again with the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from rich.console import Console as Terminal
from rich.table import Column
from rich.table import Table as Drawn
from rich.text import Text

from clash.coordinator.committed_batch import Committed
from clash.coordinator.coordinator import Driver
from clash.coordinator.control.job import Asked, SinkKind
from clash.errors import CheckpointError, ClashError, OptionError, SinkError
from clash.sinks import Console, ForeachBatch, Memory, Sink
from clash.spark.declarations import chosen_sink
from clash.state.failpoints import reach
from clash.state.storage import Storage, open_storage


class Sinks:
    """Sinks by what was asked: a query may be replaced by another of its name, and each batch goes to the sink of the one it ran under."""

    def __init__(self) -> None:
        self._all: dict[Asked, Sink | None] = {}

    def __getitem__(self, asked: Asked) -> Sink | None:
        return self._all.get(asked)

    def __setitem__(self, asked: Asked, sink: Sink | None) -> None:
        self._all[asked] = sink

    @contextmanager
    def taking(self, asked: Asked, sink: Sink | None) -> Iterator[None]:
        """Around asking for a query: its first batch may be over before the call returns. Of two that ask for the same, the one that is
        refused changes nothing."""
        if asked not in self._all:
            self._all[asked] = sink
        yield
        self._all[asked] = sink


def starting_sinks(driver: Driver, given: Mapping[str, Sink | None]) -> Sinks:
    """Those of the queries that a checkpoint goes on with: as the program gives them, else as they are recorded."""
    sinks = Sinks()
    wanted = driver.changes.setup.queries
    for live in (*driver.history.read(driver.manifest.generation).setup.queries, *driver.generation.setup.queries, *wanted):
        sinks[live.asked] = chosen_sink(live.asked, given)
    for live in wanted:
        if live.asked.sink.kind == "foreach" and sinks[live.asked] is None:
            raise CheckpointError(
                "the function that takes a query's results is missing",
                f"query {live.name} is live, it was added at run time",
                f'functions are not recorded: call engine.query("{live.name}", "…", sink=clash.sinks.ForeachBatch(f)) before the start',
            )
    return sinks


class Handover:
    def __init__(self, spark: Any, driver: Driver, sinks: Sinks) -> None:
        self.spark, self.driver, self.sinks = spark, driver, sinks
        self.kept: dict[str, dict[int, pa.Table]] = {}

    def __call__(self, committed: Committed) -> None:
        asked = {live.name: live.asked for live in self.driver.history.read(committed.generation).setup.queries}
        for query, paths in committed.results.items():
            sink = self.sinks[asked[query]]
            try:
                if isinstance(sink, Memory):
                    self._keep(query, committed.batch, paths)
                elif isinstance(sink, Console):
                    self._show(query, committed, sink.rows, paths)
                elif isinstance(sink, ForeachBatch):
                    reach("before-handover")
                    sink.function(read_files(self.spark, self.driver.result_schema(query), paths), committed.batch)
                    reach("after-handover")
            except ClashError:
                raise
            except Exception as error:
                raise SinkError(
                    f"the sink of query {query} failed",
                    f"batch {committed.batch}: {type(error).__name__}: {error}",
                    "the results are committed; a new start hands them over again",
                ) from error

    def _keep(self, query: str, batch: int, paths: Sequence[str]) -> None:
        if paths:  # by number: a batch that is handed over again replaces itself
            self.kept.setdefault(query, {})[batch] = pa.Table.from_batches(_batches(paths), self.driver.result_schema(query))

    def memory(self, query: str, since: int) -> Any:
        """What a Memory sink holds from a batch on, as a DataFrame."""
        schema = self.driver.result_schema(query)
        table = pa.concat_tables([schema.empty_table(), *(rows for batch, rows in self.kept.get(query, {}).items() if batch >= since)])
        return self.spark.createDataFrame(table, from_arrow_schema(schema, prefer_timestamp_ntz=True))

    def _show(self, query: str, committed: Committed, most: int, paths: Sequence[str]) -> None:
        count = committed.counts.get(query, 0)
        drawn = Drawn(*(Column(Text(name)) for name in self.driver.result_schema(query).names))
        for row in islice((row for batch in _batches(paths) for row in batch.slice(0, most).to_pylist()), most):
            drawn.add_row(*(Text("NULL" if value is None else str(value)) for value in row.values()))
        title = f"{query}, batch {committed.batch}: {count:,} {'result' if count == 1 else 'results'}"
        more = f"{count - most:,} more\n" if count > most else ""
        terminal = Terminal(highlight=False, markup=False)
        terminal.print(title, *((drawn,) if count else ()), more, sep="\n")


def _batches(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        folder, _, name = path.rpartition("/")
        yield from pq.ParquetFile(pa.BufferReader(open_storage(folder).read(name))).iter_batches()


def read_files(spark: Any, schema: pa.Schema, paths: Sequence[str]) -> Any:
    """A DataFrame over Parquet files, empty if there are none."""
    columns = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return spark.read.schema(columns).parquet(*paths) if paths else spark.createDataFrame([], columns)


def read_folder(spark: Any, schema: pa.Schema, uri: str, folder: str) -> Any:
    """All that is published in a folder. What is being written there has a name that readers leave out."""
    storage = open_storage(uri)
    there = any(name.endswith(".parquet") for name in storage.list(folder))
    return read_files(spark, schema, [folder_url(storage, folder)] if there else [])


def folder_url(storage: Storage, folder: str) -> str:
    return storage.url(f"{folder}/_" if folder else "_").removesuffix("/_")


def refuse_handed_over(query: str, kind: SinkKind) -> None:
    if kind in ("console", "foreach"):
        where = "were shown on the console" if kind == "console" else "were handed to your function"
        raise OptionError(
            "the results are not kept", f"those of query {query} {where}", "use no sink, Parquet or Memory to read them through the run"
        )
