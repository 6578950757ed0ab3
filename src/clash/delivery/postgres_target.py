"""A database of PostgreSQL as a target: one connection, whose transactions hold the results of a batch and its number.

The number is in the table `clash_batches`, which is created in the database's first schema, in a row for the checkpoint, together with a
token. `open` writes a new token and ends connections of earlier sessions; a transaction begins with an update of the row that has its
token, so a session without the token writes nothing, and two sessions wait for each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

from clash.delivery.postgres_rows import column_type, copy_text
from clash.delivery.target import Destination, FencedError, Output, RefusedError, UnavailableError, refuse_missing
from clash.errors import OptionError, SinkError
from clash.hints import listed
from clash.sinks import Postgres
from clash.state.failpoints import reach

_MARKERS = "clash_batches"
_TIMEOUT = 10.0  # seconds of one call, except for copying; `Deliveries` repeats it
_PASSING = ("08", "40", "53", "55", "57")  # classes of errors: connection, rollback, resources, locks, operator


class PostgresTarget:
    def __init__(self, sink: Postgres, checkpoint: str, stopping: Event) -> None:
        self.stopping = stopping
        self.name = sink.system
        self.identity: str | None = None
        self.marker_place = f"row {checkpoint} of table {_MARKERS}"
        self._checkpoint = checkpoint
        self._access = dict(sink.access)
        self._timeout = min(_TIMEOUT, max(1.0, sink.wait_seconds))
        self._connection: Any = None
        self._token = ""

    # ---- tables ------------------------------------------------------------------------------------------------

    def prepare(self, destinations: Sequence[Destination[Postgres]]) -> None:
        with self._explained(), self._connected() as connection, connection.transaction():
            row = connection.execute("SELECT (pg_control_system()).system_identifier || '/' || current_database()").fetchone()
            self.identity = str(row[0])
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_MARKERS} (checkpoint text PRIMARY KEY, batch bigint, session text, token text NOT NULL)"
            )
            for destination in destinations:
                self._check_table(connection, destination)

    def _check_table(self, connection: Any, destination: Destination[Postgres]) -> None:
        table, columns = destination.sink.table, destination.columns
        found = connection.execute("SELECT to_regclass(%s)::oid", (_quoted(table),)).fetchone()[0]
        if found is None and not destination.sink.create:
            hint = "create it, or write create=True in clash.sinks.Postgres to have it created"
            raise SinkError("a table does not exist", f"{table}, {self.name}", hint)
        if found is None:
            declared = ", ".join(f"{_identifier(field.name)} {column_type(field.type)}" for field in columns)
            connection.execute(f"CREATE TABLE {_quoted(table)} ({declared})")
            return
        names = connection.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped", (found,))
        there = {name for (name,) in names.fetchall()}
        missing = [name for name in columns.names if name not in there]
        if missing:
            raise OptionError(
                "a table has no columns for results",
                f"{listed(missing)} of query {destination.query} in {table}",
                f"add them to the table, or rename them in the query: the table has {listed(sorted(there))}",
            )

    # ---- the marker --------------------------------------------------------------------------------------------

    def owner(self) -> str | None:
        with self._explained(), self._connected() as connection:
            found = connection.execute(f"SELECT session FROM {_MARKERS} WHERE checkpoint = %s", (self._checkpoint,)).fetchone()
        return None if found is None else found[0]

    def open(self) -> int | None:
        self.close()
        self._token = secrets.token_hex(8)
        with self._explained():
            self._connection = self._connect()
            ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()"
            self._connection.execute(ending, (self._application,))
            taking = (
                f"INSERT INTO {_MARKERS} (checkpoint, token) VALUES (%s, %s) ON CONFLICT (checkpoint) DO UPDATE SET token = EXCLUDED.token"
            )
            row = self._connection.execute(f"{taking} RETURNING batch", (self._checkpoint, self._token)).fetchone()
        return None if row[0] is None else int(row[0])

    # ---- a transaction -----------------------------------------------------------------------------------------

    def write(self, batch: int, outputs: Sequence[Output[Postgres]], session: str) -> None:
        with self._explained(), self._connection.transaction():
            mine = "WHERE checkpoint = %s AND token = %s"
            values = (batch, session, self._checkpoint, self._token)
            if self._connection.execute(f"UPDATE {_MARKERS} SET batch = %s, session = %s {mine}", values).rowcount != 1:
                raise FencedError("another session has taken the table's row")
            for output in outputs:
                self._copy(batch, output)
            if outputs:
                reach("in-transaction")

    def _copy(self, batch: int, output: Output[Postgres]) -> None:
        written, names = 0, ", ".join(map(_identifier, output.columns.names))
        statement = f"COPY {_quoted(output.sink.table)} ({names}) FROM STDIN (FORMAT csv)"
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for rows in output.read():
                copy.write(memoryview(copy_text(rows.select(output.columns.names))))
                written += len(rows)
        refuse_missing(output.query, batch, written, output.rows)

    def close(self) -> None:
        """What is open is rolled back."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    # ---- connections -------------------------------------------------------------------------------------------

    @property
    def _application(self) -> str:
        return f"clash-{self._checkpoint}"

    def _connect(self, application: str | None = None) -> Any:
        import psycopg

        limits = {"connect_timeout": max(2, round(self._timeout)), "application_name": application or self._application}
        connection = psycopg.connect(**{**self._access, **limits}, autocommit=True)
        connection.execute(f"SET lock_timeout = '{round(self._timeout * 1000)}ms'")
        return connection

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection beside the one that writes."""
        connection = self._connect("clash-start")
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the client as those that `Deliveries` knows."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate
            text = " ".join(str(error.diag.message_primary or error).split())
            if state is None or state.startswith(_PASSING):
                raise UnavailableError(text) from error
            raise RefusedError(text, "correct the table, the rights or the query") from error


def _quoted(table: str) -> str:
    return ".".join(_identifier(part) for part in table.split("."))


def _identifier(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
