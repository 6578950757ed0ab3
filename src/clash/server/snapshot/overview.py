"""`status`: whether a run is active, how fast it is, and what it holds."""

from __future__ import annotations

from collections.abc import Callable
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


def hide_status(data: dict[str, Any], hide: Callable[[str], str]) -> dict[str, Any]:
    """The snapshot with paths and errors as `hide` changes them: all of it that may have the value of a variable."""
    error, progress = data["error"], data["progress"]
    tables = {
        name: {key: hide(value) if key == "error" and value is not None else value for key, value in table.items()}
        for name, table in progress.get("tables", {}).items()
    }
    return {
        **data,
        "checkpoint": hide(data["checkpoint"] or "") or None,
        "error": None if error is None else {part: hide(text) for part, text in error.items()},
        "progress": {**progress, **({"tables": tables} if tables else {})},
    }
