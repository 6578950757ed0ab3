"""What users may ask of a running coordinator: schemas, statistics, generations, the plan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from clash.coordinator.adaptive.payback import Payback
from clash.coordinator.coordinator import Coordinator
from clash.explain import explain, explain_html
from clash.explain.formats import Format
from clash.explain.wording import number
from clash.expressions import arrow_type
from clash.model.query import Query
from clash.model.statistics import Statistics


def result_schema(query: Query) -> pa.Schema:
    """The columns of a query's results."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in query.result_columns])


def late_schema(coordinator: Coordinator, stream: str) -> pa.Schema:
    """Late rows have the columns that are read of their stream; where no query reads it now, all that may have been."""
    schema = coordinator.loaded_plan.ingest_schemas.get(stream)
    if schema is not None:
        return schema
    return pa.schema([(name, arrow_type(kind)) for name, kind in coordinator.changes.setup.streams_by_name[stream].columns])


def explain_running(coordinator: Coordinator, format: Format = "text") -> str:
    """The plan that runs. Other strategies are not compared: planning for them would take time from the stream."""
    generation = coordinator.generation
    text = explain(generation.plan, generation.topology, format)
    unpaid = coordinator.replanner.offers.unpaid(generation.number)
    return text if format != "text" or unpaid is None else f"{text}\n{_unpaid_text(unpaid)}"


def _unpaid_text(payback: Payback) -> str:
    return "\n".join(
        [
            "A BETTER PLAN is known, but does not pay within its horizon",
            f"  cost {number(payback.new)} per window instead of {number(payback.old)}, under the statistics of now",
            f"  the change costs {number(payback.transition)}, which {number(payback.windows)} windows earn;"
            f" the data is expected to stay as it is for {number(payback.horizon)}",
            "",
        ]
    )


def display_running(coordinator: Coordinator) -> str:
    """The plan that runs as a picture, for a notebook."""
    return explain_html(coordinator.generation.plan, coordinator.generation.topology)


def complete_from(coordinator: Coordinator) -> dict[str, int | None]:
    """By query of the last committed batch, the batch from which on its results are complete."""
    manifest = coordinator.manifest
    found: dict[str, int | None] = {}
    for live in coordinator.log.read(manifest.generation).setup.queries if manifest.batch >= 0 else ():
        batches = [manifest.complete_from.get(branch.name) for branch in live.query.branches]
        known = [batch for batch in batches if batch is not None]
        found[live.name] = max(known) if len(known) == len(batches) else None
    return found


def outlines(coordinator: Coordinator) -> list[dict[str, Any]]:
    """Every generation so far, oldest first: when and why it began, and what it cost beside what was expected."""
    return coordinator.log.outlines(coordinator.manifest.costs, coordinator.generation.number)


def statistics(coordinator: Coordinator) -> Statistics | None:
    """What was seen of the streams so far, else what was given."""
    generation = coordinator.generation
    seen = coordinator.collector.estimate_so_far(generation.plan.queries, generation.setup.read_streams)
    return seen or coordinator.planning_statistics()
