"""Batch DataFrames as reference tables: declared, read as a whole, and read again from time to time.

Invariant: a table is read by a job of its own, never in the thread of the batches, and only what a whole read gave becomes a version. A
read that fails leaves the last version in force, says so in the log and in `run.progress`, and is attempted again after the interval.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from clash.coordinator.coordinator import Coordinator
from clash.errors import ClashError, OptionError, SourceError
from clash.model.durations import parse_duration, show_duration
from clash.model.stream import Stream
from clash.spark.column_packing import quoted
from clash.spark.computed_columns import check_computed, quiet_analysis
from clash.spark.failures import cause_line

_LOG = logging.getLogger("clash")
_MIN_REFRESH = 1_000_000  # microseconds
_DESCRIPTION = "spark.job.description"
Frame = DataFrame | Callable[[], DataFrame]


@dataclass(frozen=True)
class DeclaredTable:
    table: Stream
    frame: Frame
    refresh: int | None
    """The interval between two reads, in microseconds; None where only calls read it again."""

    def current(self) -> DataFrame:
        """A DataFrame that reads what is there now: a plan that was executed once keeps the files that it has found."""
        frame = self.frame if isinstance(self.frame, DataFrame) else _called(self.table.name, self.frame)
        frame._jdf.queryExecution().analyzed().refresh()
        return frame.select("*")


def declare_table(name: str, df: Any, refresh: str | None) -> DeclaredTable:
    """Checks a batch DataFrame, or a function that returns one, and its options."""
    interval = None if refresh is None else parse_duration(refresh, f"the refresh interval of table {name}")
    if interval is not None and interval < _MIN_REFRESH:
        raise OptionError("the refresh interval is too short", f"table {name}: {show_duration(interval)}", 'write at least "1 second"')
    frame = df if isinstance(df, DataFrame) or not callable(df) else _called(name, df)
    if not isinstance(frame, DataFrame):
        hint = "write spark.read.….load(), spark.table(…), or a function that returns such a DataFrame"
        raise OptionError(f"table {name} is not a DataFrame", type(frame).__name__, hint)
    if frame.isStreaming:
        raise OptionError("the DataFrame is a stream", f"table {name}", f'declare it with engine.stream("{name}", df)')
    columns = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    names = [column.lower() for column, _ in columns]
    duplicate = next((column for at, column in enumerate(names) if column in names[:at]), None)
    if duplicate is not None:
        raise OptionError("two columns of one name", f"{duplicate} in table {name}", 'rename one with df.withColumnRenamed("old", "new")')
    return DeclaredTable(Stream.table(name, dict(columns)), df, interval)


def _called(name: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> SourceError:
    if isinstance(error, SourceError):
        return error
    hint = (
        "the driver collects a table as a whole: check that df.toArrow() works; a table of many millions of rows is better read as a stream"
    )
    return SourceError("a table cannot be read", f"table {name}: {cause_line(error)}", hint)


class TableReader:
    """Reads declared tables. `tables`: by name; more may be added while a run goes on."""

    def __init__(self, tables: Mapping[str, DeclaredTable]) -> None:
        self.tables = tables

    def __call__(self, table: Stream) -> pa.Table:
        declared = self.tables.get(table.name)
        if declared is None:
            hint = f'declare it as it was, with engine.table("{table.name}", df), also if no query reads it any more'
            raise SourceError("a table is not declared", f"table {table.name}", hint)
        try:
            frame = declared.current()
            check_computed(frame, table)
            columns = [F.col(quoted(name)) for name, _ in table.columns]
            columns += [F.expr(expression).alias(name) for name, _, expression in table.computed]
            return _collected(frame, columns, table.name)
        except ClashError:
            raise
        except Exception as error:
            raise _unreadable(table.name, error) from error


def _collected(frame: DataFrame, columns: list[Any], name: str) -> pa.Table:
    context: Any = frame.sparkSession.sparkContext
    described = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"clash: read table {name}")
    try:
        with quiet_analysis():
            return frame.select(*columns).toArrow()
    finally:
        context.setLocalProperty(_DESCRIPTION, described)


class TableRefresher:
    """Reads the tables of a run again when their intervals have passed, in a thread of its own, which begins with the first such table."""

    def __init__(self, coordinator: Coordinator, tables: Mapping[str, DeclaredTable]) -> None:
        self._coordinator, self._tables = coordinator, tables
        self._lock, self._changed, self._stopped = Lock(), Event(), False
        self._due = {name: monotonic() + table.refresh / 1e6 for name, table in tables.items() if table.refresh is not None}
        self._thread: Thread | None = None
        self._begin()

    def add(self, table: DeclaredTable) -> None:
        if table.refresh is not None:
            with self._lock:
                self._due[table.table.name] = monotonic() + table.refresh / 1e6
            self._begin()
            self._changed.set()

    def stop(self) -> None:
        """A read that is under way ends by itself, and is not offered: the coordinator is closed."""
        self._stopped = True
        self._changed.set()

    def _begin(self) -> None:
        if self._thread is None and self._due:
            self._thread = Thread(target=self._run, name="clash-tables", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            with self._lock:
                name, due = min(self._due.items(), key=lambda item: item[1])
            if due > monotonic():
                self._changed.wait(due - monotonic())
                self._changed.clear()
                continue
            self._refresh(name)
            with self._lock:
                self._due[name] = monotonic() + (self._tables[name].refresh or 0) / 1e6

    def _refresh(self, name: str) -> None:
        try:
            self._coordinator.refresh_table(name)
        except ClashError as error:
            _LOG.debug("table %s was not refreshed: %s", name, error)  # the coordinator has logged what failed
        except Exception as error:
            if not self._stopped:  # Spark may have been stopped with the program
                self._coordinator.tables.record_failure(name, _unreadable(name, error))


def table_progress(coordinator: Coordinator) -> dict[str, dict[str, Any]]:
    """By table: the version that the last decided batch joins, or that the next one will, its rows, how old they are in seconds, and why
    the last attempt to read it failed."""
    progress = {}
    for name, version in sorted(coordinator.tables.newest.items()):
        status = coordinator.tables.status(name)
        read_at = version.read_at if status is None else status.read_at
        progress[name] = {
            "version": version.number,
            "rows": version.rows,
            "bytes": version.bytes,
            "age": round(max(0.0, time() - read_at / 1e6), 3),
            "error": None if status is None else status.error,
        }
    return progress
