"""Starts the Spark query of a run: as often as it takes, over the streams and columns that are needed by then.

Invariant: every stream of the reading order is a branch of the union, in that order; Spark's own half of the checkpoint is told of those
that are new to it before the query starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from clash.spark.parquet_streams import Stored, plain
from clash.spark.column_packing import Places, arrange, pack
from clash.spark.offset_log import count_sources, fit
from clash.state.failpoints import reach
from clash.state.storage import open_storage
from clash.workers.program import Program


class Launcher:
    """`frames`: the streaming DataFrames by name. `every`: milliseconds between two batches, as Spark spells it."""

    def __init__(self, checkpoint: str, frames: Mapping[str, Any], available_now: bool, every: str | None) -> None:
        self.folder, self.frames = f"{checkpoint}/spark", dict(frames)
        self._available_now, self._every = available_now, every
        self.stored: dict[str, Stored] | None = None  # where all streams are plain files: Spark is to read none of them
        self._sources = len(frames)  # that Spark reads, of the reading order; a stream that comes later waits for a query

    def pack(self, reading: Sequence[str], wanted: Collection[str], program: Program) -> tuple[Any, Places]:
        """One DataFrame of all streams with what the program needs of them, and where it is there. `wanted`: the streams that are needed
        by then, also by what waits for a border: the batch that starts it is to be one that reads them."""
        needed = {*wanted, *program.streams}
        self._sources = max([self._sources, *(at + 1 for at, name in enumerate(reading) if name in needed)])
        self._read = frozenset(reading[: self._sources])
        kinds = {name: {field.name: field.dataType.simpleString() for field in self.frames[name].schema.fields} for name in self._read}
        places = arrange({name: [(c, kinds[name][c]) for c in program.ingest_columns(name)] for name in reading[: self._sources]})
        self.stored = plain({name: self.frames[name] for name, _ in places})
        return pack(self.frames, places, frozenset(program.streams) if self.stored is None else frozenset()), places

    def reads(self, streams: Collection[str]) -> bool:
        """Are these among the sources of the Spark query?"""
        return self._read.issuperset(streams)

    def start(self, packed: Any, batch: Callable[[Any, int], None]) -> Any:
        """The Spark query over it. A batch may begin before this returns."""
        reach("before-sources")
        fit(open_storage(self.folder), count_sources(packed))
        writer = packed.writeStream.foreachBatch(batch).option("checkpointLocation", self.folder)
        if self._available_now:
            writer = writer.trigger(availableNow=True)
        elif self._every is not None:
            writer = writer.trigger(processingTime=self._every)
        return writer.start()


def delivers(places: Places, program: Program) -> bool:
    """Does the packed DataFrame have all that a program needs? A stream that nobody reads has places for nothing."""
    there = {stream: {column for column, _ in columns} for stream, columns in places}
    return all(there.get(stream, set()) >= {*program.ingest_columns(stream)} for stream in program.streams)
