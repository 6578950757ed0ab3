"""Which rows of older layouts a batch moves into today's layout.

Invariant: a row leaves all slots and all copies of its old layout in the very commit that adds it to today's. What moves is therefore a
range of arrivals, not of files: what a store has under a generation's layout up to an arrival moves, and of each of its containers only the
rows from there on still count. Where rows do not expire, every store has one layout in the end; where they expire by themselves, a few
older layouts are left alone, and of many the smallest move, so that frequent changes do not accumulate. The work per batch is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from clash.coordinator.lifecycle.expiry import expires
from clash.coordinator.lifecycle.split_points import remaining_rows, rows_before, split_at
from clash.plan.topology import Topology
from clash.protocol.batch import Tuning
from clash.protocol.containers import ContainerRecord, LayoutVersion, RelayoutRange, first_copies


def choose_relayouts(
    containers: Iterable[ContainerRecord], topology: Topology, layouts: Mapping[str, tuple[LayoutVersion, ...]], tuning: Tuning
) -> tuple[RelayoutRange, ...]:
    """About `relayout_rows` rows, the oldest layouts first, and at least some if any are to move."""
    older: dict[tuple[int, str], list[ContainerRecord]] = {}
    for record in first_copies(containers, layouts):
        if record.generation != layouts[record.store][-1].generation:
            older.setdefault((record.generation, record.store), []).append(record)
    ranges: list[RelayoutRange] = []
    budget = float(tuning.relayout_rows)
    for generation, store in sorted(_to_move(older, topology, tuning.old_layouts)):
        records = older[generation, store]
        before = split_at(records, budget, max(record.last_arrival for record in records) + 1)
        budget -= rows_before(records, before)
        ranges.append(RelayoutRange(store, generation, before))
        if budget <= 0:
            break
    return tuple(ranges)


def _to_move(older: Mapping[tuple[int, str], Sequence[ContainerRecord]], topology: Topology, old_layouts: int) -> Iterator[tuple[int, str]]:
    """The generations and stores whose rows move: of stores that expire all but the `old_layouts` largest, of the others all."""
    by_store: dict[str, list[tuple[float, int]]] = {}
    for (generation, store), records in older.items():
        by_store.setdefault(store, []).append((sum(map(remaining_rows, records)), generation))
    for store, sizes in by_store.items():
        left_alone = old_layouts if expires(topology, store) else 0
        yield from ((generation, store) for _, generation in sorted(sizes, reverse=True)[left_alone:])
