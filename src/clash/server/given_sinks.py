"""Sinks that requests bring: who has the token may write results, not read files, load libraries or reach other machines in the run's name.

A job file is a program of its owner's and says what it likes; a request is not. Unless the server was started so that it takes any sink,
a request names a folder below that of the job, or a topic or table of the cluster or database that the job file has, with few options.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from clash.job import model
from clash.server.connection import local_folder
from clash.server.problems import ProblemError

# Of librdkafka: none that names a file, a library, a command or another server.
KAFKA_OPTIONS = (
    "batch.num.messages", "batch.size", "client.id", "compression.codec", "compression.level", "compression.type", "linger.ms",
    "message.max.bytes", "queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms",
)  # fmt: skip
# Of libpq: the same.
POSTGRES_OPTIONS = (
    "connect_timeout", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "tcp_user_timeout",
)  # fmt: skip
_HINT = "write it into the job file, or start the run with --ui-any-sink"


def check_given_sink(sink: model.Sink | None, folder: Path, checkpoint: str | None) -> None:
    """Raises for a sink that a request may not name. `folder`: that of the job."""
    if sink is None:
        return
    if sink.parquet is not None:
        _check_folder(sink.parquet if isinstance(sink.parquet, str) else sink.parquet.path, folder, checkpoint)
    if isinstance(sink.kafka, model.KafkaSink):
        _refuse("kafka.servers", sink.kafka.servers)
        _check_options("kafka", sink.kafka.options, KAFKA_OPTIONS)
    if isinstance(sink.postgres, model.PostgresSink):
        _refuse("postgres.dsn", sink.postgres.dsn)
        _check_options("postgres", sink.postgres.options, POSTGRES_OPTIONS)


def _refuse(key: str, value: str | None) -> None:
    if value is not None:
        raise ProblemError(422, "a request cannot say where another server is", f"sink.{key}", _HINT)


def _check_options(kind: str, options: Iterable[str], allowed: tuple[str, ...]) -> None:
    other = next((name for name in options if name not in allowed), None)
    if other is not None:
        detail = f"sink.{kind}.options: {other}; those are {', '.join(allowed)}"
        raise ProblemError(422, "a request can set few options of a sink", detail, _HINT)


def _check_folder(path: str, folder: Path, checkpoint: str | None) -> None:
    """Below the folder also where a part of it is a link; and neither the folder itself nor in the checkpoint."""
    detail, inside = f"sink.parquet: {path}", folder.resolve()
    if "\0" in path or ":/" in path or path.startswith("~") or Path(path).is_absolute():
        raise ProblemError(422, "a request can name folders below that of the job alone", detail, f"write a relative path; or {_HINT}")
    place = (inside / path).resolve()
    if place == inside or not place.is_relative_to(inside):
        raise ProblemError(422, "a request can name folders below that of the job alone", detail, f"write a path without ..; or {_HINT}")
    state = None if checkpoint is None else local_folder(checkpoint)
    if state is not None and (place.is_relative_to(state.resolve()) or state.resolve().is_relative_to(place)):
        raise ProblemError(422, "results cannot be written into the checkpoint", detail, "write another folder, such as out/NAME")
