"""Which arrivals an intermediate store is filled with next, where nothing else would ever end the second branch of its steps.

Invariant: ranges of arrivals are filled one after the other, oldest first, until the arrival is reached with which the store was
introduced; only then does the bound fall, for rows are hidden by it until all of them are there. One store at a time, and about as many
tuples of its parts per batch as rows are moved by a relayout: what other streams got meanwhile does not count. Where the parts expire, the
bound falls by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from clash.coordinator.lifecycle.relayout import expires
from clash.coordinator.lifecycle.split_points import split_at
from clash.coordinator.lifecycle.store_history import Introduction
from clash.plan.logical import StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import Topology
from clash.protocol.containers import BackfillRange, ContainerRecord, LayoutVersion, first_copies, oldest_arrivals


class BackfillProgress(NamedTuple):
    generation: int
    """The generation that introduced the store."""
    before: int
    """The store has the rows of all parts that arrived before."""


Progress = Mapping[str, BackfillProgress]
Introduced = Mapping[str, Introduction]


def filled_stores(introduced: Introduced, progress: Progress) -> frozenset[str]:
    """The stores that have all rows that were completed before they were introduced."""
    return frozenset(store for store, since in introduced.items() if progress.get(store) == (since.generation, since.arrival))


def next_range(
    introduced: Introduced,
    topology: Topology,
    containers: Collection[ContainerRecord],
    layouts: Mapping[str, Sequence[LayoutVersion]],
    progress: Progress,
    max_rows: int,
) -> BackfillRange | None:
    """The range that the next batch fills; None where there is nothing to fill."""
    oldest = oldest_arrivals(containers)
    filled = filled_stores(introduced, progress)
    for store in sorted(topology.stores, key=lambda store: store.id):
        if store.join is None or store.id in filled:
            continue
        introduction = introduced[store.id]
        parts = [store_id(StoreKey(relation.stream, None, store.owner)) for relation in sorted(store.join.relations)]
        oldest_parts = [oldest.get(part, introduction.arrival) for part in parts]
        if max(oldest_parts) >= introduction.arrival or any(expires(topology, part) for part in parts):
            continue  # no combination of older rows is left, or soon none will be
        done = progress.get(store.id)
        # Before the oldest row of some part nothing was completed.
        first = done.before if done is not None and done.generation == introduction.generation else max(oldest_parts)
        unread = first_copies((record for record in containers if record.last >= first), layouts)
        scanned = [record.counting_from(first) for part in parts for record in unread if record.store == part]  # of a self-join twice
        return BackfillRange(store.id, first, split_at(scanned, max_rows, introduction.arrival))
    return None


def advance_progress(introduced: Introduced, progress: Progress, ranges: Iterable[BackfillRange]) -> dict[str, BackfillProgress]:
    """The progress after a batch, of the stores that exist."""
    kept = {store: done for store, done in progress.items() if store in introduced and done.generation == introduced[store].generation}
    return kept | {store: BackfillProgress(introduced[store].generation, before) for store, _, before in ranges}
