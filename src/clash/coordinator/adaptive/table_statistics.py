"""What the planner knows of reference tables: their rows are counted as those of streams, once per version and set of queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from clash.errors import StateError
from clash.plan.collection_spec import CollectionSpec, StreamSpec
from clash.protocol.tables import TableVersion
from clash.statistics import Collected, merge
from clash.statistics.table_counts import count_table

ReadVersion = Callable[[TableVersion], pa.Table | None]
"""The rows of a version; None if it has none."""


class _Counted(NamedTuple):
    version: int
    spec: StreamSpec | None
    counts: Collected


class TableStatistics:
    """`versions`: by table, the newest; `read`: the rows of one."""

    def __init__(self, versions: Callable[[], Mapping[str, TableVersion]], read: ReadVersion, timezone: str) -> None:
        self._versions, self._read, self._timezone = versions, read, timezone
        self._counted: dict[str, _Counted] = {}

    def collected(self, spec: CollectionSpec) -> Collected:
        """Takes a while where a table has changed. A version whose files are replaced meanwhile is left out."""
        counted = {}
        for name, version in self._versions().items():
            last = self._counted.get(name)
            if last is None or (last.version, last.spec) != (version.number, spec.streams.get(name)):
                try:
                    rows = self._read(version)
                except StateError:
                    continue
                counts = Collected() if rows is None else count_table(spec, name, rows, self._timezone)
                last = _Counted(version.number, spec.streams.get(name), counts)
            counted[name] = last
        self._counted = counted
        return merge(entry.counts for entry in counted.values())
