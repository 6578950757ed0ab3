"""The streaming DataFrame of an outer query: its SQL over the results of its join core.

Where Spark may forget groups (update and append over an event time), its watermark must be the one that follows from the watermarks of the
streams: Spark's own, the largest time seen less a delay, says nothing about how far the streams of a join are apart. It therefore comes as
rows of its own, which carry it in the column of the event time and are filtered out behind the operator that reads it. The watermark of
the results themselves has a delay that keeps it out of the way: Spark takes the larger of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.pandas.types import from_arrow_schema

from clash.coordinator.inspection import result_schema
from clash.errors import QueryError
from clash.model.outer_query import GROUPS, JOIN_CORE, OutputMode
from clash.model.query import Query
from clash.sql.outputs import TWO_OF_ONE_NAME

BATCH = "_batch"  # the column that says in which batch of the outer query a row was updated
TIME, IS_TIME = "time", "is_time"
_NEVER = "36500 days"
_POLICY, _PARTITIONS = "spark.sql.streaming.multipleWatermarkPolicy", "spark.sql.shuffle.partitions"


def outer_session(spark: Any, partitions: int) -> Any:
    """A session with the functions and settings of the user's, for one outer query."""
    session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    session.conf.set(_POLICY, "max")
    session.conf.set(_PARTITIONS, str(partitions))
    return session


def times_schema(query: Query) -> pa.Schema:
    """The columns of the rows that carry the watermark."""
    if query.outer is None or query.outer.event_time is None:
        raise AssertionError(f"query {query.name} has no event time")
    return pa.schema([(TIME, result_schema(query).field(query.outer.event_time.column).type), (IS_TIME, pa.bool_())])


def outer_frame(session: Any, query: Query, rows: Any, times: Any | None) -> Any:
    """`rows`: the results of the join core; `times`: the rows that carry the watermark, None where nothing is forgotten."""
    if query.outer is None:
        raise AssertionError(f"query {query.name} has no outer part")
    if times is not None and query.outer.event_time is not None:
        rows = _with_watermark(rows, times, query.outer.event_time.column)
    rows.createOrReplaceTempView(JOIN_CORE)
    return session.sql(query.outer.sql)


def final_frame(query: Query, groups: Any) -> Any:
    """What the query gives of all groups, a batch DataFrame."""
    if query.outer is None or query.outer.final is None:
        return groups
    groups.createOrReplaceTempView(GROUPS)
    return groups.sparkSession.sql(query.outer.final)


def _final_schema(session: Any, query: Query, frame: Any) -> Any:
    return (
        frame.schema
        if query.outer is None or query.outer.final is None
        else final_frame(query, session.createDataFrame([], frame.schema)).schema
    )


def _with_watermark(rows: Any, times: Any, column: str) -> Any:
    fields = [(field.name, field.dataType) for field in rows.schema.fields]
    columns = [col(TIME).alias(name) if name == column else lit(None).cast(kind).alias(name) for name, kind in fields]
    marked = times.select(*columns, IS_TIME).withWatermark(f"`{column}`", "0 seconds")
    plain = rows.withColumn(IS_TIME, lit(False)).withWatermark(f"`{column}`", _NEVER)
    # A predicate that did not name the event time would be evaluated before Spark reads the watermark. The rows that carry it come first:
    # Spark lists the sources in this order, so it has the results that belong to each of them.
    kept = ~(col(IS_TIME) & col(f"`{column}`").isNotNull())
    return marked.unionAll(plain).where(kept).select(*(col(f"`{name}`") for name, _ in fields))


def check_outer(spark: Any, query: Query, mode: OutputMode, forgets: bool) -> Any:
    """The schema of the outer query's results; a QueryError with Spark's reason if Spark refuses it. `forgets`: as for `outer_frame`."""
    session = outer_session(spark, 1)
    with _explained(query):
        rows = _empty_stream(session, result_schema(query))
        frame = outer_frame(session, query, rows, _empty_stream(session, times_schema(query)) if forgets else None)
        jvm = session.sparkContext._jvm.org.apache.spark.sql
        modes = jvm.streaming.OutputMode
        jvm_mode = {"complete": modes.Complete, "update": modes.Update, "append": modes.Append}[mode]()
        jvm.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(frame._jdf.queryExecution().analyzed(), jvm_mode)
        schema = _final_schema(session, query, frame)
    names = [field.name.lower() for field in schema.fields]
    twice = next((name for at, name in enumerate(names) if name in names[:at] or name == BATCH), None)
    if twice is not None:
        raise QueryError(f"two outputs are called {twice}", f"query {query.name}", TWO_OF_ONE_NAME)
    return schema


def outer_schema(spark: Any, query: Query) -> Any:
    """The columns of an outer query's results, without the number of the batch."""
    session = outer_session(spark, 1)
    return _final_schema(session, query, outer_frame(session, query, _empty_stream(session, result_schema(query)), None))


def _empty_stream(session: Any, schema: pa.Schema) -> Any:
    fields = from_arrow_schema(schema, prefer_timestamp_ntz=True).fields
    return session.readStream.format("rate").load().select(*(lit(None).cast(field.dataType).alias(field.name) for field in fields))


@contextmanager
def _explained(query: Query) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise QueryError(
            "Spark refuses what is outside of the join",
            f"query {query.name}: {reason}",
            "the aggregates, GROUP BY, HAVING and DISTINCT of a query are Spark's, and must be possible on a stream",
        ) from None
