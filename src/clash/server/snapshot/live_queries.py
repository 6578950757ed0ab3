"""`queries`: what each live query returns, how fast, how late, and since when completely."""

from __future__ import annotations

import time
from typing import Any

from clash.coordinator.control.setup import LiveQuery
from clash.coordinator.inspection import result_schema
from clash.server.snapshot.run_view import view_of


def queries(run: Any) -> list[dict[str, Any]]:
    """The live queries, in the order in which they were added. Costs are in the planner's unit: `share` divides what several queries use
    among them, `in_full` does not."""
    view, now = view_of(run), time.time()
    progress, rates, complete = view.progress(), run.probe_rates.recent(), run.complete_from
    costs = {query["name"]: query for query in view.picture()["queries"]}
    live = {query.name: _declared(query) for query in run.coordinator.generation.setup.queries}
    return [
        {
            "name": name,
            "sql": text,
            "results": progress["totals"]["results"].get(name, 0),
            "last_batch": progress["results"].get(name, 0),
            "complete_from": complete.get(name),
            "rate": round(rates.results.get(name, 0.0), 3),
            "latency": view.latencies.of(name, now),
            "share": costs.get(name, {}).get("share"),
            "in_full": costs.get(name, {}).get("in_full"),
            **live.get(name, _UNKNOWN),
        }
        for name, text in run.queries.items()
    ]


_UNKNOWN: dict[str, Any] = {"sink": None, "columns": [], "streams": [], "batch": None, "history": True}  # it has just gone


def _declared(live: LiveQuery) -> dict[str, Any]:
    return {
        "sink": live.request.final_sink.kind,
        "columns": list(result_schema(live.query).names),
        "streams": sorted({relation.stream for branch in live.query.branches for relation in branch.join.relations}),
        "batch": live.batch,
        "history": live.history,
    }
