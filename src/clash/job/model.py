"""What a job file may say. The model checks shapes; what values mean is checked by what they are handed to, as for a program.

Descriptions become the reference (docs/job-file.md) and what editors show.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag


def _whole(value: Any) -> Any:
    """A variable is a text also where a number is meant."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value


def _flag(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


Whole = Annotated[int, BeforeValidator(_whole)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Scalar = str | int | float | bool
Options = dict[str, Scalar]
KAFKA = "kafka"
DEFAULT_SERVERS = "localhost:9092"


class Section(BaseModel):
    """No other keys than those listed: a misspelt one would go unnoticed."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, frozen=True)


# ---- streams -----------------------------------------------------------------------------------------------------


class Timed(Section):
    """What the rows of every stream have."""

    time: str | None = Field(None, description="The column with the event time. Without it, the time of a row is that of its batch.")
    window: str | None = Field(None, description="How long a row can join later rows, such as `10 minutes`. Without it, for ever.")
    lateness: str | None = Field(
        None, description="How far the watermark trails the largest event time. Without it nothing is late, and state never expires."
    )
    idle: str | None = Field(None, description="After this long without rows, the stream does not hold the watermarks of others back.")
    keep: Literal["needed", "all"] = Field(
        "needed", description="What is stored: what live queries need, or everything, for queries to come."
    )


class SparkStream(Timed):
    """A stream that Spark reads, in any of its formats."""

    format: str = Field(description="A format of Spark's: `parquet`, `json`, `csv`, `orc`, `delta`, `rate`, …")
    path: str | None = Field(None, description="The folder or URL to read. A relative path counts from the folder of the job file.")
    table: str | None = Field(None, description="The name of a table of a catalog, instead of a path.")
    schema_: str | None = Field(
        None, alias="schema", description="Columns and types as Spark writes them, such as `order_id long, ts timestamp`."
    )
    options: Options = Field({}, description="Options of the format, such as `maxFilesPerTrigger: 10`.")


class KafkaStream(Timed):
    """A topic of Kafka, read by `clash.sources.Kafka`."""

    format: Literal["kafka"]
    topic: str = Field(description="The topic.")
    value: Literal["json", "csv", "avro", "raw"] = Field("json", description="What the values of records are.")
    schema_: str | None = Field(
        None, alias="schema", description="Columns and types of the value; of `avro`, its schema in JSON; of `raw`, none."
    )
    separator: str = Field(",", description="Between the fields of `csv`.")
    registry: str | None = Field(None, description="Of `avro`: the address of a schema registry, instead of a schema.")
    subject: str | None = Field(None, description="Of `avro`: the subject in the registry; TOPIC-value unless it is given.")
    bad: Literal["keep", "fail"] = Field("keep", description="Whether a record that does not fit is kept apart, or fails the run.")
    key: str | None = Field(None, description="The name of a column that has the key of the record.")
    timestamp: str | None = Field(None, description="The name of a column that has the timestamp of the record.")
    headers: str | None = Field(None, description="The name of a column that has the headers of the record.")
    servers: str | None = Field(None, description="Another cluster than that of the section `kafka`.")


def _stream_kind(value: Any) -> str:
    kind = value.get("format") if isinstance(value, dict) else getattr(value, "format", None)
    return KAFKA if kind == KAFKA else "spark"


Stream = Annotated[
    Annotated[KafkaStream, Tag(KAFKA)] | Annotated[SparkStream, Tag("spark")],
    Discriminator(_stream_kind),
]


class Table(Section):
    """A reference table: rows that streams are joined with, and that do not arrive."""

    format: str = Field("parquet", description="A format of Spark's: `parquet`, `csv`, `jdbc`, `delta`, …")
    path: str | None = Field(None, description="The folder, file or URL to read. A relative path counts from the folder of the job file.")
    table: str | None = Field(None, description="The name of a table of a catalog, instead of a path.")
    schema_: str | None = Field(None, alias="schema", description="Columns and types, where the format does not have them.")
    options: Options = Field({}, description="Options of the format, such as `header: true`.")
    refresh: str | None = Field(None, description="How often it is read again, such as `10 minutes`. Without it, at starts only.")


class Kafka(Section):
    """The Kafka cluster of streams and sinks that name none."""

    servers: str = Field(DEFAULT_SERVERS, description="Addresses, such as `a:9092,b:9092`.")
    starting: Literal["earliest", "latest"] = Field("earliest", description="Where a new checkpoint begins.")
    max_rows: Whole | None = Field(None, description="Of a batch, over all topics.")
    on_loss: Literal["fail", "continue"] = Field("fail", description="What happens if Kafka has deleted records before they were read.")
    options: Options = Field({}, description="Of the client, such as `security.protocol`. Never shown, and not recorded.")


class Postgres(Section):
    """The PostgreSQL database of sinks that name none."""

    dsn: str = Field(description="As of libpq, such as `host=db dbname=shop user=clash`.")
    options: Options = Field({}, description="More of it, as `password: ${PG_PASSWORD}`. Never shown, and not recorded.")


# ---- sinks -------------------------------------------------------------------------------------------------------


class ParquetSink(Section):
    """Parquet files in a folder, exactly once."""

    path: str = Field(description="The folder. A relative path counts from the folder of the job file.")


class KafkaSink(Section):
    """A Kafka topic, exactly once for readers of committed messages."""

    topic: str = Field(description="The topic.")
    servers: str | None = Field(None, description="Another cluster than that of the section `kafka`.")
    key: str | None = Field(None, description="A column whose text is the key of messages.")
    format: Literal["json", "avro"] = Field("json", description="What messages are.")
    headers: Flag = Field(False, description="Whether messages say their query and their batch.")
    create: Whole | None = Field(None, description="The number of partitions of a topic that does not exist. Without it that is an error.")
    wait: str = Field("2 minutes", description="How long the cluster may fail to answer before the run fails.")
    lost_marker: Literal["fail", "skip", "repeat"] = Field(
        "fail", description="What to do with the last batch if the cluster has lost its number."
    )
    options: Options = Field({}, description="Of the client, in addition to those of the section `kafka`.")


class PostgresSink(Section):
    """A table of PostgreSQL, exactly once."""

    table: str = Field(description="The table, with its schema or without.")
    dsn: str | None = Field(None, description="Another database than that of the section `postgres`.")
    create: Flag = Field(False, description="Whether a table that does not exist is created. Without it that is an error.")
    wait: str = Field("2 minutes", description="How long the database may fail to answer before the run fails.")
    lost_marker: Literal["fail", "skip", "repeat"] = Field(
        "fail", description="What to do with the last batch if the database has lost its number."
    )
    options: Options = Field({}, description="Of the connection, in addition to those of the section `postgres`.")


class ConsoleSink(Section):
    """The first results of each batch on standard output."""

    rows: Whole = Field(20, description="So many of each batch.")


class MemorySink(Section):
    """Results stay in the memory of the run, and end with it."""


class Sink(Section):
    """One of these."""

    parquet: str | ParquetSink | None = Field(None, description="Parquet files: the folder, or its options.")
    kafka: str | KafkaSink | None = Field(None, description="A Kafka topic: its name, or its options.")
    postgres: str | PostgresSink | None = Field(None, description="A table of PostgreSQL: its name, or its options.")
    console: ConsoleSink | None = Field(None, description="Standard output, as `console: {}`.")
    memory: MemorySink | None = Field(None, description="The memory of the run, as `memory: {}`.")


# ---- queries -----------------------------------------------------------------------------------------------------


class Query(Section):
    """A query over the streams."""

    sql: str | None = Field(None, description="Its text; `|` begins one of several lines.")
    file: str | None = Field(None, description="A file with its text, instead. A relative path counts from the folder of the job file.")
    sink: Sink | Literal["console", "memory"] | None = Field(
        None, description="Where its results go. Without it they are kept under the checkpoint, for `clash results`."
    )
    windows: dict[str, str] = Field({}, description="By alias or stream, another window than that of the stream.")
    mode: Literal["complete", "update", "append"] | None = Field(
        None, description="Of a query with aggregates or DISTINCT, which results each batch gives."
    )


# ---- the job -----------------------------------------------------------------------------------------------------


class Engine(Section):
    """How the job runs: the arguments of `clash.Engine`."""

    workers: Whole = Field(4, description="Workers that the stores are partitioned over.")
    epoch: Annotated[str | int, BeforeValidator(_whole)] = Field(
        "1 second", description="How often the plan may change: a duration, or a number of micro-batches."
    )
    adaptive: Flag = Field(True, description="Whether the plan follows the data.")
    strategy: Literal["independent", "shared", "global"] = Field("global", description="How queries share what they compute and store.")
    cost: Literal["probe", "full"] = Field("full", description="What plans are compared by.")
    layouts: Literal["one", "many"] = Field("one", description="Whether a store may have copies in several layouts.")
    mirs: Flag = Field(True, description="Whether intermediate results may be stored.")
    statistics: str | None = Field(
        None, description="A JSON file with rates and selectivities to begin with. A relative path counts from the folder of the job file."
    )
    trigger: str | None = Field(None, description="A micro-batch so often, such as `5 seconds`. Without it, as fast as they can be run.")


class Spark(Section):
    """The Spark session."""

    master: str | None = Field(
        None, description="Such as `local[4]` or `spark://host:7077`. Without it, this machine; or what `spark-submit` says."
    )
    config: Options = Field({}, description="Settings of Spark's, such as `spark.driver.memory: 4g`.")


class Job(Section):
    """A job file."""

    name: str = Field(description="Letters, digits and underscores. Spark's UI, metrics and logs show it.")
    checkpoint: str = Field(description="The folder or URL of the job's state. A relative path counts from the folder of the job file.")
    streams: dict[str, Stream] = Field(description="By name.")
    tables: dict[str, Table] = Field({}, description="Reference tables, by name.")
    queries: dict[str, Query] = Field(description="By name.")
    kafka: Kafka = Field(Kafka(), description="The Kafka cluster of streams and sinks that name none.")
    postgres: Postgres | None = Field(None, description="The PostgreSQL database of sinks that name none.")
    engine: Engine = Field(Engine(), description="How the job runs.")
    spark: Spark = Field(Spark(), description="The Spark session.")


def json_schema() -> dict[str, Any]:
    """The model as a JSON schema, for editors."""
    schema = Job.model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "CLASH job file"}
    schema["patternProperties"] = {"^x-": {"description": "Ignored: a place for YAML anchors."}}
    return schema
