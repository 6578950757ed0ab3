"""Which part of the past an intermediate store is filled with next, where nothing would ever end the second branch of its steps.

Invariant: ranges of arrivals are filled one after the other, oldest first, until the store's beginning is reached; only then does the bound
fall, for rows are hidden by it until all are there. One store at a time, and about as many tuples of its parts per batch as are rewritten:
what other streams got meanwhile does not count. Where the parts expire, the bound falls by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from clash.coordinator.checkpoint.generation import Generation, oldest_arrivals
from clash.coordinator.lifecycle.split_points import cut, one_copy
from clash.coordinator.lifecycle.relayout import expires
from clash.protocol.batch import ContainerRecord, Laid
from clash.planner.orders import StoreKey
from clash.topology import Topology
from clash.plan.store_names import store_id

Piece = tuple[str, int, int]  # an intermediate store, the arrivals from, and to before, that are probed once more
Progress = Mapping[str, tuple[int, int]]  # per store the generation that introduced it, and the arrival that is filled in up to


def filled(generation: Generation, progress: Progress) -> frozenset[str]:
    """The stores that have all that was completed before them."""
    return frozenset(s for s, begun in generation.introduced.items() if s in progress and progress[s] == (begun.generation, begun.arrival))


def next_piece(
    generation: Generation,
    topology: Topology,
    containers: Collection[ContainerRecord],
    layouts: Mapping[str, Sequence[Laid]],
    progress: Progress,
    most: int,
) -> Piece | None:
    oldest = oldest_arrivals(containers)
    done = filled(generation, progress)
    for store in sorted(topology.stores, key=lambda store: store.id):
        if store.join is None or store.id in done:
            continue
        begun = generation.introduced[store.id]
        parts = [store_id(StoreKey(relation.stream, None, store.owner)) for relation in sorted(store.join.relations)]
        older = [oldest.get(part, begun.arrival) for part in parts]
        if max(older) >= begun.arrival or any(expires(topology, part) for part in parts):
            continue  # no combination of old rows is left, or soon none will be
        known, upto = progress.get(store.id, (-1, 0))
        first = upto if known == begun.generation else max(older)  # before that some part has no row, so nothing was completed
        found = one_copy((record for record in containers if record.last >= first), layouts)
        replayed = [record.since(first) for part in parts for record in found if record.store == part]  # of a self join twice
        return store.id, first, cut(replayed, most, begun.arrival)
    return None


def advanced(generation: Generation, progress: Progress, pieces: Iterable[Piece]) -> dict[str, tuple[int, int]]:
    """The progress after a batch, of stores that there are."""
    begun = generation.introduced
    found = {store: at for store, at in progress.items() if store in begun and at[0] == begun[store].generation}
    return found | {store: (begun[store].generation, upto) for store, _, upto in pieces}
