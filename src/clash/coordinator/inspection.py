"""What users may ask of a running coordinator: schemas, statistics, generations, the plan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from clash.coordinator.coordinator import Coordinator
from clash.explain import explain
from clash.explain.formats import Format
from clash.expressions import arrow_type
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.topology.complete import result_columns
from clash.workers.loaded_plan import arrow_schema


def result_schema(query: Query) -> pa.Schema:
    """The columns of a query's results."""
    return arrow_schema(result_columns(query))


def late_schema(coordinator: Coordinator, stream: str) -> pa.Schema:
    """Late rows have the columns that are read of their stream; where no query reads it now, all that may have been."""
    schema = coordinator.loaded_plan.ingest_schemas.get(stream)
    if schema is not None:
        return schema
    return pa.schema([(name, arrow_type(kind)) for name, kind in coordinator.changes.setup.streams_by_name[stream].columns])


def explain_running(coordinator: Coordinator, format: Format = "text") -> str:
    """The plan that runs. Other strategies are not compared: planning for them would take time from the stream."""
    return explain(coordinator.generation.plan, coordinator.generation.topology, format)


def complete_from(coordinator: Coordinator) -> dict[str, int | None]:
    """By query of the last committed batch, the batch from which on its results are complete."""
    manifest = coordinator.manifest
    queries = coordinator.log.read(manifest.generation).setup.query_names if manifest.batch >= 0 else ()
    return {name: manifest.complete_from.get(name) for name in queries}


def outlines(coordinator: Coordinator) -> list[dict[str, Any]]:
    """Every generation so far, oldest first: when and why it began, and what it cost beside what was expected."""
    return coordinator.log.outlines(coordinator.manifest.costs, coordinator.generation.number)


def statistics(coordinator: Coordinator) -> Statistics | None:
    """What was seen of the streams so far, else what was given."""
    generation = coordinator.generation
    seen = coordinator.collector.estimate_so_far(generation.plan.queries, generation.setup.read_streams)
    return seen or coordinator.planning_statistics()
