"""`clash.sources.Kafka`: streams out of the topics of one Kafka cluster, which are one source for Spark, whatever their number.

Spark decides which offsets a batch has, and logs them; it reads no record. Tasks read the ranges (`clash.kafka`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from clash.errors import OptionError
from clash.kafka.client_options import check_options, for_spark
from clash.kafka.stream_records import METADATA_TYPES, Bad, Metadata, OnLoss
from clash.kafka.topics import check_topics
from clash.model.topic_name import check_topic_name
from clash.records import RecordFormat, check_format, columns_of_avro
from clash.records.schema_registry import schemas_from_registry

_NEEDED = ("confluent_kafka", "msgspec")


@dataclass(frozen=True)
class KafkaStream:
    """A topic and what its records mean: takes the place of a DataFrame in `engine.stream`."""

    source: Kafka
    topic: str
    format: RecordFormat
    metadata: Mapping[str, Metadata]
    """By column that is not a field of the value, what it has of the record."""
    bad: Bad
    registry: str | None = None
    """The address of the schema registry, for Avro with the ids of schemas."""

    @property
    def columns(self) -> dict[str, str]:
        """Types by name."""
        return {**dict(self.format.columns), **{name: METADATA_TYPES[kind] for name, kind in self.metadata.items()}}


class Kafka:
    """A Kafka cluster. `starting`: where a new checkpoint begins, "earliest" or "latest". `max_rows`: of a batch, over all topics.
    `on_loss`: whether records that Kafka has deleted before they were read fail the run, or are counted. `options`: of the client, such as
    security.protocol; they are never printed and not recorded."""

    def __init__(
        self,
        spark: Any,
        servers: str,
        *,
        starting: str = "earliest",
        max_rows: int | None = None,
        on_loss: OnLoss = "fail",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        missing = [name for name in _NEEDED if find_spec(name) is None]
        if missing:
            raise OptionError("a package for Kafka is missing", missing[0], "pip install 'clash-on-spark[kafka]'")
        if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
            raise OptionError(
                "spark is not a session of classic Spark", type(spark).__name__, 'write clash.sources.Kafka(spark, "host:9092")'
            )
        if starting not in ("earliest", "latest"):
            raise OptionError("the start is neither earliest nor latest", repr(starting), 'write starting="earliest"')
        if max_rows is not None and (isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1):
            raise OptionError("the number of rows is out of range", repr(max_rows), "write a whole number from 1, or None")
        if on_loss not in get_args(OnLoss):
            raise OptionError("on_loss is neither fail nor continue", repr(on_loss), 'write on_loss="fail"')
        self.spark, self.starting, self.max_rows, self.on_loss = spark, starting, max_rows, on_loss
        self.options = check_options(servers, options or {})
        self.cluster = ""  # its id, when a run has asked for it
        self._frames: dict[tuple[str, ...], DataFrame] = {}

    def __repr__(self) -> str:
        return f"clash.sources.Kafka({dict(self.options)['bootstrap.servers']!r})"

    # ---- streams -------------------------------------------------------------------------------------------------

    def json(
        self,
        topic: str,
        schema: Any,
        *,
        bad: Bad = "keep",
        key: str | None = None,
        timestamp: str | None = None,
        headers: str | None = None,
    ) -> KafkaStream:
        """A topic of JSON objects. `schema`: fields and types, as Spark writes them. `bad`: whether a record that does not fit is kept
        (`run.rejected`), or fails the run. `key`, `timestamp`, `headers`: names of columns with these parts of the record."""
        return self._stream(topic, RecordFormat("json", self._fields(schema)), bad, key, timestamp, headers)

    def csv(
        self,
        topic: str,
        schema: Any,
        *,
        separator: str = ",",
        bad: Bad = "keep",
        key: str | None = None,
        timestamp: str | None = None,
        headers: str | None = None,
    ) -> KafkaStream:
        """A topic of lines of CSV without a header, with these fields in this order."""
        return self._stream(topic, RecordFormat("csv", self._fields(schema), separator=separator), bad, key, timestamp, headers)

    def avro(
        self,
        topic: str,
        schema: str | None = None,
        *,
        registry: str | None = None,
        subject: str | None = None,
        bad: Bad = "keep",
        key: str | None = None,
        timestamp: str | None = None,
        headers: str | None = None,
    ) -> KafkaStream:
        """A topic of Avro values: plain ones of this schema, in JSON; or ones that name their schema in a registry at this address
        (Confluent's form). The columns are then those of the latest schema of `subject`, which is TOPIC-value unless it is given."""
        if (schema is None) == (registry is None):
            hint = 'write schema="…", or registry="http://host:8081"'
            raise OptionError("Avro needs a schema, or a registry that has it", f"topic {topic}", hint)
        known: tuple[tuple[int, str], ...] = ()
        if registry is not None:
            known = schemas_from_registry(registry, subject=subject or f"{topic}-value")
            schema = known[0][1]
        elif subject is not None:
            raise OptionError("a subject needs a registry", f"topic {topic}, subject={subject!r}", 'write registry="http://host:8081"')
        record_format = RecordFormat("avro", columns_of_avro(str(schema)), schema=schema, registry=known)
        return self._stream(topic, record_format, bad, key, timestamp, headers, registry)

    def raw(self, topic: str, *, key: str | None = None, timestamp: str | None = None, headers: str | None = None) -> KafkaStream:
        """A topic whose values are one binary column, `value`."""
        return self._stream(topic, RecordFormat("raw", (("value", "binary"),)), "keep", key, timestamp, headers)

    def _stream(
        self,
        topic: str,
        record_format: RecordFormat,
        bad: Bad,
        key: str | None,
        timestamp: str | None,
        headers: str | None,
        registry: str | None = None,
    ) -> KafkaStream:
        check_topic_name(topic)
        if bad not in get_args(Bad):
            raise OptionError("bad is neither keep nor fail", f"topic {topic}: {bad!r}", 'write bad="keep"')
        check_format(record_format, topic)
        metadata: dict[str, Metadata] = {}
        given: tuple[tuple[Metadata, str | None], ...] = (("key", key), ("timestamp", timestamp), ("headers", headers))
        taken = {name.lower() for name, _ in record_format.columns}
        for kind, name in given:
            if name is None:
                continue
            if not isinstance(name, str) or not name or name.lower() in taken:
                raise OptionError("not a name for another column", f"topic {topic}, {kind}={name!r}", "give a name that no field has")
            taken.add(name.lower())
            metadata[name] = kind
        return KafkaStream(self, topic, record_format, metadata, bad, registry)

    def _fields(self, schema: Any) -> tuple[tuple[str, str], ...]:
        try:
            struct = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
            fields = struct.fields if isinstance(struct, StructType) else []
        except Exception as error:
            problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise OptionError("the schema cannot be read", f"{schema!r}: {problem}", 'write "order_id long, ts timestamp"') from None
        return tuple((field.name, field.dataType.simpleString()) for field in fields)

    # ---- as a source of Spark's ----------------------------------------------------------------------------------

    def frame(self, topics: Sequence[str]) -> DataFrame:
        """Spark's source over these topics. The same one for the same topics: Spark then has one source for all streams out of it."""
        key = tuple(dict.fromkeys(topics))
        if key not in self._frames:
            options = {
                **for_spark(self.options),
                "subscribe": ",".join(key),
                "startingOffsets": self.starting,
                "failOnDataLoss": "false",  # tasks find out what is lost, and name it
                **({} if self.max_rows is None else {"maxOffsetsPerTrigger": str(self.max_rows)}),
            }
            try:
                self._frames[key] = self.spark.readStream.format("kafka").options(**options).load()
            except Exception as error:
                raise _without_connector(error) from error
        return self._frames[key]


def _without_connector(error: Exception) -> Exception:
    text = str(error)
    if "kafka" not in text.lower() or not any(word in text for word in ("Failed to find data source", "ClassNotFound", "NoClassDefFound")):
        return error
    return OptionError(
        "Spark has no Kafka connector",
        (text.strip().splitlines() or [type(error).__name__])[0],
        "write clash.configure(builder, kafka=True) before getOrCreate()",
    )


def spark_frames(frames: Mapping[str, Any]) -> dict[str, DataFrame]:
    """By stream, its DataFrame; streams of one Kafka cluster have the same one, over the topics of all of them."""
    topics: dict[Kafka, list[str]] = {}
    for frame in frames.values():
        if isinstance(frame, KafkaStream):
            topics.setdefault(frame.source, []).append(frame.topic)
    return {name: frame.source.frame(topics[frame.source]) if isinstance(frame, KafkaStream) else frame for name, frame in frames.items()}


def check_kafka_topics(frames: Mapping[str, Any]) -> None:
    """Raises unless Kafka has the topics of all streams. From then on the ids of the clusters are known."""
    topics: dict[Kafka, dict[str, str]] = {}
    for name, frame in frames.items():
        if isinstance(frame, KafkaStream):
            topics.setdefault(frame.source, {})[name] = frame.topic
    for source, topic_of in topics.items():
        source.cluster = check_topics(source.options, topic_of)


def kafka_clusters(frames: Mapping[str, Any]) -> dict[str, str]:
    """By stream of Kafka, the id of its cluster."""
    return {name: frame.source.cluster for name, frame in frames.items() if isinstance(frame, KafkaStream)}
