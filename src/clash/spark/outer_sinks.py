"""Where the results of outer queries go.

Invariant: a batch of an outer query that Spark repeats replaces what it wrote before: in a folder by the name of its one file, in memory by
its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.functions import lit
from pyspark.sql.types import LongType, StructField, StructType
from rich.console import Console as Terminal
from rich.table import Column, Table
from rich.text import Text

from clash.coordinator.control.folder_owner import FolderOwner, mark, read_owner
from clash.coordinator.control.setup import LiveQuery
from clash.errors import CheckpointError, OptionError, SinkError
from clash.model.outer_query import OutputMode
from clash.sinks import Console, ForeachBatch, Memory, Parquet, Sink
from clash.spark.outer_frame import BATCH
from clash.spark.result_handover import folder_url
from clash.state.failpoints import reach
from clash.state.storage import Storage, open_storage

RESULTS = "outer_results"
_STAGING = "_staging"
_ELSEWHERE = 'give the query another folder: sink=clash.sinks.Parquet("…")'


@dataclass
class OuterSink:
    """Takes the batches of one outer query. `life`: the name of the query's folders; `uri` and `identity` are the checkpoint's."""

    name: str
    life: str
    mode: OutputMode
    sink: Sink | None
    uri: str
    identity: str
    kept: dict[int, pa.Table] = field(default_factory=dict)
    """By batch, of a Memory sink."""

    def claim(self) -> None:
        """Marks the folder of a Parquet sink as the query's. Raises if it belongs to others."""
        if isinstance(self.sink, Parquet):
            storage = open_storage(self.sink.url)
            refuse_taken_folder(self.name, self.sink, self.uri, FolderOwner(self.identity, self.life))
            mark(storage, "", FolderOwner(self.identity, self.life))

    def __call__(self, df: Any, batch: int) -> None:
        reach("before-outer-sink")
        try:
            self._take(df, batch)
        except Exception as error:
            if isinstance(self.sink, ForeachBatch | Console):
                raise SinkError(
                    f"the sink of query {self.name} failed",
                    f"batch {batch} of its outer query: {type(error).__name__}: {error}",
                    "a new start hands the results over again",
                ) from error
            raise
        reach("after-outer-sink")

    def _take(self, df: Any, batch: int) -> None:
        if isinstance(self.sink, ForeachBatch):
            self.sink.function(df, batch)
        elif isinstance(self.sink, Console):
            self._show(df.toArrow(), batch, self.sink.rows)
        elif isinstance(self.sink, Memory):
            rows = self._numbered(df, batch).toArrow()
            if self.mode == "complete":
                self.kept.clear()
            if rows.num_rows:
                self.kept[batch] = rows
        else:
            self._write(self._numbered(df, batch), batch)

    def _numbered(self, df: Any, batch: int) -> Any:
        return df.withColumn(BATCH, lit(batch).cast("bigint")) if self.mode == "update" else df

    @property
    def _place(self) -> tuple[Storage, str]:
        return (open_storage(self.sink.url), "") if isinstance(self.sink, Parquet) else (open_storage(self.uri), f"{RESULTS}/{self.life}/")

    def _write(self, df: Any, batch: int) -> None:
        """One file per batch, which is moved to its place as a whole."""
        storage, folder = self._place
        staging = f"{folder}{_STAGING}/{self.life}"
        storage.delete([f"{staging}/{name}" for name in storage.list(staging, recursive=True)])
        df.repartition(1).write.mode("overwrite").parquet(folder_url(storage, staging))
        written = [name for name in storage.list(staging) if name.endswith(".parquet")]
        if len(written) > 1:
            raise AssertionError(f"{len(written)} files of one partition")
        for name in written:
            storage.move(f"{staging}/{name}", f"{folder}{self._file_name(batch)}")
        if self.mode == "complete":  # readers take the newest, also where a crash has left others
            storage.delete([f"{folder}{name}" for name in self.files() if name < self._file_name(batch)])

    def _file_name(self, batch: int) -> str:
        return f"outer-{batch:09d}-{self.identity}-{self.life}.parquet"

    def files(self) -> list[str]:
        """The names of its files, oldest first."""
        storage, folder = self._place
        return sorted(n for n in storage.list(folder.rstrip("/")) if n.startswith("outer-") and n.endswith(f"-{self.life}.parquet"))

    def results(self, spark: Any, schema: Any) -> Any:
        """The results so far as a DataFrame: of the mode complete those of the last batch, of others all batches."""
        if self.mode == "update":
            schema = StructType([*schema.fields, StructField(BATCH, LongType())])
        if isinstance(self.sink, Memory):
            tables = list(self.kept.values())
            return spark.createDataFrame(pa.concat_tables(tables), schema) if tables else spark.createDataFrame([], schema)
        storage, folder = self._place
        names: Sequence[str] = self.files()
        names = names[-1:] if self.mode == "complete" else names
        if not names:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*(storage.url(f"{folder}{name}") for name in names))

    def _show(self, rows: pa.Table, batch: int, max_rows: int) -> None:
        table = Table(*(Column(Text(name)) for name in rows.schema.names))
        for row in islice((row for part in rows.to_batches(max_rows) for row in part.to_pylist()), max_rows):
            table.add_row(*(Text("NULL" if value is None else str(value)) for value in row.values()))
        count = rows.num_rows
        title = f"{self.name}, batch {batch} of its outer query: {count:,} {'row' if count == 1 else 'rows'}"
        more = f"{count - max_rows:,} more\n" if count > max_rows else ""
        Terminal(highlight=False, markup=False).print(title, *((table,) if count else ()), more, sep="\n")


def refuse_taken_folder(query: str, sink: Parquet, uri: str, owner: FolderOwner | None) -> None:
    """Raises unless the folder of a sink is free, or of `owner`; None for a query that has not begun."""
    folder, checkpoint = sink.url.rstrip("/"), uri.removesuffix("/clash")
    if any(f"{inner}/".startswith(f"{outer}/") for outer, inner in ((checkpoint, folder), (folder, checkpoint))):
        raise OptionError("a result folder and the checkpoint overlap", f"query {query}: {folder} and {checkpoint}", _ELSEWHERE)
    storage = open_storage(sink.url)
    found = read_owner(storage, "")
    if found is not None and found != owner:
        raise CheckpointError(
            "a result folder belongs to another query",
            f"query {query}, {folder}: it has results of query {found.query} of checkpoint {found.checkpoint}",
            f"{_ELSEWHERE}; a query that replaces another needs one, too",
        )


def sink_of(live: LiveQuery, sink: Sink | None, uri: str, identity: str) -> OuterSink:
    if live.request.outer is None:
        raise AssertionError(f"query {live.name} has no outer part")
    return OuterSink(live.name, live.folder or live.name, live.request.outer.mode, sink, uri, identity)
