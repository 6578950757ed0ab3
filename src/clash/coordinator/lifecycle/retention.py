"""What base stores retained, and from which batch on the results of a new query are complete.

Invariant: a query is complete from the first batch whose watermarks have passed everything that may be missing for it: tuples that had been
lost from a store before the query was added, or that came while too few columns or rows were retained. There is, per store, the largest
event time lost, and per stream a log of what its stores retained with the largest event time under it. Every tuple that ever came is under
some entry of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from clash.model.canonical_text import expression_key
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.plan.collection_spec import without_alias
from clash.plan.logical import StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import Topology
from clash.topology.columns import query_attributes

MAX_ENTRIES = 64  # of a stream's log; beyond that the oldest are merged as if nothing had been retained
UNKNOWN_TIME = 1 << 63  # the event time of tuples that were not looked at: after every event time there is
Watermarks = Mapping[str, int | None]


class RowRule(NamedTuple):
    """A row is retained if all filters are true of it, and none of the keys is NULL."""

    filters: frozenset[str]
    keys: frozenset[str]


class Retained(NamedTuple):
    """What one store retains of the tuples of a stream."""

    owner: str | None
    """The owner of the store; None for the shared one."""
    columns: frozenset[str]
    rules: frozenset[RowRule]
    """A row is retained if one of the rules applies."""


@dataclass(frozen=True)
class RetentionEntry:
    """While stores retained this, tuples up to an event time came."""

    retained: frozenset[Retained]
    event_time: int

    def serves(self, query: Query, relation: Relation, owner: str | None) -> bool:
        """Whether the owner's store retained everything that the query needs of the relation."""
        needed, rule = needed_columns(query, relation), _rule(query, relation)
        return any(
            retained.owner == owner
            and needed <= retained.columns
            and any(other.filters <= rule.filters and other.keys <= rule.keys for other in retained.rules)
            for retained in self.retained
        )


RetentionLog = Mapping[str, tuple[RetentionEntry, ...]]  # by stream, oldest entry first


def retained_now(topology: Topology, stream: str) -> frozenset[Retained]:
    """What the stores of a topology retain of a stream's tuples."""
    times = {s.name: s.time for s in topology.streams}
    retained = set()
    for store in topology.stores:
        if store.stream == stream:
            columns = {column.column for column in store.columns} | ({time} if (time := times[stream]) is not None else set())
            rules = frozenset(RowRule(frozenset(map(expression_key, keep.filters)), frozenset(keep.keys)) for keep in store.row_filters)
            retained.add(Retained(store.owner, frozenset(columns), rules))
    return frozenset(retained)


def extend_log(
    log: RetentionLog, topology: Topology, streams: Iterable[Stream], max_event_times: Mapping[str, int], now: int, lost: Mapping[str, int]
) -> dict[str, tuple[RetentionEntry, ...]]:
    """The log after a batch. `max_event_times`: of the batch, by stream; `lost`: by base store, the largest event time that it has lost."""
    read = {stream.name for stream in topology.streams}
    extended = {}
    for stream in streams:
        time = max_event_times.get(stream.name) if stream.name in read else (now if stream.time is None else UNKNOWN_TIME)
        retained = retained_now(topology, stream.name)
        lost_until = {r.owner: lost.get(store_id(StoreKey(stream.name, None, r.owner)), -UNKNOWN_TIME) for r in retained}
        # Entries that do not differ are one; an event time that is still unknown is kept apart.
        entries: dict[tuple[frozenset[Retained], bool], int] = {}
        for entry in log.get(stream.name, ()):
            _add(entries, _still_retained(entry, retained, lost_until), resolve_unknown_time(entry.event_time, stream, max_event_times))
        if time is not None:
            _add(entries, retained, time)
        listed = [RetentionEntry(kept, latest) for (kept, _), latest in entries.items()]
        if len(listed) > MAX_ENTRIES:
            listed[:2] = [RetentionEntry(frozenset(), max(listed[0].event_time, listed[1].event_time))]
        extended[stream.name] = tuple(listed)
    return extended


def _add(entries: dict[tuple[frozenset[Retained], bool], int], retained: frozenset[Retained], event_time: int) -> None:
    """The newest entry comes last."""
    key = retained, event_time == UNKNOWN_TIME
    entries[key] = max(event_time, entries.pop(key, event_time))


def _still_retained(entry: RetentionEntry, now: frozenset[Retained], lost_until: Mapping[str | None, int]) -> frozenset[Retained]:
    """What stores still have of what they retained: a column that one does not retain now is lost for all its rows, and so are rows up to
    the event time that it has lost. A store that no longer exists has nothing."""
    columns = {retained.owner: retained.columns for retained in now if entry.event_time > lost_until[retained.owner]}
    return frozenset(r._replace(columns=r.columns & columns[r.owner]) for r in entry.retained if r.owner in columns)


def resolve_unknown_time(event_time: int, stream: Stream, max_event_times: Mapping[str, int]) -> int:
    """Tuples that were not looked at lie at most the stream's lateness after those that come now, or these would be late."""
    if event_time != UNKNOWN_TIME or stream.lateness is None or stream.name not in max_event_times:
        return event_time
    return max_event_times[stream.name] + stream.lateness


def missing_event_times(query: Query, log: RetentionLog, lost: Mapping[str, int], owner: str | None = None) -> dict[Relation, int]:
    """Per relation the largest event time of a tuple that came before the query and may not be there for it; no entry where all are.
    `owner`: of the stores that the query reads."""
    missing: dict[Relation, int] = {}
    for relation in query.streams:  # a table is always complete
        times = [entry.event_time for entry in log.get(relation.stream, ()) if not entry.serves(query, relation, owner)]
        store = store_id(StoreKey(relation.stream, None, owner))
        times += [lost[store]] if store in lost else []
        if times:
            missing[relation] = max(times)
    return missing


def is_complete(query: Query, missing: Mapping[Relation, int], watermarks: Watermarks) -> bool:
    """Whether the watermarks have passed everything that is missing."""
    reach = query.reach()
    for k, event_time in missing.items():
        for j in query.streams - {k}:
            span, watermark = reach[k, j], watermarks.get(j.stream)
            if span is None or watermark is None or event_time + span >= watermark:
                return False
    return True


def needed_columns(query: Query, relation: Relation) -> frozenset[str]:
    """The columns of the relation that the query reads."""
    return frozenset(attribute.column for attribute in query_attributes(query) if attribute.relation == relation)


def _rule(query: Query, relation: Relation) -> RowRule:
    filters = frozenset(expression_key(without_alias(f)) for f in query.join.sub([relation]).filters)
    return RowRule(filters, frozenset(a.column for equal in query.join.classes for a in equal if a.relation == relation))
