"""The reference tables of a run: their newest versions, which the next batch that is decided joins.

Invariant: a version counts from the first batch whose decision lists it; until then it is only offered, and a crash loses it. Its files are
on disk before it is offered. No file is deleted that the last manifest, the decision of the batch in work or an offered version lists.
The newest version has all columns that queries need: what Spark computes for a query is read before the query is requested, and one read is
offered after the other. A refresh may come from any thread; it never waits for a batch, nor a batch for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from threading import Condition, Lock
from typing import NamedTuple

import pyarrow as pa

from clash.coordinator.control.changes import Change
from clash.coordinator.table_files import TableRead, columns_of, read_rows, write_version
from clash.errors import CheckpointError, ClashError, UnknownNameError
from clash.hints import did_you_mean, listed
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.protocol.tables import FOLDER, TableVersion, paths_of
from clash.state.failpoints import reach
from clash.state.storage import Storage

_LOG = logging.getLogger("clash")
ReadTable = Callable[[Stream], pa.Table]
"""Reads all rows of a table, with its columns and with those that are computed."""


class TableStatus(NamedTuple):
    read_at: int
    """When the table was last read with success, in microseconds."""
    error: str | None = None
    """Why a later attempt failed."""


class _Offered(NamedTuple):
    """A refresh that waits for a batch."""

    change: Change
    table: str
    number: int
    """Of the version, which may be one that is in effect already: then nothing had changed."""


class Tables:
    """`recorded`: the versions to go on with, those of the batch that was decided last; `declared`: the names of the tables that there are
    now; `on_disk`: the versions that records on disk list."""

    def __init__(
        self,
        storage: Storage,
        read: ReadTable,
        recorded: Mapping[str, TableVersion],
        declared: Iterable[str],
        on_disk: Iterable[Mapping[str, TableVersion]],
    ) -> None:
        self._storage, self._read = storage, read
        self._settled = Condition()  # held briefly: decisions take it
        self._refreshing = Lock()  # held while a table is read: one refresh after the other
        self._newest = {name: recorded[name] for name in declared if name in recorded}
        self._files = {path for versions in on_disk for path in paths_of(versions)}  # all that are there, as far as this process knows
        self._status = {name: TableStatus(version.read_at) for name, version in self._newest.items()}
        self._computed: dict[str, tuple[tuple[str, str, str], ...]] = {}  # by table, all columns that were needed since the start
        self._waiting: list[_Offered] = []
        self._closed: ClashError | None = None

    # ---- versions ----------------------------------------------------------------------------------------------

    @property
    def newest(self) -> dict[str, TableVersion]:
        """By table, the version that a batch decided now would join."""
        with self._settled:
            return dict(self._newest)

    def refresh(self, table: Stream) -> Change:
        """Reads the table, and offers its rows as the next version if they differ; in effect with the next batch that is decided. If it
        fails, the last version stays."""
        with self._refreshing:
            return self._refresh(table)

    def require(self, tables: Iterable[Stream]) -> None:
        """Before a query is requested: its tables have the columns that are computed for it."""
        for table in tables:
            with self._refreshing:
                version = self.newest.get(table.name)
                if version is None or not set(columns_of(table)) <= set(version.columns):
                    self._refresh(table)

    def offer(self, read: TableRead) -> Change:
        """What a start has read."""
        with self._refreshing:
            self._with_all_computed(read.table)
            return self._offer(read)

    def _refresh(self, table: Stream) -> Change:
        wanted = self._with_all_computed(table)
        try:
            return self._offer(TableRead.of(wanted, self._read(wanted)))
        except ClashError as error:
            self.record_failure(table.name, error)
            raise

    def _with_all_computed(self, table: Stream) -> Stream:
        """Under the lock. Columns that no query needs any more are left out by the next start."""
        self._computed[table.name] = tuple(dict.fromkeys((*self._computed.get(table.name, ()), *table.computed)))
        return replace(table, computed=self._computed[table.name])

    def _offer(self, read: TableRead) -> Change:
        name, now = read.table.name, time.time_ns() // 1_000
        before = self.newest.get(name)
        if before is not None and before.rows and not read.rows.num_rows:  # files that are gone read as none
            _LOG.warning("table %s has no rows any more: nothing that comes now joins it", name)
        version = write_version(self._storage, read, before, now)
        reach("after-table-files")
        change = Change(f"refresh {name}", (), self._settled)
        with self._settled:
            if self._closed is not None:
                raise self._closed  # the next start deletes the files
            self._newest[name] = version
            self._files |= set(version.paths())
            self._status[name] = TableStatus(now)
            self._waiting.append(_Offered(change, name, version.number))
        return change

    def record_failure(self, name: str, error: ClashError) -> None:
        """The last version stays, which the log and the status say. Reads that a run has left behind may fail in silence."""
        with self._settled:
            if self._closed is not None:
                return
            _LOG.error("table %s could not be read, and keeps the rows that it has: %s", name, error)
            if name in self._status:
                self._status[name] = self._status[name]._replace(error=f"{error.what}: {error.detail}")

    def settle(self, decided: Mapping[str, TableVersion], batch: int) -> None:
        """The batch is recorded, under these versions."""
        with self._settled:
            in_effect = [offer for offer in self._waiting if offer.table in decided and decided[offer.table].number >= offer.number]
            for offer in in_effect:
                offer.change._batch = batch
                self._waiting.remove(offer)
            self._settled.notify_all()

    def close(self, error: ClashError | None) -> None:
        """No batch comes any more."""
        with self._settled:
            self._closed = error or ClashError("the run has ended", "the table has not been refreshed", "start the run again")
            for offer in self._waiting:
                offer.change._error = self._closed
            self._settled.notify_all()

    # ---- files -------------------------------------------------------------------------------------------------

    def obsolete(self, live: Mapping[str, TableVersion]) -> list[str]:
        """The files that a committed batch made obsolete. `live`: the versions of its manifest."""
        with self._settled:
            obsolete = self._files - paths_of(live) - paths_of(self._newest)
            self._files -= obsolete
        return sorted(obsolete)

    def leftovers(self) -> list[str]:
        """What killed refreshes have left, found by listing the folder, before the first refresh."""
        return [path for name in self._storage.list(FOLDER, recursive=True) if (path := f"{FOLDER}/{name}") not in self._files]

    def rows(self, version: TableVersion) -> pa.Table | None:
        """The rows of a version, under the names that blocks have; None if it has none."""
        return read_rows(self._storage, version.files)

    # ---- reading -----------------------------------------------------------------------------------------------

    def status(self, name: str) -> TableStatus | None:
        with self._settled:
            return self._status.get(name)


class InitialReads:
    """What a start reads of tables, before anything on disk changes. A table that cannot be read keeps the rows of its last version, if
    it has one with the same columns."""

    def __init__(self, read: ReadTable, tables: Iterable[Stream]) -> None:
        self._read = read
        self.reads: dict[str, TableRead] = {}
        self.failures: dict[str, ClashError] = {}
        for table in tables:
            self._attempt(table)

    def _attempt(self, table: Stream) -> None:
        try:
            self.reads[table.name] = TableRead.of(table, self._read(table))
        except ClashError as error:
            self.reads.pop(table.name, None)
            self.failures[table.name] = error

    def complete(self, tables: Iterable[Stream], recorded: Mapping[str, TableVersion], uri: str) -> None:
        """`tables`: with all columns that the queries of the checkpoint need. Raises where a table has no rows to begin with."""
        for table in tables:
            name, version = table.name, recorded.get(table.name)
            if name in self.reads and not set(table.computed) <= set(self.reads[name].table.computed):
                self._attempt(table)
            if name in self.reads:
                continue
            if version is None:
                raise self.failures[name]
            if not set(columns_of(table)) <= set(version.columns):
                detail = f"table {name}: it cannot be read ({self.failures[name].what}), and its last version in {uri} has other columns"
                raise CheckpointError("a table has other columns than its last version", detail, "start again when it can be read")


def table_named(tables: Iterable[Stream], name: str) -> Stream:
    """UnknownNameError if there is no such table."""
    by_name = {table.name: table for table in tables}
    if not isinstance(name, str) or name not in by_name:
        hint = f"tables are {listed(by_name)}" if by_name else 'declare one with engine.table("name", df)'
        raise UnknownNameError("unknown table", repr(name), did_you_mean(str(name), by_name, hint))
    return by_name[name]


def with_table_sizes(statistics: Statistics | None, versions: Mapping[str, TableVersion | TableRead]) -> Statistics | None:
    """The statistics with what is known of tables: their sizes, and how many different values their columns have."""
    if not versions:
        return statistics
    given = statistics or Statistics()
    sizes = {name: float(v.rows if isinstance(v, TableVersion) else v.rows.num_rows) for name, v in versions.items()}
    distinct = {f"{name}.{column}": float(n) for name, version in versions.items() for column, n in version.distinct.items()}
    return replace(given, rates={**given.rates, **sizes}, distinct={**given.distinct, **distinct})
