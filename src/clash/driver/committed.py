"""What a committed batch did, for whoever shows or hands over its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clash.driver.work import ContainerRecord


@dataclass(frozen=True)
class Committed:
    """`results`: per query, the full names of the batch's result files. `seconds` are summed over tasks."""

    batch: int
    results: Mapping[str, tuple[str, ...]]
    counts: Mapping[str, int]
    input: Mapping[str, int]
    late: Mapping[str, int]
    stores: Mapping[str, Mapping[str, int]]
    seconds: Mapping[str, float]
    watermarks: Mapping[str, int | None]
    generation: int = 0


def tell(reports: Sequence[Mapping[str, Any]], files: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of a batch's reports, as its manifest keeps them."""
    counts: Counter[str] = Counter()
    for file in files:
        counts[file["destination"]] += file["rows"]
    seconds: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    late: Counter[str] = Counter()
    for report in reports:
        seconds.update(report["seconds"])
        if report["kind"] == "ingest":
            rows.update(report["rows"])
            late.update(report["late"])
    return {"counts": dict(counts), "input": dict(rows), "late": dict(late), "seconds": {k: round(v, 6) for k, v in seconds.items()}}


def sizes(containers: Iterable[ContainerRecord]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for record in containers:
        store = found.setdefault(record.store, {"rows": 0, "bytes": 0, "containers": 0})
        store["rows"] += record.rows
        store["bytes"] += record.bytes
        store["containers"] += 1
    return found
