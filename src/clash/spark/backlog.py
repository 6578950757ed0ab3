"""How much a source has that the Spark query has not read yet, as far as the source reports it. Read when a user asks, never by a batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

_FILES = "FileStreamSource"
_KAFKA = "Kafka"


def read_backlog(query: Any, sources: Mapping[str, int], topics: Mapping[str, str] | None = None) -> dict[str, dict[str, int]]:
    """By stream, the unread `files` or `rows` of its sources; nothing for a stream whose sources do not report them. `sources`: of each
    stream that the Spark query reads, in its order, the number of its sources. `topics`: of streams that share a source of Kafka."""
    try:
        execution = query._jsq.streamingQuery()
        if execution.lastExecution() is None:
            return {}
        leaves = [leaf for leaf in _elements(execution.logicalPlan().collectLeaves()) if leaf.isStreaming()]
        last = query._jsq.lastProgress()
        reports = [] if last is None else json.loads(last.json())["sources"]
    except Exception:  # these are internals of Spark, which another version may have renamed, and Spark may have been stopped
        return {}
    if len(leaves) != sum(sources.values()):
        return {}
    numbers: dict[str, int] = {}  # of sources, each of which has one report, by their columns: several streams may be of one source
    owned = [numbers.setdefault(str(leaf.output()), len(numbers)) for leaf in leaves]
    placed = iter([(leaf, reports[at] if len(reports) == len(numbers) else {}) for leaf, at in zip(leaves, owned, strict=True)])
    found = {}
    for stream, number in sources.items():
        parts = [_of_leaf(leaf, report, (topics or {}).get(stream)) for leaf, report in islice(placed, number)]
        known = [part for part in parts if part is not None]
        if known and len(known) == len(parts):
            found[stream] = {unit: sum(part.get(unit, 0) for part in known) for unit in sorted({unit for part in known for unit in part})}
    return found


def _of_leaf(leaf: Any, report: Mapping[str, Any], topic: str | None) -> dict[str, int] | None:
    if str(report.get("description", "")).startswith(_KAFKA):
        return unread_rows(report.get("endOffset"), report.get("latestOffset"), topic)
    try:
        source = leaf.source()
        if source.getClass().getSimpleName() != _FILES:
            return None
        field = source.getClass().getDeclaredField("unreadFiles")
        field.setAccessible(True)
        unread = field.get(source)
        return {"files": 0 if unread is None else int(unread.size())}
    except Exception:  # not a source of this kind, or one of another version
        return None


def unread_rows(end: Any, latest: Any, only: str | None = None) -> dict[str, int] | None:
    """The rows between two offsets of Kafka, by topic and partition; of one topic, if it is given.

    >>> unread_rows({"orders": {"0": 5, "1": 7}}, {"orders": {"0": 9, "1": 7, "2": 3}})
    {'rows': 7}
    """
    if not isinstance(end, Mapping) or not isinstance(latest, Mapping):
        return None
    rows = 0
    for topic, partitions in latest.items():
        if only is not None and topic != only:
            continue
        rows += sum(max(0, offset - end.get(topic, {}).get(partition, 0)) for partition, offset in partitions.items())
    return {"rows": rows}


def _elements(sequence: Any) -> Iterator[Any]:
    for at in range(sequence.size()):
        yield sequence.apply(at)
