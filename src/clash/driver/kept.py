"""What base stores kept, and from which batch on the results of a new query are complete.

Invariant: `complete_from` is the first batch whose watermarks have passed whatever may be missing for the query: tuples that had gone from
the store before it was asked, or that came while too few columns or rows were kept. Per stream: the largest event time gone, and a log of
what was kept with the largest event time under it.
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
from clash.topology import Topology
from clash.topology.columns import named
from clash.topology.stores import as_stored

MOST = 64  # entries of a stream's log; beyond that the oldest are told as if nothing had been kept
UNREAD = 1 << 62  # the event time of tuples that nobody looked at
Rule = tuple[frozenset[str], frozenset[str]]  # filters that must be true, keys that must not be NULL
Kept = tuple[str | None, frozenset[str], frozenset[Rule]]  # a store's owner, its columns, its row filters
Marks = Mapping[str, int | None]


@dataclass(frozen=True)
class Entry:
    """While these stores kept this, tuples up to `tau` came."""

    kept: frozenset[Kept]
    tau: int

    def serves(self, query: Query, relation: Relation) -> bool:
        """Did some store keep all that the query needs of the relation?"""
        needs, (filters, keys) = _needs(query, relation), _rule(query, relation)
        return any(
            owner in (None, query.name) and needs <= names and any(f <= filters and k <= keys for f, k in rules)
            for owner, names, rules in self.kept
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
        entries = [Entry(_left(entry.kept, kept), settled(entry.tau, stream, highs)) for entry in log.get(stream.name, ())]
        if tau is not None:
            if entries and entries[-1].kept == kept:
                entries[-1] = Entry(kept, max(tau, entries[-1].tau))
            else:
                entries.append(Entry(kept, tau))
        if len(entries) > MOST:
            entries[:2] = [Entry(frozenset(), max(entries[0].tau, entries[1].tau))]
        found[stream.name] = tuple(e for at, e in enumerate(entries) if at == len(entries) - 1 or e.tau > gone.get(stream.name, -UNREAD))
    return found


def _left(kept: frozenset[Kept], now: frozenset[Kept]) -> frozenset[Kept]:
    """What a store still has of what it kept: a column that it does not keep now is lost for all its rows."""
    today = {owner: names for owner, names, _ in now}
    return frozenset((owner, names & today.get(owner, names), rules) for owner, names, rules in kept)


def settled(tau: int, stream: Stream, highs: Mapping[str, int]) -> int:
    """Tuples that nobody looked at lie at most the stream's lateness after those that come now, or these would be late."""
    known = tau != UNREAD or stream.lateness is None or stream.name not in highs
    return tau if known or stream.lateness is None else highs[stream.name] + stream.lateness


def missing(query: Query, log: Log, gone: Mapping[str, int]) -> dict[Relation, int]:
    """Per relation the largest event time of a tuple that came before the query and may not be there for it; none if all are."""
    found: dict[Relation, int] = {}
    for relation in query.join.relations:
        taus = [entry.tau for entry in log.get(relation.stream, ()) if not entry.serves(query, relation)]
        taus += [gone[relation.stream]] if relation.stream in gone else []
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


def _needs(query: Query, relation: Relation) -> frozenset[str]:
    return frozenset(attribute.column for attribute in named(query) if attribute.relation == relation)


def _rule(query: Query, relation: Relation) -> Rule:
    filters = frozenset(_text(as_stored(f)) for f in query.join.sub([relation]).filters)
    return filters, frozenset(a.column for equal in query.join.classes for a in equal if a.relation == relation)


def _text(expression: Expr) -> str:
    return json.dumps(to_json(expression))
