"""Sinks: where the results of a query go.

`Parquet` is exactly once: files become visible with the commit of their batch. So are `Kafka`, for readers of committed messages, and
`Postgres`: the number of a batch is in the same transaction as its results. `Memory` holds results in this process. `Console` and
`ForeachBatch` call a function at least once per batch: after a crash they may receive a batch again, with the same number and rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from clash.errors import OptionError
from clash.model.durations import parse_timeout
from clash.model.topic_name import check_topic_name

LostMarker = Literal["fail", "skip", "repeat"]
Record = tuple[tuple[str, str], ...]
_KAFKA_HINT = 'write clash.sinks.Kafka("paid", servers="host:9092", key="order_id")'
_OWN_KAFKA_OPTIONS = ("bootstrap.servers", "transactional.id", "enable.idempotence", "group.id", "isolation.level", "error_cb", "logger")


@dataclass(frozen=True)
class Parquet:
    """Parquet files in a folder. A relative path is resolved against the working directory of the program."""

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not isinstance(os.fspath(self.path), str) or not str(self.path).strip():
            raise OptionError("the path of a Parquet sink is not a path", repr(self.path), 'write clash.sinks.Parquet("out/q1")')
        path = os.fspath(self.path)
        if any(character < " " or character == "\x7f" for character in path):
            raise OptionError("the path of a Parquet sink has control characters", repr(path), 'write clash.sinks.Parquet("out/q1")')
        name = self.url.rstrip("/").rpartition("/")[2]
        if name.startswith(("_", ".")) and name != "..":
            raise OptionError(
                "readers leave out the folder of a Parquet sink",
                f"{path!r}: names that begin with _ or . are hidden",
                "give it another name, such as out/q1",
            )

    @property
    def url(self) -> str:
        """The absolute path or URL: tasks may run in another working directory, or on another machine."""
        path = os.fspath(self.path)
        return path if ":/" in path else str(Path(path).expanduser().absolute())


@dataclass(frozen=True)
class Memory:
    """Results stay in the memory of this process, for `run.results`, and are lost when it ends."""


@dataclass(frozen=True)
class Console:
    """Prints the first `rows` results of each batch to standard output."""

    rows: int = 20

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise OptionError("the number of rows is out of range", repr(self.rows), "write a whole number from 1")


@dataclass(frozen=True)
class ForeachBatch:
    """Calls `function(df, batch)` for every batch, with a DataFrame of its results, which may be empty, and its number."""

    function: Callable[[Any, int], object]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionError("the sink's function is not a function", repr(self.function), "write a function of (df, batch)")


@dataclass(frozen=True, kw_only=True)
class Kafka:
    """A Kafka topic. All results of a batch for one cluster become visible in one transaction, once, to readers with
    `isolation.level=read_committed`.

    `key`: a column whose text is the key of messages. `headers`: messages say their query and their batch. `create`: so many partitions
    has a topic that does not exist; without it that is an error. `wait`: so long, seconds or a duration, the cluster may fail to answer
    before the run fails. `lost_marker`: what to do with the last batch if the cluster has lost its number. `options`: of the client, as for
    security; they are neither recorded nor shown.
    """

    topic: str = field(kw_only=False)
    servers: str
    key: str | None = None
    format: Literal["json", "avro"] = "json"
    headers: bool = False
    create: int | None = None
    wait: float | str = "2 minutes"
    lost_marker: LostMarker = "fail"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        check_topic_name(self.topic)
        if not isinstance(self.servers, str) or not all(re.fullmatch(r"\S+:\d+", server) for server in self._servers):
            raise OptionError("not the addresses of Kafka servers", repr(self.servers), 'write servers="host:9092", or "a:9092,b:9092"')
        if self.key is not None and (not isinstance(self.key, str) or not self.key):
            raise OptionError("the key is not a column", repr(self.key), _KAFKA_HINT)
        if self.format not in ("json", "avro"):
            raise OptionError("not a format of messages", repr(self.format), 'write format="json" or format="avro"')
        if not isinstance(self.headers, bool):
            raise OptionError("headers is neither True nor False", repr(self.headers), "write headers=True")
        if self.create is not None and (isinstance(self.create, bool) or not isinstance(self.create, int) or self.create < 1):
            raise OptionError("the number of partitions is out of range", repr(self.create), "write create=3, or leave it out")
        check_waiting(self.wait, self.lost_marker)
        check_options(self.options, _OWN_KAFKA_OPTIONS)
        if find_spec("confluent_kafka") is None:
            hint = "pip install clash-on-spark[kafka]"
            raise OptionError("the client for Kafka is not installed", "the package confluent-kafka", hint)

    @property
    def _servers(self) -> list[str]:
        return [server.strip() for server in self.servers.split(",")]

    @property
    def system(self) -> str:
        """The cluster: sinks that agree in it share a transaction."""
        return f"Kafka {','.join(sorted(self._servers))}"

    @property
    def wait_seconds(self) -> float:
        return parse_timeout(self.wait, "wait") or 0.0

    @property
    def record(self) -> Record:
        """What the checkpoint remembers: nothing that may be secret."""
        flags = {"headers": self.headers, "options": bool(self.options)}
        return (
            ("servers", ",".join(self._servers)),
            ("topic", self.topic),
            *((("key", self.key),) if self.key is not None else ()),
            ("format", self.format),
            *((name, "true") for name, flag in flags.items() if flag),
        )

    @property
    def access(self) -> Mapping[str, Any]:
        """What all sinks of a cluster have to agree in."""
        return self.options

    @staticmethod
    def restore(record: Record) -> Kafka:
        """The sink of a record, without options."""
        known = dict(record)
        kind: Any = known["format"]
        return Kafka(known["topic"], servers=known["servers"], key=known.get("key"), format=kind, headers="headers" in known)

    def with_access_of(self, other: Any) -> Kafka:
        """This sink with the options of another of the same cluster."""
        return replace(self, options=other.options, wait=other.wait, lost_marker=other.lost_marker)


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A table of PostgreSQL. All results of a batch for one database become visible in one transaction, once.

    `dsn`: as of libpq, such as "host=db dbname=shop user=clash"; `options`: more of it, as a password. Only host, port, database and user
    are recorded or shown. `create`: whether a table that does not exist is created; without it that is an error. `wait`, `lost_marker`: as
    for Kafka.
    """

    table: str = field(kw_only=False)
    dsn: str = field(repr=False)
    create: bool = False
    wait: float | str = "2 minutes"
    lost_marker: LostMarker = "fail"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.table, str) or not all(part.strip() for part in self.table.split(".")) or self.table.count(".") > 1:
            raise OptionError("not the name of a table", repr(self.table), 'write clash.sinks.Postgres("shop.paid", dsn="…")')
        if not isinstance(self.create, bool):
            raise OptionError("create is neither True nor False", repr(self.create), "write create=True")
        check_waiting(self.wait, self.lost_marker)
        check_options(self.options, ("application_name",))
        if find_spec("psycopg") is None:
            raise OptionError("the client for PostgreSQL is not installed", "the package psycopg", "pip install clash-on-spark[postgres]")
        _ = self.access

    @property
    def access(self) -> Mapping[str, Any]:
        """Everything that a connection needs, in one form."""
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        try:
            whole = make_conninfo(self.dsn, **self.options)  # which checks the names
            return {name: str(value) for name, value in conninfo_to_dict(whole).items() if value is not None}
        except (ProgrammingError, TypeError):  # its message may repeat a password
            hint = 'write dsn="host=db dbname=shop user=clash", or "postgresql://clash@db/shop"'
            raise OptionError("not a connection to PostgreSQL", "dsn or options cannot be read", hint) from None

    @property
    def _place(self) -> dict[str, str]:
        """Where the database is, without anything secret."""
        return {name: self.access[name] for name in ("host", "port", "dbname", "user") if name in self.access}

    @property
    def system(self) -> str:
        """The database: sinks that agree in it share a transaction."""
        return " ".join(["PostgreSQL", *(f"{name}={value}" for name, value in self._place.items())])

    @property
    def wait_seconds(self) -> float:
        return parse_timeout(self.wait, "wait") or 0.0

    @property
    def record(self) -> Record:
        """What the checkpoint remembers: nothing that may be secret."""
        return (*self._place.items(), ("table", self.table), *((("options", "true"),) if self.access.keys() - self._place.keys() else ()))

    @staticmethod
    def restore(record: Record) -> Postgres:
        """The sink of a record, without options."""
        known = dict(record)
        return Postgres(known.pop("table"), dsn="", options={name: value for name, value in known.items() if name != "options"})

    def with_access_of(self, other: Any) -> Postgres:
        """This sink with the connection of another of the same database."""
        return replace(self, dsn=other.dsn, options=other.options, wait=other.wait, lost_marker=other.lost_marker)


def check_waiting(wait: object, lost_marker: object) -> None:
    if wait is None or parse_timeout(wait, "wait") is None:  # type: ignore[arg-type]
        raise OptionError("wait is not a duration", repr(wait), 'write wait="2 minutes"')
    if lost_marker not in get_args(LostMarker):
        raise OptionError("not a way to treat a lost marker", repr(lost_marker), 'write lost_marker="fail", "skip" or "repeat"')


def check_options(options: object, own: Iterable[str]) -> None:
    """Names are shown, values never: they may be secret."""
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise OptionError("options are not a table", type(options).__name__, 'write options={"sasl.username": "…"}')
    taken = next((name for name in own if name in options), None)
    if taken is not None:
        raise OptionError("the sink sets this option itself", taken, "leave it out")


Sink = Parquet | Memory | Console | ForeachBatch | Kafka | Postgres
