"""Sinks as job files and requests write them: one key, which names the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clash import sinks
from clash.errors import OptionError
from clash.job import model

FUNCTIONS = ("foreach", "foreachbatch", "foreach_batch", "function", "python")
_HINT = "write one of parquet, kafka, postgres, console and memory, such as { parquet: ./out/paid }"


def build_sink(
    spec: model.Sink | str | None, resolve: Callable[[str], str], kafka: model.Kafka, postgres: model.Postgres | None
) -> sinks.Sink | None:
    """`resolve`: of a path, what it is relative to the folder that it counts from. `kafka`, `postgres`: for sinks that name no server."""
    if isinstance(spec, str):
        spec = model.Sink.model_validate({spec: {}})
    if spec is None:
        return None
    given = [name for name in type(spec).model_fields if getattr(spec, name) is not None]
    if len(given) != 1:
        what = "a sink has one kind" if given else "a sink without a kind"
        raise OptionError(what, ", ".join(given) or "(nothing)", _HINT)
    value = getattr(spec, given[0])
    if isinstance(value, str | model.ParquetSink):
        return _named(given[0], value, resolve, kafka, postgres)
    if isinstance(value, model.KafkaSink):
        return _kafka(value, kafka)
    if isinstance(value, model.PostgresSink):
        return _postgres(value, postgres)
    return sinks.Console(value.rows) if isinstance(value, model.ConsoleSink) else sinks.Memory()


def _named(
    kind: str, value: str | model.ParquetSink, resolve: Callable[[str], str], kafka: model.Kafka, postgres: model.Postgres | None
) -> sinks.Sink:
    if isinstance(value, model.ParquetSink) or kind == "parquet":
        return sinks.Parquet(resolve(value if isinstance(value, str) else value.path))
    if kind == "kafka":
        return _kafka(model.KafkaSink(topic=value), kafka)
    return _postgres(model.PostgresSink(table=value), postgres)


def _kafka(spec: model.KafkaSink, cluster: model.Kafka) -> sinks.Kafka:
    own = spec.servers is not None
    options = {**({} if own else _texts(cluster.options)), **_texts(spec.options)}
    return sinks.Kafka(
        spec.topic, servers=spec.servers or cluster.servers, key=spec.key, format=spec.format, headers=spec.headers,
        create=spec.create, wait=spec.wait, lost_marker=spec.lost_marker, options=options,
    )  # fmt: skip


def _postgres(spec: model.PostgresSink, database: model.Postgres | None) -> sinks.Postgres:
    dsn = spec.dsn or (None if database is None else database.dsn)
    if dsn is None:
        hint = "add a section `postgres: { dsn: … }` to the job, or `dsn` to the sink"
        raise OptionError("a PostgreSQL sink without a database", f"table {spec.table}", hint)
    options = {**({} if spec.dsn is not None or database is None else _texts(database.options)), **_texts(spec.options)}
    return sinks.Postgres(
        spec.table, dsn=dsn, create=spec.create, wait=spec.wait, lost_marker=spec.lost_marker, options=options
    )  # fmt: skip


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: option_text(value) for name, value in options.items()}


def option_text(value: model.Scalar) -> str:
    """As Spark and librdkafka read it.

    >>> option_text(True), option_text(5), option_text("x")
    ('true', '5', 'x')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def resolve_from(folder: Path) -> Callable[[str], str]:
    """Paths that count from a folder; URLs and absolute paths stay as they are."""

    def resolve(path: str) -> str:
        return path if ":/" in path or path.startswith("~") else str(folder / path)

    return resolve
