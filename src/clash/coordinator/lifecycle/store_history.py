"""Since when each part of the state has been what it is, and what follows for the stored rows that a step may see.

Invariant: an intermediate store keeps its introduction as long as every generation has it: one that was dropped and comes back is a new
one. A column counts as retained since it was last missing, a layout since it was last another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clash.plan.topology import Topology
from clash.plan.visibility import VisibilityBounds
from clash.protocol.containers import ContainerRecord, LayoutVersion, oldest_arrivals


class Introduction(NamedTuple):
    """When an intermediate store began."""

    generation: int
    arrival: int
    """The first arrival under that generation."""


@dataclass(frozen=True)
class StoreHistory:
    """Of the stores of one generation."""

    introduced: Mapping[str, Introduction] = field(default_factory=dict)
    """By intermediate store."""
    columns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By base store and column, the arrival since which every row has the column. Earlier versions did not record the stores of streams
    with keep="all", whose columns could not change."""
    layouts: Mapping[str, LayoutVersion] = field(default_factory=dict)
    """By store, its layouts today and the generation since which it has them."""
    for_refining: bool = False
    """Whether rows of intermediate stores have the columns of all queries that refine the store's join. Earlier versions kept those of
    queries that contain it as it is."""

    def next(
        self,
        topology: Topology,
        generation: int,
        arrival: int,
        bootstraps: Mapping[str, str],
        same_rows: bool,
        previous: Topology | None = None,
    ) -> StoreHistory:
        """The history under the generation that begins with `arrival`. `bootstraps`: by new store, the store that it begins with a copy of.
        Unless `same_rows`, rows of intermediate results have other columns than before, so all intermediate stores are new; those of
        an earlier version are, too. `previous`: the
        topology that this history is of."""
        before = self.introduced if same_rows and self.for_refining else {}
        now = Introduction(generation, arrival)
        introduced = {store.id: before.get(store.id, now) for store in topology.stores if store.join is not None}
        layouts = {}
        for store in topology.stores:
            today = LayoutVersion(generation, store.layouts, topology.workers)
            last = self.layouts.get(store.id)
            is_new = last is None or store.id in bootstraps or introduced.get(store.id) == now
            layouts[store.id] = today if last is None or is_new or last[1:] != today[1:] else last
        return StoreHistory(introduced, self._columns(topology, arrival, bootstraps, previous), layouts, for_refining=True)

    def _columns(
        self, topology: Topology, arrival: int, bootstraps: Mapping[str, str], previous: Topology | None
    ) -> dict[str, dict[str, int]]:
        unrecorded = {} if previous is None else {s.id: {c.column: 0 for c in s.columns} for s in previous.stores if s.stream is not None}
        columns = {}
        for store in topology.stores:
            if store.stream is not None:
                source = bootstraps.get(store.id, store.id)
                before = self.columns.get(source, unrecorded.get(source, {}))
                columns[store.id] = {column.column: before.get(column.column, arrival) for column in store.columns}
        return columns

    def visibility(
        self,
        containers: Iterable[ContainerRecord],
        added: Mapping[str, int],
        without_history: Mapping[str, int],
        first_arrival: int,
        filled: frozenset[str],
        filling: frozenset[str],
    ) -> VisibilityBounds:
        """Which stored rows the steps of each query may see. `added`: by query, its first arrival under its present windows;
        `without_history`: by query without history, its first arrival; `filled` and `filling`: the intermediate stores whose earlier rows
        were filled in, or are being.

        Of the containers' ages only how they compare with the bounds goes in, so that the bounds, and with them the topology, stay the same
        from batch to batch."""
        oldest = oldest_arrivals(containers)
        oldest_arrival = min(oldest.values(), default=first_arrival)
        introduced = {store: since.arrival for store, since in self.introduced.items() if since.arrival > oldest_arrival}
        bounded_queries = {query: arrival for query, arrival in added.items() if arrival > oldest_arrival}
        fresh = {query: arrival for query, arrival in without_history.items() if arrival > oldest_arrival}
        columns = {
            store: bounded
            for store, since_by_column in self.columns.items()
            if (bounded := {name: since for name, since in since_by_column.items() if since > oldest_arrival})
        }
        bounds = {
            *introduced.values(),
            *bounded_queries.values(),
            *fresh.values(),
            *(since for by_column in columns.values() for since in by_column.values()),
        }
        if not bounds:
            return VisibilityBounds()
        oldest_bounds = {store: max((bound for bound in bounds if bound <= first), default=0) for store, first in oldest.items()}
        return VisibilityBounds(introduced, filled & introduced.keys(), filling, bounded_queries, fresh, columns, oldest_bounds)
