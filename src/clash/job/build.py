"""An engine of a job file: the calls that a program would make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from clash import sources
from clash.errors import ClashError, OptionError
from clash.job import model
from clash.job.declared import Declared
from clash.job.load import JobFile
from clash.job.sinks import option_text
from clash.spark.engine import Engine
from clash.spark.local_session import is_submitted, session

DEFAULT_MASTER = "local[*]"
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


@contextmanager
def open_session(file: JobFile, master: str | None, log: Path) -> Iterator[Any]:
    """The Spark session of a job. `master`: instead of that of the file; under spark-submit, that of the command line counts."""
    job = file.job
    settings = {name: option_text(value) for name, value in job.spark.config.items()}
    uses_kafka = any(isinstance(stream, model.KafkaStream) for stream in job.streams.values())
    chosen = master or job.spark.master or (None if is_submitted() else DEFAULT_MASTER)
    with ExitStack() as stack:
        with file.at("spark"):  # around the start alone: what goes wrong later has places of its own
            spark = stack.enter_context(session(f"clash {job.name}", chosen, log, {**_QUIET, **settings}, kafka=uses_kafka))
        yield spark


def build_engine(file: JobFile, spark: Any, declared: Declared) -> Engine:
    """`declared`: what the file declares, checked without Spark."""
    job, options = file.job, file.job.engine
    with file.at("engine"):
        engine = Engine(
            spark, checkpoint=file.checkpoint, name=job.name, epoch=options.epoch, workers=options.workers, strategy=options.strategy,
            adaptive=options.adaptive, cost=options.cost, layouts=options.layouts, mirs=options.mirs, statistics=declared.statistics,
        )  # fmt: skip
    clusters = _Clusters(spark, job.kafka)
    for name, stream in job.streams.items():
        with file.at("streams", name):
            frame = clusters.stream(stream) if isinstance(stream, model.KafkaStream) else _load(file, spark.readStream, stream)
            engine.stream(name, frame, stream.time, stream.window, stream.lateness, stream.idle, stream.keep)
    for name, table in job.tables.items():
        with file.at("tables", name):
            engine.table(name, partial(_load, file, spark.read, table), table.refresh)  # a new list of files for every read
    for name, query in job.queries.items():
        with file.at("queries", name):
            engine.query(name, declared.queries[name], declared.sinks[name], query.windows or None, query.mode)
    return engine


def _load(file: JobFile, reader: Any, source: model.SparkStream | model.Table) -> Any:
    """`reader`: Spark's, of streams or of tables."""
    try:
        reader = reader.format(source.format)
        if source.schema_ is not None:
            reader = reader.schema(source.schema_)
        reader = reader.options(**{name: option_text(value) for name, value in source.options.items()})
        if source.table is not None:
            return reader.table(source.table)
        return reader.load() if source.path is None else reader.load(file.resolve(source.path))
    except ClashError:
        raise
    except Exception as error:  # of Spark's analyzer, in a dozen kinds
        lines = [line for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
        hint = "check format, path, schema and options; formats that Spark does not bring need a package, see spark.jars.packages"
        kind = "stream" if isinstance(source, model.SparkStream) else "table"
        raise OptionError(f"Spark cannot read the {kind}", lines[0].split(" SQLSTATE:")[0], hint) from None


class _Clusters:
    """One source per cluster: all its topics are one source for Spark."""

    def __init__(self, spark: Any, default: model.Kafka) -> None:
        self._spark, self._default = spark, default
        self._sources: dict[str, sources.Kafka] = {}

    def stream(self, stream: model.KafkaStream) -> sources.KafkaStream:
        kafka = self._source(stream.servers or self._default.servers)
        names: dict[str, Any] = {"key": stream.key, "timestamp": stream.timestamp, "headers": stream.headers}
        if stream.value == "raw":
            return kafka.raw(stream.topic, **names)
        if stream.value == "csv":
            return kafka.csv(stream.topic, stream.schema_, separator=stream.separator, bad=stream.bad, **names)
        if stream.value == "avro":
            return kafka.avro(
                stream.topic, stream.schema_, registry=stream.registry, subject=stream.subject, bad=stream.bad, **names
            )  # fmt: skip
        return kafka.json(stream.topic, stream.schema_, bad=stream.bad, **names)

    def _source(self, servers: str) -> sources.Kafka:
        if servers not in self._sources:
            chosen = self._default
            options = {name: option_text(value) for name, value in chosen.options.items()} if servers == chosen.servers else {}
            self._sources[servers] = sources.Kafka(
                self._spark, servers, starting=chosen.starting, max_rows=chosen.max_rows, on_loss=chosen.on_loss, options=options
            )
        return self._sources[servers]
