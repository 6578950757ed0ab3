"""When a container is dead: no query can match any of its rows any more.

Invariant: for every live query that reads the store, and every alias j outside the row, min over the row's parts k of τ_k + D[k, j] lies
below the watermark of j's stream. All streams of the query count, not only neighbours, and the own one in a self-join. A container
is judged by its largest event time per part, so it is dead only if all its rows are. A store that no live query reads is dead as a
whole, and so is what an intermediate store held before it was last introduced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from clash.coordinator.checkpoint.generation import Begun
from clash.protocol.batch import ContainerRecord
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.topology import Topology
from clash.plan.topology import Store

Watermarks = Mapping[str, int | None]
Need = tuple[dict[int, int | None], str]  # part number → D[k, j], and j's stream


class Expiry:
    """The needs of every store, worked out once per generation. `streams`: all that are declared, read or not."""

    def __init__(self, topology: Topology, streams: Iterable[Stream], introduced: Mapping[str, Begun]) -> None:
        self.topology, self.introduced = topology, introduced
        self.needs = {store.id: list(self._needs(store)) for store in topology.stores}
        all_kept = {stream.name: stream for stream in streams if stream.keep == "all"}
        self.held = {store.id: all_kept[store.stream] for store in topology.stores if store.stream in all_kept}

    def dead(self, record: ContainerRecord, watermarks: Watermarks) -> bool:
        held = self.held.get(record.store)
        if held is not None and not self._released(held, record.taus[0][1], watermarks):
            return False
        if record.store not in self.topology.store:
            return True
        begun = self.introduced.get(record.store)
        if begun is not None and record.generation < begun.generation:
            return True
        if not record.taus:
            return False
        latest = [largest for _, largest in record.taus]
        return all(_passed(latest, spans, watermarks.get(stream)) for spans, stream in self.needs[record.store])

    def _released(self, stream: Stream, tau: int, watermarks: Watermarks) -> bool:
        """keep="all": a tuple is kept for its declared window as if it were joined with every stream that is read."""
        marks = [watermarks.get(s.name) for s in self.topology.streams]
        return stream.window is not None and all(mark is not None and tau + stream.window < mark for mark in marks)

    def _needs(self, store: Store) -> Iterator[Need]:
        for query in self.topology.queries:
            if store.owner not in (None, query.name) or len(query.join.relations) < 2:
                continue
            reach = query.reach()
            for parts in self._roles(store, query.join.relations) if store.join is None else [_parts(store, query.contains(store.join))]:
                for j in query.join.relations - set(parts) if parts else ():
                    yield {at: reach[k, j] for at, k in enumerate(parts)}, j.stream

    def _roles(self, store: Store, relations: frozenset[Relation]) -> Iterator[list[Relation]]:
        yield from ([relation] for relation in sorted(relations) if relation.stream == store.stream)


def _parts(store: Store, contained: bool) -> list[Relation]:
    return sorted(store.join.relations) if store.join is not None and contained else []


def _passed(latest: list[int], spans: dict[int, int | None], mark: int | None) -> bool:
    ends = [latest[at] + span for at, span in spans.items() if span is not None]
    return mark is not None and bool(ends) and min(ends) < mark
