"""What stored rows of earlier batches lack, as bounds on arrival numbers: all that a topology has to know of its past.

Invariant: a bound is a number in the total order of arrivals, never a file or a generation, because merged files mix both. A bound that
lies at or below the oldest row that is still live bounds nothing; it is left out, so a topology is plain again when old rows have expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class VisibilityBounds:
    """`introduced`: since when an intermediate store has the rows that are completed; `filled`: those whose earlier rows were filled in
    since; `filling`: those where that is under way. `added`: since when a query is asked; `fresh`: the queries that want no tuple from
    before that. `columns`: per base store, since when a column is kept without a gap. `oldest`: per store the smallest arrival of any
    live row; a store that is not named has none. What is not named was always there."""

    introduced: Mapping[str, int] = field(default_factory=dict)
    filled: frozenset[str] = frozenset()
    filling: frozenset[str] = frozenset()
    added: Mapping[str, int] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    columns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    oldest: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "introduced": dict(self.introduced),
            "filled": sorted(self.filled),
            "filling": sorted(self.filling),
            "added": dict(self.added),
            "fresh": sorted(self.fresh),
            "columns": {store: dict(columns) for store, columns in self.columns.items()},
            "oldest": dict(self.oldest),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> VisibilityBounds:
        return VisibilityBounds(
            data["introduced"],
            frozenset(data["filled"]),
            frozenset(data["filling"]),
            data["added"],
            frozenset(data["fresh"]),
            data["columns"],
            data["oldest"],
        )
