"""Streams and queries as a user declares them, before and during a run: checked, and converted to what the coordinator takes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import pyarrow as pa
from pyspark.sql import DataFrame

from clash.coordinator.control.job import QueryRequest, SinkSpec
from clash.coordinator.inspection import result_schema
from clash.delivery.avro_rows import avro_schema
from clash.errors import OptionError
from clash.hints import did_you_mean, listed
from clash.model.query import Query
from clash.model.stream import Keep, Stream, check_name
from clash.sinks import Console, ForeachBatch, Kafka, Memory, Parquet, Postgres, Sink
from clash.spark.kafka_source import KafkaStream
from clash.sql.query_source import read_source

_LOG = logging.getLogger("clash")
_WATERMARK = "spark.watermarkDelayMs"  # in the metadata of a column that has a watermark of Spark's
_STATEFUL = ("Aggregate", "Distinct", "Deduplicate", "FlatMapGroups", "TransformWithState", "GlobalLimit", "Offset", "Sort", "Window")


def declare_stream(name: str, df: Any, time: str | None, window: str | None, lateness: str | None, idle: str | None, keep: Keep) -> Stream:
    """Checks a streaming DataFrame, or a topic of Kafka, and its options, and describes it as a stream."""
    if isinstance(df, KafkaStream):
        return _described(name, list(df.columns.items()), time, window, lateness, idle, keep)
    if not isinstance(df, DataFrame):
        raise OptionError(f"stream {name} is not a DataFrame", type(df).__name__, "write spark.readStream.….load()")
    if not df.isStreaming:
        hint = f'read it with spark.readStream, or declare it as a table that streams are joined with: engine.table("{name}", df)'
        raise OptionError("the DataFrame is not a stream", f"stream {name}", hint)
    stateful = _stateful_operator(df._jdf.queryExecution().analyzed())
    if stateful is not None:
        raise OptionError(
            "a stream with operators that keep state",
            f"stream {name} has {stateful}",
            "apply it after the joins, on run.result_stream, or in a Spark query of its own that writes files",
        )
    columns = [(field.name, field.dataType.simpleString()) for field in df.schema.fields]
    names = [column.lower() for column, _ in columns]
    duplicate = next((column for at, column in enumerate(names) if column in names[:at]), None)
    if duplicate is not None:
        raise OptionError("two columns of one name", f"{duplicate} in stream {name}", 'rename one with df.withColumnRenamed("old", "new")')
    return _described(name, columns, time, window, lateness, idle, keep)


def _described(
    name: str,
    columns: list[tuple[str, str]],
    time: str | None,
    window: str | None,
    lateness: str | None,
    idle: str | None,
    keep: Keep,
) -> Stream:
    stream = Stream.of(name, dict(columns), time=time, window=window, lateness=lateness, idle=idle, keep=keep)
    if idle is not None and lateness is None:
        raise OptionError("idle needs lateness", f"stream {name}", 'write lateness="0 seconds" if rows come in order')
    return stream


def _stateful_operator(plan: Any) -> str | None:
    """The name of the topmost operator that Spark keeps state for, or cannot run on a stream.

    Spark finds an operator's state by its position in the plan, which changes with the streams that are read. Operators on static tables
    that a stream is joined with have no state.
    """
    if not plan.isStreaming():
        return None
    name, children = str(plan.nodeName()), plan.children()
    inputs = [children.apply(at) for at in range(children.size())]
    if name.startswith(_STATEFUL):
        return name
    if name == "Join" and all(child.isStreaming() for child in inputs):
        return "Join of two streams"
    return next((operator for operator in map(_stateful_operator, inputs) if operator is not None), None)


def warn_about_stream(stream: Stream, df: Any) -> None:
    """Logs what a user may not expect of a stream; called once, when it is declared."""
    if stream.lateness is None and stream.window is not None:
        _LOG.warning('stream %s has no lateness: nothing is late, and its state never expires; write lateness="…"', stream.name)
    if isinstance(df, KafkaStream):
        return
    if any(_WATERMARK in (field.metadata or {}) for field in df.schema.fields):
        _LOG.warning("stream %s has a watermark of Spark's, which is ignored: joins use lateness= instead", stream.name)
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    if any(leaves.apply(at).toString() == "socket" for at in range(leaves.size())):
        _LOG.warning("stream %s reads a socket, which cannot replay: a crash loses rows, so results are not exactly once", stream.name)


def warn_about_query(query: Query, streams: Mapping[str, Stream]) -> None:
    """Logs what a user may not expect of a query; called once, when it is declared."""
    windows = {pair for branch in query.windows for pair in branch}
    relations = {relation for branch in query.branches for relation in branch.streams}
    timed = {relation.stream for relation in relations if streams[relation.stream].time is not None}
    untimed = {relation.stream for relation in relations} - timed
    if timed and untimed and any(window is not None for _, window in windows):
        _LOG.warning(
            "query %s joins %s by event time with %s, whose rows have the time of their batch: rows that are older than the window when "
            'they are read find nothing; declare time="…" for all of them, or for none',
            query.name, listed(sorted(timed)), listed(sorted(untimed)),
        )  # fmt: skip


def declare_query(name: str, text: str, sink: Sink | None, windows: Mapping[str, str] | None) -> QueryRequest:
    """Checks the arguments of a query, which is not parsed yet. The windows are sorted, so that equal queries are equal requests."""
    check_name("query", name)
    read_source(name, text)
    if windows is not None and not isinstance(windows, Mapping):
        raise OptionError("windows are not a table", repr(windows), 'write windows={"R": "5 seconds"}')
    for relation, window in (windows or {}).items():
        if not isinstance(relation, str) or not isinstance(window, str):
            hint = 'write windows={"R": "5 seconds"} or "unbounded"'
            raise OptionError("a window is not a duration", f"query {name}, windows[{relation!r}] = {window!r}", hint)
    if sink is not None and not isinstance(sink, get_args(Sink)):
        raise OptionError(
            "not a sink",
            f"{sink!r} for query {name}",
            'write clash.sinks.Parquet("out/q1"), or one of Kafka, Postgres, Memory, Console and ForeachBatch',
        )
    return QueryRequest(name, text, tuple(sorted((windows or {}).items())), _sink_spec(sink))


def _sink_spec(sink: Sink | None) -> SinkSpec:
    if isinstance(sink, Parquet):
        return SinkSpec("parquet", sink.url)
    if isinstance(sink, Kafka | Postgres):
        return SinkSpec("kafka" if isinstance(sink, Kafka) else "postgres", settings=sink.record)
    kinds: dict[type, Literal["memory", "console", "foreach"]] = {Memory: "memory", Console: "console", ForeachBatch: "foreach"}
    return SinkSpec() if sink is None else SinkSpec(kinds[type(sink)])


def chosen_sink(request: QueryRequest, given: Mapping[str, Sink | None]) -> Sink | None:
    """The sink that the program declares for a query, if it is of the recorded kind and place; else a new one as recorded.

    None for results under the checkpoint, and for what is not recorded and the program does not declare: a function, or the options of a
    sink in another system, if no other sink of the program goes there.
    """
    sink = given.get(request.name)
    spec = request.final_sink
    if sink is not None and _sink_spec(sink) == spec:
        return sink
    if spec.kind == "parquet":
        return Parquet(str(spec.path))
    if spec.is_transactional:
        return _restored(spec, given.values())
    sinks: dict[str, Sink] = {"memory": Memory(), "console": Console()}
    return sinks.get(spec.kind)


def _restored(spec: SinkSpec, given: Iterable[Sink | None]) -> Kafka | Postgres | None:
    """A sink as recorded, with the options of another that goes to the same system."""
    plain = Kafka.restore(spec.settings) if spec.kind == "kafka" else Postgres.restore(spec.settings)
    for sink in given:
        if isinstance(sink, Kafka | Postgres) and sink.system == plain.system:
            return plain.with_access_of(sink)
    return None if ("options", "true") in spec.settings else plain


def check_columns(sink: Sink | None, query: Query) -> None:
    """The columns that the sink names are there, and it can write those that are."""
    if isinstance(sink, Kafka):
        schema = result_schema(query)
        if sink.key is not None and sink.key not in schema.names:
            hint = did_you_mean(sink.key, schema.names, f"its columns are {listed(schema.names)}")
            raise OptionError("the key is not a column of the query", f"{sink.key!r}, query {query.name}", hint)
        if sink.key is not None and pa.types.is_nested(schema.field(sink.key).type):
            raise OptionError("the key is a nested column", f"{sink.key!r}, query {query.name}", "choose a column with plain values")
        if sink.format == "avro":
            avro_schema(schema)
