"""What Spark computes for queries where it reads a stream: the types of expressions, and the columns themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from clash.errors import CheckpointError
from clash.model.computed import ComputedColumn
from clash.model.types import normalise
from clash.sql.computed import UncomputableError
from clash.workers.loaded_plan import LoadedPlan


class ExpressionTypes:
    """The Spark types of expressions over streams. `frames`: by name the streaming DataFrames, or streams of Kafka."""

    def __init__(self, frames: Mapping[str, Any]) -> None:
        self._frames = frames

    def __call__(self, stream: str, expression: str) -> str:
        frame = self._frames[stream]
        if not isinstance(frame, DataFrame):
            raise UncomputableError(f"the records of stream {stream} are decoded by our own tasks; read the topic with Spark instead")
        return _type_of(frame, expression)


def _type_of(frame: Any, expression: str) -> str:
    try:
        with _quiet_analysis():
            selected = frame.select(F.expr(expression))
    except PySparkException as error:
        raise UncomputableError(_first_line(error)) from None
    plan = selected._jdf.queryExecution().analyzed()
    rows = frame._jdf.queryExecution().analyzed()
    if str(plan.nodeName()) != "Project" or plan.child().semanticHash() != rows.semanticHash():
        raise UncomputableError("it makes rows, or combines several")
    if not plan.projectList().head().deterministic():
        raise UncomputableError("it is not deterministic, so a batch that is run again would have other results")
    return normalise(selected.schema.fields[0].dataType.simpleString())


def with_computed_columns(frames: Mapping[str, Any], computed: Iterable[ComputedColumn], plan: LoadedPlan) -> dict[str, Any]:
    """The DataFrames with those columns that the plan reads and that are computed. CheckpointError if they are not what queries were
    parsed with."""
    extended = dict(frames)
    for column in dict.fromkeys(computed):
        stream, frame = column.stream, frames.get(column.stream)
        if frame is None or stream not in plan.ingest or column.name not in {read.name for read in plan.ingest[stream].columns}:
            continue
        try:
            found = _type_of(frame, column.expression)
        except UncomputableError as error:
            raise _changed(column, str(error)) from None
        if found != column.type:
            raise _changed(column, f"it was {column.type} and is {found} now")
        extended[stream] = extended[stream].withColumn(column.name, F.expr(column.expression))
    return extended


def _changed(column: ComputedColumn, reason: str) -> CheckpointError:
    return CheckpointError(
        "an expression of a live query cannot be computed any more",
        f"stream {column.stream}, {column.expression}: {reason}",
        "declare the stream as it was, or first remove the queries that use the expression, in a start of their own",
    )


@contextmanager
def _quiet_analysis() -> Iterator[None]:
    """PySpark logs every error of the analyzer with both stacks."""
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
