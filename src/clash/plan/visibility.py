"""Which stored rows of earlier batches the steps of a topology may see, as bounds on arrival numbers.

Bounds are all that a topology depends on beside its plan: stores and columns may have been introduced, and queries added, after rows were
stored. What is not named has no bound.

Invariant: a bound is a number in the total order of arrivals, never a file or a generation, because merged files mix rows of several of
both. A bound that lies at or below the oldest live row excludes nothing. It is left out, so a topology has no bounds again once old rows
have expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class VisibilityBounds:
    """Since when stores, columns and queries exist, and how old stored rows are. Stores are named by their ids."""

    introduced: Mapping[str, int] = field(default_factory=dict)
    """By intermediate store: the arrival since which it gets the rows that are completed."""
    filled: frozenset[str] = frozenset()
    """The intermediate stores whose earlier rows have been backfilled since."""
    filling: frozenset[str] = frozenset()
    """The intermediate stores whose backfill is in progress."""
    added: Mapping[str, int] = field(default_factory=dict)
    """By query: the arrival since which it runs, with the windows that it has now."""
    without_history: Mapping[str, int] = field(default_factory=dict)
    """By query without history: the arrival since which it runs. It joins no tuple from before."""
    columns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By base store and column: the arrival since which the column is stored without a gap."""
    oldest: Mapping[str, int] = field(default_factory=dict)
    """By store: the largest bound that is not above the arrival of its oldest row, so that it compares with the bounds as that arrival
    does. A store that is not named has no row."""
