"""A query with aggregates or DISTINCT as a user declares it: its output mode and its sink, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from clash.coordinator.control.job import OuterRequest, QueryRequest, SinkSpec
from clash.errors import OptionError
from clash.model.outer_query import OutputMode
from clash.model.query import Query
from clash.model.stream import Stream
from clash.sinks import Kafka, Parquet, Postgres, Sink
from clash.spark.outer_frame import check_outer

DEFAULT_MODE: OutputMode = "complete"
_MODES = 'write mode="complete", "update" or "append"'


def declare_outer(
    spark: Any, request: QueryRequest, query: Query, streams: Mapping[str, Stream], sink: Sink | None, mode: OutputMode | None
) -> QueryRequest:
    """The request with its output mode; as it is, for a query that is a join alone."""
    if mode is not None and mode not in get_args(OutputMode):
        raise OptionError("not an output mode", f"{mode!r} for query {query.name}", _MODES)
    if query.outer is None:
        if mode is not None:
            hint = "leave it out: each result of a join is given once, and never changes"
            raise OptionError("a mode needs aggregates or DISTINCT", f"mode={mode!r} for query {query.name}", hint)
        return request
    chosen = mode or DEFAULT_MODE
    if isinstance(sink, Kafka | Postgres):
        hint = "use Parquet, or write them there with clash.sinks.ForeachBatch"
        raise OptionError("this sink takes results of joins only", f"{type(sink).__name__} for query {query.name}", hint)
    if isinstance(sink, Parquet) and chosen == "complete":
        hint = 'write mode="update" or "append"; or use no sink, and run.results'
        raise OptionError("a folder cannot be replaced with every batch", f"query {query.name} has the mode complete", hint)
    if query.outer.final is not None and chosen != "complete":
        hint = 'write mode="complete", or make a query of the inner SELECT'
        raise OptionError("SELECTs over groups need all groups", f"query {query.name} has the mode {chosen}", hint)
    if chosen == "append":
        _check_append(query, streams)
    check_outer(spark, query, chosen, forgets(query, streams, chosen))
    return replace(request, sink=SinkSpec("outer"), outer=OuterRequest(chosen, request.sink))


def forgets(query: Query, streams: Mapping[str, Stream], mode: OutputMode) -> bool:
    """Whether Spark may forget groups to which no result can be added any more, as the watermarks of the streams say."""
    return mode != "complete" and query.outer is not None and query.outer.event_time is not None and _unbounded(query, streams) is None


def _unbounded(query: Query, streams: Mapping[str, Stream]) -> str | None:
    """Why no watermark follows for the event time of the query: in words, with what is missing."""
    if query.added:
        return next(filter(None, (_unbounded(branch, streams) for branch in query.branches)), None)
    if query.outer is None or query.outer.event_time is None:
        return "it groups by no event time"
    relation, reach = query.outer.event_time.relation, query.reach()
    for other in sorted(query.streams):
        stream = streams[other.stream]
        if stream.time is None or stream.lateness is None:
            return f"stream {stream.name} has no {'event time' if stream.time is None else 'lateness'}"
        if other != relation and reach[relation, other] is None:
            return f"stream {relation.stream} has no window"
    return None


def _check_append(query: Query, streams: Mapping[str, Stream]) -> None:
    if query.outer is None or query.outer.event_time is None:
        hint = "GROUP BY window(ts, '10 minutes') of the event time of a stream, or write mode=\"update\""
        raise OptionError("the mode append needs a window of event time", f"query {query.name}", hint)
    reason = _unbounded(query, streams)
    if reason is not None:
        hint = 'declare time, window and lateness for all streams of the query, or write mode="update"'
        raise OptionError("no group of the query is ever complete", f"query {query.name}: {reason}", hint)
