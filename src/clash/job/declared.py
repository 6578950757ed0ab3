"""What a job file declares, checked without Spark: streams by their schemas, queries over them, and sinks.

A stream without a schema, and an expression that Spark computes, are known only to Spark: queries over them are listed as unchecked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clash import sinks
from clash.errors import OptionError, QueryError
from clash.job import model
from clash.job.load import JobFile
from clash.job.schema_text import parse_columns
from clash.job.sinks import build_sink
from clash.kafka.stream_records import METADATA_TYPES
from clash.model.durations import parse_duration
from clash.model.statistics import Statistics
from clash.model.stream import Stream, check_name
from clash.plan.options import check_options
from clash.records import columns_of_avro
from clash.sql import parse_query
from clash.sql.computed import UncomputedError

_RATE = {"timestamp": "timestamp", "value": "bigint"}  # of Spark's formats rate and rate-micro-batch


@dataclass
class Declared:
    streams: dict[str, Stream] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    """All texts."""
    sinks: dict[str, sinks.Sink | None] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)
    """By query, why only Spark can check it."""
    without_schema: list[str] = field(default_factory=list)
    """Streams and tables whose columns only Spark knows."""
    statistics: Statistics | None = None

    @property
    def checked(self) -> dict[str, str]:
        return {name: text for name, text in self.queries.items() if name not in self.unchecked}


def declare(file: JobFile) -> Declared:
    """Raises the first error, with its place."""
    job, declared = file.job, Declared()
    with file.at("name"):
        check_name("job", job.name)
    check_engine(file)
    declared.statistics = load_statistics(file)
    for name, stream in job.streams.items():
        with file.at("streams", name):
            columns = stream_columns(stream)
            if columns is None:
                check_name("stream", name)
                declared.without_schema.append(name)
            else:
                declared.streams[name] = Stream.of(
                    name, columns, time=stream.time, window=stream.window, lateness=stream.lateness, idle=stream.idle, keep=stream.keep
                )
            if stream.idle is not None and stream.lateness is None:
                raise OptionError("idle needs lateness", f"stream {name}", 'write lateness: "0 seconds" if rows come in order')
    for name, table in job.tables.items():
        with file.at("tables", name):
            _declare_table(declared, name, table)
    for name, query in job.queries.items():
        text = declared.queries[name] = file.query_text(name)
        with file.at("queries", name):
            check_name("query", name)
            declared.sinks[name] = file_sink(file, query)
            _check_query(declared, name, text, query)
    _refuse_one_folder(file, declared)
    return declared


def _declare_table(declared: Declared, name: str, table: model.Table) -> None:
    check_name("table", name)
    if table.path is not None and table.table is not None:
        raise OptionError("a table has two places", f"path {table.path}, table {table.table}", "write either path or table")
    if name.lower() in (other.lower() for other in (*declared.streams, *declared.without_schema)):
        raise OptionError("there is a stream of that name already", repr(name), "give the table another name")
    if table.refresh is not None:
        parse_duration(table.refresh, f"the refresh interval of table {name}")
    if table.schema_ is None:
        declared.without_schema.append(name)
    else:
        declared.streams[name] = Stream.table(name, parse_columns(table.schema_))


def check_engine(file: JobFile) -> None:
    engine = file.job.engine
    with file.at("engine"):
        check_options(workers=engine.workers)
        if isinstance(engine.epoch, str):
            parse_duration(engine.epoch, "the epoch")
        elif engine.epoch < 1:
            raise OptionError(
                "the epoch is out of range", repr(engine.epoch), "write a duration such as 1 second, or a number of micro-batches"
            )
        if engine.trigger is not None:
            parse_duration(engine.trigger, "the trigger")


def load_statistics(file: JobFile) -> Statistics | None:
    path = file.job.engine.statistics
    if path is None:
        return None
    with file.at("engine", "statistics"):
        return Statistics.load(file.resolve(path))


def stream_columns(stream: model.SparkStream | model.KafkaStream) -> dict[str, str] | None:
    """Types by name; None where only Spark, or a registry, knows them."""
    if isinstance(stream, model.SparkStream):
        if stream.path is not None and stream.table is not None:
            raise OptionError("a stream has two places", f"path {stream.path}, table {stream.table}", "write either path or table")
        if stream.schema_ is None:
            return dict(_RATE) if stream.format in ("rate", "rate-micro-batch") else None
        return parse_columns(stream.schema_)
    return _kafka_columns(stream)


def _kafka_columns(stream: model.KafkaStream) -> dict[str, str] | None:
    if stream.value == "avro" and (stream.schema_ is None) == (stream.registry is None):
        raise OptionError("avro needs a schema, or a registry that has it", f"topic {stream.topic}", "write either schema or registry")
    if stream.value in ("json", "csv") and stream.schema_ is None:
        hint = 'write schema: "order_id long, ts timestamp"'
        raise OptionError(f"a topic of {stream.value} needs a schema", f"topic {stream.topic}", hint)
    if stream.value == "raw" and stream.schema_ is not None:
        raise OptionError("raw values have no schema", f"topic {stream.topic}", "leave it out: the column is value, binary")
    metadata = {name: METADATA_TYPES[kind] for kind in METADATA_TYPES if (name := getattr(stream, kind)) is not None}
    if stream.value == "raw":
        return {"value": "binary", **metadata}
    if stream.schema_ is None:
        return None
    columns = dict(columns_of_avro(stream.schema_)) if stream.value == "avro" else parse_columns(stream.schema_)
    return {**columns, **metadata}


def file_sink(file: JobFile, query: model.Query) -> sinks.Sink | None:
    return build_sink(query.sink, file.resolve, file.job.kafka, file.job.postgres)


def _check_query(declared: Declared, name: str, text: str, query: model.Query) -> None:
    try:
        parsed = parse_query(name, text, declared.streams, query.windows or None)
    except UncomputedError as needed:
        expression = needed.expression
        text = expression.joined if expression.stream is None else expression.over_stream
        declared.unchecked[name] = f"Spark computes {text}"
        return
    except QueryError:
        missing = next((stream for stream in declared.without_schema if stream.lower() in text.lower()), None)
        if missing is None:
            raise
        declared.unchecked[name] = f"{missing} has no schema in the file"
        return
    if parsed.outer is None and query.mode is not None:
        hint = "leave it out: each result of a join is given once, and never changes"
        raise OptionError("a mode needs aggregates or DISTINCT", f"mode {query.mode} for query {name}", hint)


def _refuse_one_folder(file: JobFile, declared: Declared) -> None:
    taken: dict[str, str] = {}
    for name, sink in declared.sinks.items():
        if isinstance(sink, sinks.Parquet):
            other = taken.setdefault(sink.url.rstrip("/"), name)
            if other != name:
                with file.at("queries", name, "sink"):
                    raise OptionError("two queries write to one folder", f"{other} and {name}", "give each a folder of its own")
