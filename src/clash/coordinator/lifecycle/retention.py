"""What base stores kept, and from which batch on the results of a new query are complete.

Invariant: `complete_from` is the first batch whose watermarks have passed whatever may be missing for the query: tuples that had gone from
the store before it was asked, or that came while too few columns or rows were kept. Per store: the largest event time gone; per stream: a
log of what its stores kept, with the largest event time under it. Every tuple that ever came is under some entry of the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clash.model.expressions import Expr, to_json
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.planner.orders import StoreKey
from clash.topology import Topology
from clash.topology.columns import named
from clash.plan.store_names import store_id
from clash.topology.stores import as_stored

MOST = 64  # entries of a stream's log; beyond that the oldest are told as if nothing had been kept
UNREAD = 1 << 63  # the event time of tuples that nobody looked at: after every one that there is
Rule = tuple[frozenset[str], frozenset[str]]  # filters that must be true, keys that must not be NULL
Kept = tuple[str | None, frozenset[str], frozenset[Rule]]  # a store's owner, its columns, its row filters
Marks = Mapping[str, int | None]


@dataclass(frozen=True)
class Entry:
    """While these stores kept this, tuples up to `tau` came."""

    kept: frozenset[Kept]
    tau: int

    def serves(self, query: Query, relation: Relation, owner: str | None) -> bool:
        """Did the owner's store keep all that the query needs of the relation?"""
        needed, (filters, keys) = needs(query, relation), _rule(query, relation)
        return any(
            mine == owner and needed <= names and any(f <= filters and k <= keys for f, k in rules) for mine, names, rules in self.kept
        )

    def to_json(self) -> list[Any]:
        kept = [[owner, sorted(names), sorted([sorted(f), sorted(k)] for f, k in rules)] for owner, names, rules in self.kept]
        return [sorted(kept, key=str), self.tau]

    @staticmethod
    def from_json(data: list[Any]) -> Entry:
        kept = frozenset(
            (owner, frozenset(names), frozenset((frozenset(f), frozenset(k)) for f, k in rules)) for owner, names, rules in data[0]
        )
        return Entry(kept, data[1])


Log = Mapping[str, tuple[Entry, ...]]


def keeping(topology: Topology, stream: str) -> frozenset[Kept]:
    """What is kept of a stream's tuples under a topology."""
    times = {s.name: s.time for s in topology.streams}
    found = set()
    for store in topology.stores:
        if store.stream == stream:
            names = {column.column for column in store.columns} | ({time} if (time := times[stream]) is not None else set())
            rules = frozenset((frozenset(map(_text, keep.filters)), frozenset(keep.keys)) for keep in store.keeps)
            found.add((store.owner, frozenset(names), rules))
    return frozenset(found)


def note(
    log: Log, topology: Topology, streams: Iterable[Stream], highs: Mapping[str, int], now: int, gone: Mapping[str, int]
) -> dict[str, tuple[Entry, ...]]:
    """The log after a batch, with the largest event times that the batch had."""
    read = {stream.name for stream in topology.streams}
    found = {}
    for stream in streams:
        tau = highs.get(stream.name) if stream.name in read else (now if stream.time is None else UNREAD)
        kept = keeping(topology, stream.name)
        left = {owner: gone.get(store_id(StoreKey(stream.name, None, owner)), -UNREAD) for owner, _, _ in kept}
        entries: dict[tuple[frozenset[Kept], bool], int] = {}  # those that differ in nothing are one; a time to be known is not a time
        for entry in log.get(stream.name, ()):
            _add(entries, _left(entry, kept, left), settled(entry.tau, stream, highs))
        if tau is not None:
            _add(entries, kept, tau)
        told = [Entry(some, latest) for (some, _), latest in entries.items()]
        if len(told) > MOST:
            told[:2] = [Entry(frozenset(), max(told[0].tau, told[1].tau))]
        found[stream.name] = tuple(told)
    return found


def _add(entries: dict[tuple[frozenset[Kept], bool], int], kept: frozenset[Kept], tau: int) -> None:
    """The newest comes last."""
    key = kept, tau == UNREAD
    entries[key] = max(tau, entries.pop(key, tau))


def _left(entry: Entry, now: frozenset[Kept], gone: Mapping[str | None, int]) -> frozenset[Kept]:
    """What stores still have of what they kept: a column that one does not keep now is lost for all its rows; `gone`, by owner: those up to
    that time may be. A store that is not there has nothing."""
    today = {owner: names for owner, names, _ in now if entry.tau > gone[owner]}
    return frozenset((owner, names & today[owner], rules) for owner, names, rules in entry.kept if owner in today)


def settled(tau: int, stream: Stream, highs: Mapping[str, int]) -> int:
    """Tuples that nobody looked at lie at most the stream's lateness after those that come now, or these would be late."""
    known = tau != UNREAD or stream.lateness is None or stream.name not in highs
    return tau if known or stream.lateness is None else highs[stream.name] + stream.lateness


def missing(query: Query, log: Log, gone: Mapping[str, int], owner: str | None = None) -> dict[Relation, int]:
    """Per relation the largest event time of a tuple that came before the query and may not be there for it; none if all are. `owner`: of
    the stores that it reads."""
    found: dict[Relation, int] = {}
    for relation in query.join.relations:
        taus = [entry.tau for entry in log.get(relation.stream, ()) if not entry.serves(query, relation, owner)]
        store = store_id(StoreKey(relation.stream, None, owner))
        taus += [gone[store]] if store in gone else []
        if taus:
            found[relation] = max(taus)
    return found


def is_complete(query: Query, lacking: Mapping[Relation, int], marks: Marks) -> bool:
    """Have the watermarks passed all that is missing?"""
    reach = query.reach()
    for k, tau in lacking.items():
        for j in query.join.relations - {k}:
            span, mark = reach[k, j], marks.get(j.stream)
            if span is None or mark is None or tau + span >= mark:
                return False
    return True


def needs(query: Query, relation: Relation) -> frozenset[str]:
    """The columns of the relation that the query reads."""
    return frozenset(attribute.column for attribute in named(query) if attribute.relation == relation)


def _rule(query: Query, relation: Relation) -> Rule:
    filters = frozenset(_text(as_stored(f)) for f in query.join.sub([relation]).filters)
    return filters, frozenset(a.column for equal in query.join.classes for a in equal if a.relation == relation)


def _text(expression: Expr) -> str:
    return json.dumps(to_json(expression))
