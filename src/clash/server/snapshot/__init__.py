"""A run as plain data that JSON can hold: what the page shows and the API returns. Nothing here changes or delays a run.

| module | what it holds |
|---|---|
| `run_view` | what is kept of a run between two snapshots, so that a snapshot is cheap |
| `overview` | `status`: whether it runs, how fast, what it holds |
| `structure` | `topology`: streams, stores, probe steps; `flows`: the tuples on them, and the rows in stores |
| `live_queries` | `queries`: rate, results, latency, completeness |
| `batches` | `batch`: where the time of the last batch went; `history`: the last batches |
| `plans` | `generations`, and `quality`: what the running plan costs beside others |
| `last_results` | `results`: the last results of a query |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clash.server.snapshot.batches import batch, history
from clash.server.snapshot.live_queries import queries
from clash.server.snapshot.overview import hide_status, status
from clash.server.snapshot.plans import generations, quality
from clash.server.snapshot.structure import flows, topology

__all__ = ["EVENTS", "batch", "flows", "generations", "hide_status", "history", "quality", "queries", "status", "topology"]

EVENTS: Mapping[str, Callable[[Any], Any]] = {
    "status": status,
    "topology": topology,
    "flows": flows,
    "queries": queries,
    "batch": batch,
    "generations": generations,
    "quality": quality,
}
"""By name of an event, the snapshot that it has; `/api/events` sends each when it has changed."""
