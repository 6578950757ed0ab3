"""Which arrivals an intermediate store is filled with next.

A store that is introduced while the run goes on lacks the rows that were completed before. Its steps therefore have a second branch, over
the parts one after the other, for combinations whose parts all arrived before the introduction. Where the parts expire, that branch ends
with the last of them. Where they do not, the store is filled: ranges of arrivals are probed once more, oldest first.

Invariant: until the backfill reaches the arrival of the introduction, probes ignore backfilled rows (their bound is the introduction), so
each combination belongs to exactly one branch. Then the bound is removed, and with it the second branch. One store is filled at a time, and
at most about `max_rows` tuples per batch, counted in the base stores of its own parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from clash.coordinator.lifecycle.expiry import expires
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
    """The store has all rows whose parts arrived before this arrival."""


Progress = Mapping[str, BackfillProgress]
Introduced = Mapping[str, Introduction]


def filled_stores(introduced: Introduced, progress: Progress) -> frozenset[str]:
    """The stores that have all rows that were completed before they were introduced."""
    return frozenset(
        store
        for store, introduction in introduced.items()
        if (done := progress.get(store)) is not None and (done.generation, done.before) == (introduction.generation, introduction.arrival)
    )


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
        unread = first_copies((record for record in containers if record.last_arrival >= first), layouts)
        scanned = [record.counting_from(first) for part in parts for record in unread if record.store == part]  # of a self-join twice
        return BackfillRange(store.id, first, split_at(scanned, max_rows, introduction.arrival))
    return None


def advance_progress(introduced: Introduced, progress: Progress, ranges: Iterable[BackfillRange]) -> dict[str, BackfillProgress]:
    """The progress after a batch, of the stores that exist."""
    kept = {store: done for store, done in progress.items() if store in introduced and done.generation == introduced[store].generation}
    return kept | {store: BackfillProgress(introduced[store].generation, before) for store, _, before in ranges}
