"""What Spark computes for queries where it reads a stream: the types of expressions, and the columns themselves."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from clash.errors import CheckpointError
from clash.expressions import arrow_type
from clash.model.computed import ComputedColumn
from clash.model.stream import Stream
from clash.model.types import normalise
from clash.spark.kafka_source import KafkaStream
from clash.spark.parquet_streams import plain_streams
from clash.sql.computed import UncomputableError
from clash.workers.loaded_plan import LoadedPlan

_CIRCUMSTANCE = re.compile("Current.*|Now|LocalTimestamp.*")  # classes of functions of the time, the user and the database


class ExpressionTypes:
    """The Spark types of expressions over streams, tables and joined rows. `frames`: by name the streaming DataFrames, or streams of Kafka;
    `tables`: by name those of which `current()` is a DataFrame."""

    def __init__(self, spark: Any, frames: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
        self._spark, self._frames, self._tables = spark, frames, tables

    def of_stream(self, stream: str, expression: str) -> str:
        return _type_of(self._frames[stream] if stream in self._frames else self._tables[stream].current(), expression)

    def of_joined(self, fields: Sequence[tuple[str, str]], expression: str) -> str:
        return type_over_rows(self._spark, fields, expression)

    def is_read_by_tasks(self, stream: str) -> bool:
        return stream in self._frames and plain_streams({stream: self._frames[stream]}) is not None

    def is_decoded_by_tasks(self, stream: str) -> bool:
        return isinstance(self._frames.get(stream), KafkaStream)


def type_over_rows(spark: Any, fields: Sequence[tuple[str, str]], expression: str) -> str:
    """The Spark type of an expression over rows with columns of these names and types."""
    schema = from_arrow_schema(pa.schema([(name, arrow_type(kind)) for name, kind in fields]), prefer_timestamp_ntz=True)
    return _type_of(spark.range(0).select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields)), expression)


def _type_of(frame: Any, expression: str) -> str:
    try:
        with quiet_analysis():
            selected = frame.select(F.expr(expression))
    except PySparkException as error:
        raise UncomputableError(_first_line(error)) from None
    plan = selected._jdf.queryExecution().analyzed()
    rows = frame._jdf.queryExecution().analyzed()
    if str(plan.nodeName()) != "Project" or plan.child().semanticHash() != rows.semanticHash():
        raise UncomputableError("it makes rows, or combines several")
    computed = plan.projectList().head()
    if not computed.deterministic():
        raise UncomputableError("it is not deterministic, so a batch that is run again would have other results")
    leaves = computed.collectLeaves()
    if any(_CIRCUMSTANCE.fullmatch(str(leaves.apply(at).getClass().getSimpleName())) for at in range(leaves.size())):
        raise UncomputableError("its value depends on when, or by whom, it is computed: a batch that is run again would have other results")
    return normalise(selected.schema.fields[0].dataType.simpleString())


def check_computed(frame: DataFrame, table: Stream) -> None:
    """CheckpointError unless the columns that are computed of a table are what queries were parsed with."""
    for _, kind, expression in table.computed:
        _check(frame, ComputedColumn(table.name, expression, kind))


def with_computed_columns(frames: Mapping[str, Any], computed: Iterable[ComputedColumn], plan: LoadedPlan) -> dict[str, Any]:
    """The DataFrames with those columns that the plan reads and that are computed. CheckpointError if they are not what queries were
    parsed with."""
    extended = dict(frames)
    for column in dict.fromkeys(computed):
        stream, frame = column.stream, frames.get(column.stream)
        if frame is None or stream not in plan.ingest or column.name not in {read.name for read in plan.ingest[stream].columns}:
            continue
        _check(frame, column)
        extended[stream] = extended[stream].withColumn(column.name, F.expr(column.expression))
    return extended


def _check(frame: Any, column: ComputedColumn) -> None:
    where = f"stream {column.stream}"
    try:
        found = _type_of(frame, column.expression)
    except UncomputableError as error:
        raise changed_expression(where, column.expression, str(error)) from None
    if found != column.type:
        raise changed_expression(where, column.expression, f"it was {column.type} and is {found} now")


def changed_expression(where: str, expression: str, reason: str) -> CheckpointError:
    return CheckpointError(
        "an expression of a live query cannot be computed any more",
        f"{where}, {expression}: {reason}",
        "declare the stream and its functions as they were, or first remove the queries that use the expression, in a start of their own",
    )


@contextmanager
def quiet_analysis() -> Iterator[None]:
    """PySpark logs every error of the analyzer, and of a collect, with both stacks."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # a plain logger of that name would not take what PySpark logs
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _first_line(error: PySparkException) -> str:
    lines = (str(error.getMessage() or error) or type(error).__name__).strip().splitlines()
    return lines[0].split(" SQLSTATE:")[0].rstrip(". ")
