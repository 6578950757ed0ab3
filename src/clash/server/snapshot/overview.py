"""`status`: whether a run is active, how fast it is, and what it holds."""

from __future__ import annotations

from typing import Any

from clash.server.snapshot.run_view import view_of


def status(run: Any) -> dict[str, Any]:
    """Whether the run is active, its last batch, rates of the last seconds, and totals since its start."""
    view, error = view_of(run), run.exception
    progress, rates, coordinator = view.progress(), run.probe_rates.recent(), run.coordinator
    setup = coordinator.generation.setup
    stores = progress["stores"].values()
    return {
        "active": run.is_active,
        "error": None if error is None else {"what": error.what, "detail": error.detail, "hint": error.hint},
        "name": run.name,
        "checkpoint": coordinator.uri,
        "batch": progress["batch"],
        "generation": coordinator.generation.number,
        "workers": setup.workers,
        "queries": len(setup.queries),
        "streams": len(setup.streams),
        "stores": len(progress["stores"]),
        "rows": sum(size["rows"] for size in stores),
        "bytes": sum(size["bytes"] for size in stores),
        "input_rate": round(sum(rates.input.values()), 3),
        "result_rate": round(sum(rates.results.values()), 3),
        "pending": [change.description for change in coordinator.changes.peek().changes],
        "progress": progress,
    }
