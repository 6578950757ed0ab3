"""`batch`: where the time of the last batch went; `history`: the last batches, for charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from clash.server.snapshot.run_view import view_of

_TASK_PARTS = ("source", "ingest", "store", "probe", "route", "shuffle", "sink")
_MAX_POINTS = 300
_SINGLE = 60  # of the newest batches, which are never put together


def batch(run: Any) -> dict[str, Any]:
    """The last batch: its rows and results by name, and its time. `driver`: one after the other, as in the benchmark's waterfall; `tasks`:
    what the tasks did meanwhile, added up over all of them. Spark reports its own parts, and `trigger`, a moment after the batch."""
    progress = view_of(run).progress()
    names = ("batch", "generation", "timestamp", "input", "late", "results", "watermarks")
    return {**{name: progress[name] for name in names}, **_times(progress["seconds"], progress["durationMs"])}


def _times(seconds: Mapping[str, float], spark: Mapping[str, int]) -> dict[str, Any]:
    return {
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
    """The last batches after the batch `after`, oldest first; where they are many, some of the older ones together as one entry, under the
    number of the last: rows and results are added up, delay is the largest, and the time is that of the slowest."""
    view = view_of(run)
    view.progress()
    entries = [entry for entry in list(view.batches) if entry["batch"] > after]
    older = max(0, len(entries) - _SINGLE)
    size = max(1, -(-older // max(1, _MAX_POINTS - _SINGLE)))
    together = [_together(entries[at : min(at + size, older)]) for at in range(0, older, size)]
    return [*together, *(_together([entry]) for entry in entries[older:])]


def _together(entries: list[dict[str, Any]]) -> dict[str, Any]:
    last, slowest = entries[-1], max(entries, key=lambda entry: float(entry["seconds"]["batch"]))
    rows, late, results = Counter[str](), Counter[str](), Counter[str]()
    for entry in entries:
        rows.update(entry["input"])
        late.update(entry["late"])
        results.update(entry["results"])
    return {
        "batch": last["batch"],
        "generation": last["generation"],
        "timestamp": last["timestamp"],
        **_times(slowest["seconds"], slowest["durationMs"]),
        "input": dict(rows),
        "late": dict(late),
        "results": dict(results),
        "stores": {store: size["rows"] for store, size in last["stores"].items()},
        "delay": max((delay for entry in entries for delay in entry["delay"].values()), default=None),
    }
