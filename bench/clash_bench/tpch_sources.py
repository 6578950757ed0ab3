"""The TPC-H streams as Spark reads them: each from a source of its own, or all from one source; and what Spark alone takes for either.

The floor is the trigger of a query over the same sources whose batch function does nothing, and whose plan reads nothing: Spark finds the
new files, logs offsets, plans and calls Python.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clash.errors import ClashError
from clash.model.stream import Stream
from clash_bench.tpch_data import FIRST_MTIME, ROW_GROUP, Data
from clash_bench.tpch_queries import TABLES

STREAM = "stream"  # the column of the one source that names the stream of a row
_PRUNE_EMPTY = "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"  # the engine sets it, too


def stream_frames(spark: Any, data: Data, streams: Sequence[Stream], one_source: Path | None) -> dict[str, Any]:
    """By stream, its DataFrame; each batch has one file of each source. `one_source`: the folder of the source of all streams, if any."""
    if one_source is None:
        return {stream.name: _files(spark, TABLES[stream.name], data.folder / stream.name) for stream in streams}
    columns = {STREAM: "string"} | {name: kind for stream in streams for name, kind in TABLES[stream.name].items()}
    rows = _files(spark, columns, one_source)
    return {stream.name: rows.where(rows[STREAM] == stream.name).select(*TABLES[stream.name]) for stream in streams}


def _files(spark: Any, columns: dict[str, str], folder: Path) -> Any:
    schema = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder.absolute()))


def write_one_source(data: Data, streams: Sequence[Stream], folder: Path) -> None:
    """One file per batch with the rows of all streams, their names in the column `stream`; columns of other streams are null."""
    folder.mkdir(parents=True)
    names = [stream.name for stream in streams]
    first = data.batch(0)
    empty = pa.schema([pa.field(STREAM, pa.string()), *(field for name in names for field in first[name].schema)]).empty_table()
    for number in range(data.batches):
        batch = {name: table for name, table in data.batch(number).items() if name in names}
        named = [table.append_column(STREAM, pa.array([name] * len(table))) for name, table in batch.items()]
        file = folder / f"{number:05d}.parquet"
        rows = pa.concat_tables([empty, *named], promote_options="default")
        pq.write_table(rows, file, store_decimal_as_integer=True, row_group_size=ROW_GROUP)
        os.utime(file, (FIRST_MTIME + number, FIRST_MTIME + number))


def run_floor(spark: Any, data: Data, streams: Sequence[Stream], one_source: Path | None) -> list[dict[str, int]]:
    """What Spark reports as `durationMs` of each batch of a query that does nothing."""
    branches = [frame.selectExpr("1 AS row").where("false") for frame in stream_frames(spark, data, streams, one_source).values()]

    def do_nothing(df: Any, batch: int) -> None:
        if batch == 0:  # the session is one that Spark clones for this query
            df.sparkSession.conf.set(_PRUNE_EMPTY, "true")

    with TemporaryDirectory(prefix="clash-floor-", ignore_cleanup_errors=True) as folder:
        rows = reduce(lambda left, right: left.unionAll(right), branches)
        query = rows.writeStream.foreachBatch(do_nothing).option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination()
        reports = [dict(report["durationMs"]) for report in query.recentProgress]
    batches = [report for report in reports if "addBatch" in report]
    expected = data.batches if one_source is not None else max(len(data.files(stream.name)) for stream in streams)
    if len(batches) != expected:
        raise ClashError("not all batches were run", f"{len(batches)} of {expected} without work of ours", "run the benchmark again")
    return batches
