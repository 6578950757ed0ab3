"""Which rows of older generations a batch rewrites into today's layout.

Invariant: a row leaves all slots of its old generation, all copies of it, in the very commit that adds it to today's. A piece is therefore
a range of arrivals, not of files: what a store has of a generation up to an arrival moves, and of each of its containers only the rows
from there on count any more. Where nothing expires, every store has one generation at some time; where rows expire by themselves, a few
older ones are left alone, and of many the smallest move, so that changes that come often do not pile up. The work per batch is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from clash.coordinator.lifecycle.split_points import before, cut, left, one_copy
from clash.protocol.batch import ContainerRecord, Laid, Moved, Tuning
from clash.topology import Topology


def choose(
    containers: Iterable[ContainerRecord], topology: Topology, layouts: Mapping[str, tuple[Laid, ...]], tuning: Tuning
) -> tuple[Moved, ...]:
    """About `rewrite_rows` rows, the oldest generations first, and some if there are any."""
    old: dict[tuple[int, str], list[ContainerRecord]] = {}
    for record in one_copy(containers, layouts):
        if record.generation != layouts[record.store][-1].generation:
            old.setdefault((record.generation, record.store), []).append(record)
    moved: list[Moved] = []
    room = float(tuning.rewrite_rows)
    for generation, store in sorted(_burdens(old, topology, tuning.generations)):
        records = old[generation, store]
        upto = cut(records, room, max(record.last for record in records) + 1)
        room -= before(records, upto)
        moved.append(Moved(store, generation, upto))
        if room <= 0:
            break
    return tuple(moved)


def trimmed(record: ContainerRecord, moved: Iterable[Moved]) -> ContainerRecord | None:
    """What is left of a container when rows have moved; None for nothing."""
    for store, generation, upto in moved:
        if (store, generation) == (record.store, record.generation):
            record = record.since(upto)
    return record if record.last >= record.oldest else None


def expires(topology: Topology, store: str) -> bool:
    """Do its rows go by themselves, since windows bound them and watermarks move?"""
    return topology.store[store].horizon is not None and all(stream.lateness is not None for stream in topology.streams)


def _burdens(old: Mapping[tuple[int, str], Sequence[ContainerRecord]], topology: Topology, most: int) -> Iterator[tuple[int, str]]:
    """All but the `most` largest generations of stores that expire, and all of the others."""
    by_store: dict[str, list[tuple[float, int]]] = {}
    for (generation, store), records in old.items():
        by_store.setdefault(store, []).append((sum(map(left, records)), generation))
    for store, sized in by_store.items():
        kept = most if expires(topology, store) else 0
        yield from ((generation, store) for _, generation in sorted(sized, reverse=True)[kept:])
