"""Results that Spark computes of joined rows: one job per batch, between the tasks of the join and the commit.

The tasks of the join have staged files of joined rows. Spark reads them, evaluates the conditions and columns of each query, and tasks
stage the results under names of their own. Only these are in the manifest, so a crash in between leaves files that the next start sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from clash.coordinator.inspection import result_schema
from clash.expressions import arrow_type
from clash.model.query import Query, query_of
from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.protocol.reports import ResultFile
from clash.protocol.result_files import JOINED_ROWS, file_location, staged_path
from clash.spark.computed_columns import changed_expression, type_over_rows
from clash.spark.projection_task import REPORT, project_task
from clash.sql.computed import UncomputableError
from clash.state.storage import open_storage

_SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.execution.arrow.useLargeVarTypes": "false"}


class ProjectionJob:
    """`timezone`: of the run."""

    def __init__(self, spark: Any, timezone: str) -> None:
        self._spark, self._timezone = spark, timezone
        self._session: Any = None
        self._checked: set[Query] = set()  # that the session has all functions of

    def check(self, queries: Iterable[Query]) -> None:
        """Raises a CheckpointError if Spark does not compute a query as it did when the query was declared."""
        new = {query for query in queries if query.projection is not None} - self._checked
        if not new:
            return
        self._session = SparkSession(self._spark.sparkContext, self._spark._jsparkSession.cloneSession())  # with the user's functions
        for name, value in (_SETTINGS | {"spark.sql.session.timeZone": self._timezone}).items():
            self._session.conf.set(name, value)
        for query in new:
            _check(self._session, query)
        self._checked |= new

    def run(self, spec: BatchSpec, queries: Sequence[Query], files: Sequence[ResultFile]) -> list[ResultFile]:
        """The staged results; `files`: with the joined rows of these queries."""
        self.check(queries)
        text = BATCH_SPEC.dumps(spec)
        reports = []
        for query in queries:
            destination = f"{JOINED_ROWS}{query.name}"
            staged = [file.name for file in files if file.destination == destination]
            rows = self._session.read.schema(_spark_schema(_joined_schema(query))).parquet(*_urls(spec, destination, staged))
            # A file is small: a task for each would cost more than it computes.
            results = _projected(rows, query).coalesce(min(len(staged), spec.partitions))
            reports.append(results.mapInArrow(partial(project_task, text, query_of(query.name), result_schema(query)), REPORT))
        return [ResultFile(*row) for row in reduce(lambda left, right: left.union(right), reports).collect()]


def _projected(rows: Any, query: Query) -> Any:
    """The results of a query as a DataFrame, of one of its joined rows. Columns have numbers for names, which PySpark can handle."""
    if query.projection is None:
        raise AssertionError(f"query {query.name} has no projection")
    for condition in query.projection.conditions:
        rows = rows.where(F.expr(condition))
    return rows.select(*(F.expr(column.expression).alias(f"c{at}") for at, column in enumerate(query.projection.columns)))


def _check(session: Any, query: Query) -> None:
    fields = [(output.name, output.expression.type) for output in query.outputs]
    if query.projection is None:
        return
    for column in query.projection.columns:
        try:
            found = type_over_rows(session, fields, column.expression)
        except UncomputableError as error:
            raise changed_expression(f"query {query.name}", column.expression, str(error)) from None
        if found != column.type:
            raise changed_expression(f"query {query.name}", column.expression, f"it was {column.type} and is {found} now")
    for condition in query.projection.conditions:
        try:
            type_over_rows(session, fields, condition)
        except UncomputableError as error:
            raise changed_expression(f"query {query.name}", condition, str(error)) from None


def _joined_schema(query: Query) -> pa.Schema:
    return pa.schema([(output.name, arrow_type(output.expression.type)) for output in query.outputs])


def _spark_schema(schema: pa.Schema) -> Any:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _urls(spec: BatchSpec, destination: str, names: Sequence[str]) -> list[str]:
    uri, folder = file_location(spec.uri, spec.sinks, destination)
    storage = open_storage(uri)
    return [storage.url(staged_path(folder, name)) for name in names]
