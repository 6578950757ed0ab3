"""When a container has expired: no query can match any of its rows any more.

Invariant: for every live query that reads the store, and every alias j outside the row, min over the row's parts k of τ_k + D[k, j] lies
below the watermark of j's stream. All streams of the query count, not only neighbours, and the own one in a self-join. A container is
judged by its largest event time per part, so it has expired only if all its rows have. A store that no live query reads has expired as a
whole, and so has what an intermediate store held before it was last introduced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from clash.coordinator.lifecycle.store_history import Introduction
from clash.model.stream import Stream
from clash.plan.topology import Store, Topology
from clash.protocol.containers import ContainerRecord

Watermarks = Mapping[str, int | None]


class _Need(NamedTuple):
    """A query may still match rows of a store with tuples of `stream` while `stream`'s watermark has not passed the row's parts."""

    spans: Mapping[int, int | None]
    """By the number of a part, D[k, j]; None where nothing bounds it."""
    stream: str


class Expiry:
    """The needs of every store, worked out once per generation. `streams`: all that are declared, read or not."""

    def __init__(self, topology: Topology, streams: Iterable[Stream], introduced: Mapping[str, Introduction]) -> None:
        self.topology, self.introduced = topology, introduced
        self.needs = {store.id: list(self._needs(store)) for store in topology.stores}
        retained = {stream.name: stream for stream in streams if stream.keep == "all"}
        self.retained = {store.id: retained[store.stream] for store in topology.stores if store.stream in retained}

    def has_expired(self, record: ContainerRecord, watermarks: Watermarks) -> bool:
        retained = self.retained.get(record.store)
        if retained is not None and not self._released(retained, record.time_ranges[0][1], watermarks):
            return False
        if record.store not in self.topology.store:
            return True
        introduction = self.introduced.get(record.store)
        if introduction is not None and record.generation < introduction.generation:
            return True
        if not record.time_ranges:
            return False
        latest = [largest for _, largest in record.time_ranges]
        return all(_has_passed(watermarks.get(need.stream), latest, need.spans) for need in self.needs[record.store])

    def _released(self, stream: Stream, event_time: int, watermarks: Watermarks) -> bool:
        """keep="all": a tuple is retained for its declared window as if it were joined with every stream that is read."""
        marks = [watermarks.get(s.name) for s in self.topology.arriving]
        return stream.window is not None and all(mark is not None and event_time + stream.window < mark for mark in marks)

    def _needs(self, store: Store) -> Iterator[_Need]:
        for query in self.topology.queries:
            if store.owner not in (None, query.name) or len(query.streams) < 2:
                continue
            reach = query.reach()
            if store.join is None:
                roles = [[relation] for relation in sorted(query.streams) if relation.stream == store.stream]
            else:
                roles = [sorted(store.join.relations)] if query.refines(store.join) else []
            for parts in roles:
                for j in query.streams - set(parts):
                    yield _Need({at: reach[k, j] for at, k in enumerate(parts)}, j.stream)


def _has_passed(watermark: int | None, latest: list[int], spans: Mapping[int, int | None]) -> bool:
    """Whether the watermark lies beyond everything that the row's parts can be matched with."""
    ends = [latest[at] + span for at, span in spans.items() if span is not None]
    return watermark is not None and bool(ends) and min(ends) < watermark


def expires(topology: Topology, store: str) -> bool:
    """Whether the rows of a store expire by themselves: windows bound them, and watermarks move."""
    return topology.store[store].horizon is not None and all(stream.lateness is not None for stream in topology.arriving)
