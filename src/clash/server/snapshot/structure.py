"""`topology`: streams, stores and probe steps, which change with the plan; `flows`: what is measured of them, all the time."""

from __future__ import annotations

from typing import Any

from clash.coordinator.coordinator import Coordinator
from clash.server.snapshot.run_view import view_of


def topology(run: Any) -> dict[str, Any]:
    """The topology that runs, with the queries that use each step and store, and what the planner expects of them."""
    return view_of(run).picture()


def flows(run: Any) -> dict[str, Any]:
    """Tuples per second on every stream and step, over the last seconds, and what stores hold."""
    view = view_of(run)
    progress, rates, coordinator = view.progress(), run.probe_rates.recent(), run.coordinator
    shares = _window_shares(coordinator)
    latest = progress["batch"] if progress["timestamp"] is not None else None
    streams = {
        stream.name: {
            "rate": round(rates.input.get(stream.name, 0.0), 3),
            "rows": progress["totals"]["input"].get(stream.name, 0),
            "late": progress["totals"]["late"].get(stream.name, 0),
            "rejected": progress["totals"]["rejected"].get(stream.name, 0),
            "lost": progress["totals"]["lost"].get(stream.name, 0),
            "delay": progress["delay"].get(stream.name),
            "backlog": progress["backlog"].get(stream.name),
            "watermark": progress["watermarks"].get(stream.name),
        }
        for stream in coordinator.generation.setup.streams
        if not stream.is_table
    }
    return {
        "generation": coordinator.generation.number,
        "batch": latest,
        "seconds": round(rates.seconds, 3),
        "streams": streams,
        "steps": {label: [round(count.probes, 3), round(count.matches, 3)] for label, count in rates.probes.items()},
        "stores": {store: {**size, "window_share": shares.get(store)} for store, size in progress["stores"].items()},
        "results": {query: round(rate, 3) for query, rate in rates.results.items()},
        "workers": [round(share, 4) for share in rates.worker_shares],
    }


def _window_shares(coordinator: Coordinator) -> dict[str, float]:
    """By store, the part of its window that its rows span: from the earliest event time of a stored row to the latest of all streams."""
    manifest = coordinator.manifest
    horizons = {store.id: store.horizon for store in coordinator.generation.topology.stores}
    newest = max((clock.max_event_time for clock in manifest.clocks.values() if clock.max_event_time is not None), default=None)
    earliest: dict[str, int] = {}
    for record in manifest.containers:
        if record.time_ranges:
            first = min(low for low, _ in record.time_ranges)
            earliest[record.store] = min(first, earliest.get(record.store, first))
    return {
        store: round(max(0.0, min(1.0, (newest - first) / horizon)), 4)
        for store, first in earliest.items()
        if newest is not None and (horizon := horizons.get(store))
    }
