"""Which containers of older generations a batch rewrites into today's layout.

Invariant: a row leaves all slots of its old generation in the very commit that adds it to today's. Where a generation had a row more than
once (several layouts, or a copy on every worker), it is therefore rewritten as a whole; else container by container. What expires by
itself is left alone. So the work per batch is bounded, and at some time every store has one generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clash.driver.work import ContainerRecord, Laid
from clash.model.layout import ALL
from clash.topology import Topology


def choose(
    containers: Iterable[ContainerRecord],
    topology: Topology,
    layouts: Mapping[str, tuple[Laid, ...]],
    most: int,
) -> tuple[str, ...]:
    """Paths, oldest first: about `most` rows, and at least one container if there is any."""
    old: dict[tuple[int, str], list[ContainerRecord]] = {}
    for record in containers:
        if record.generation != layouts[record.store][-1].generation and not expires(topology, record.store):
            old.setdefault((record.generation, record.store), []).append(record)
    chosen: list[str] = []
    rows = 0
    for (generation, store), records in sorted(old.items()):
        laid = next(laid for laid in layouts[store] if laid.generation == generation)
        whole = len(laid.layouts) > 1 or ALL in laid.layouts
        for piece in [records] if whole else [[record] for record in records]:
            if chosen and rows + sum(record.rows for record in piece) > most:
                return tuple(chosen)
            rows += sum(record.rows for record in piece)
            chosen += [record.path for record in piece]
    return tuple(chosen)


def expires(topology: Topology, store: str) -> bool:
    """Do its rows go by themselves, since windows bound them and watermarks move?"""
    return topology.store[store].horizon is not None and all(stream.lateness is not None for stream in topology.streams)
