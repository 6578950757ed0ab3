"""`batch`: where the time of the last batch went; `history`: the last batches, for charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from clash.server.snapshot.run_view import view_of

_TASK_PARTS = ("source", "ingest", "store", "probe", "route", "shuffle", "sink")
_MAX_POINTS = 300


def batch(run: Any) -> dict[str, Any]:
    """The last batch: its rows and results by name, and its time. `driver`: one after the other, as in the benchmark's waterfall; `tasks`:
    what the tasks did meanwhile, added up over all of them."""
    progress = view_of(run).progress()
    seconds, spark = progress["seconds"], progress["durationMs"]
    return {
        **{name: progress[name] for name in ("batch", "generation", "timestamp", "input", "late", "results", "watermarks")},
        "driver": _driver(seconds, spark),
        "tasks": {part: round(seconds[part], 4) for part in _TASK_PARTS if part in seconds},
        "seconds": round(seconds.get("batch", 0.0), 4),
        "trigger": spark.get("triggerExecution", 0) / 1000 or None,
    }


def _driver(seconds: Mapping[str, float], spark: Mapping[str, int]) -> dict[str, float]:
    """The parts of a trigger in their order: Spark's before the batch, ours, and what is left of the trigger."""
    before = sum(spark.get(part, 0) for part in ("latestOffset", "getBatch", "queryPlanning", "walCommit")) / 1000
    ours = {part: seconds.get(part, 0.0) for part in ("decide", "job", "commit")}
    sinks = max(0.0, seconds.get("batch", 0.0) - sum(ours.values()))
    trigger = spark.get("triggerExecution", 0) / 1000
    after = max(0.0, trigger - before - seconds.get("batch", 0.0)) if trigger else 0.0
    parts = {"offsets": before, **ours, "sinks": sinks, "spark": after}
    return {name: round(value, 4) for name, value in parts.items()} if seconds else {}


def history(run: Any, after: int = -1) -> list[dict[str, Any]]:
    """The last batches after the batch `after`, oldest first; where they are many, some of them together as one entry, under the number of
    the last: rows and results are added up, seconds and delay are the largest."""
    view = view_of(run)
    view.progress()
    entries = [entry for entry in list(view.batches) if entry["batch"] > after]
    size = max(1, -(-len(entries) // _MAX_POINTS))
    return [_together(entries[at : at + size]) for at in range(0, len(entries), size)]


def _together(entries: list[dict[str, Any]]) -> dict[str, Any]:
    last = entries[-1]
    rows, results = Counter[str](), Counter[str]()
    for entry in entries:
        rows.update(entry["input"])
        results.update(entry["results"])
    return {
        "batch": last["batch"],
        "generation": last["generation"],
        "timestamp": last["timestamp"],
        "seconds": round(max(entry["seconds"]["batch"] for entry in entries), 4),
        "input": dict(rows),
        "results": dict(results),
        "stores": {store: size["rows"] for store, size in last["stores"].items()},
        "delay": max((delay for entry in entries for delay in entry["delay"].values()), default=None),
    }
