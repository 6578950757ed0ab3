"""A new base store begins with what another store of its stream has: containers never change, so two stores may list the same file.

Invariant: what is true of the donor's rows is true of them in the new store: how they are laid out, since when they have which column, up
to which event time some are lost, what was retained of the tuples that came. They are taken over once, with the first batch of the
generation that has the new store; from then on each store develops by itself. So a query that has stores of its own (`independent`) also
sees what is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from clash.coordinator.lifecycle.retention import UNKNOWN_TIME, RetentionEntry, RetentionLog, needed_columns
from clash.model.query import Query
from clash.model.relation import Relation
from clash.plan.logical import StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import Store, Topology
from clash.protocol.containers import ContainerRecord
from clash.topology.stores import readers

Roles = list[tuple[Query, Relation]]


class Bootstrap(NamedTuple):
    """The store of `owner` begins with the containers of the store of `donor`, of the same stream."""

    stream: str
    owner: str | None
    donor: str | None

    @property
    def store(self) -> str:
        return store_id(StoreKey(self.stream, None, self.owner))

    @property
    def source(self) -> str:
        return store_id(StoreKey(self.stream, None, self.donor))


class RetainedState(NamedTuple):
    """What bootstrapping changes of the state."""

    containers: tuple[ContainerRecord, ...]
    lost_until: Mapping[str, int]
    """By base store, the largest event time that it has lost."""
    log: RetentionLog


def choose_bootstraps(before: Topology, after: Topology, state: RetainedState, new_queries: Mapping[str, bool]) -> tuple[Bootstrap, ...]:
    """For each new store, and for the store of a query that replaces another of its name, the donor that lacks least of what it needs.
    `new_queries`: the queries that begin here, and whether they have history."""
    retained = {stream.name for stream in after.streams if stream.keep == "all"}
    bootstraps = []
    for store in after.stores:
        is_new = store.id not in before.store or store.owner in new_queries
        has_history = store.stream in retained or store.owner is None or new_queries.get(store.owner, True)
        if store.stream is None or store.stream in after.tables or not is_new or not has_history:
            continue
        key = StoreKey(store.stream, None, store.owner)
        roles = [(q, r) for q in readers(key, after.queries) for r in sorted(q.join.relations) if r.stream == store.stream]
        donors = [other for other in before.stores if other.stream == store.stream and _has_columns(other, roles, after)]
        ranked = sorted((_lost_until(donor, roles, state), donor.id != store.id, donor.id, donor.owner or "") for donor in donors)
        if ranked and ranked[0][1]:
            bootstraps.append(Bootstrap(store.stream, store.owner, ranked[0][3] or None))
    return tuple(bootstraps)


def _has_columns(donor: Store, roles: Roles, topology: Topology) -> bool:
    """Whether the donor has the columns of some role: rows without them answer no query."""
    times = {stream.name: stream.time for stream in topology.streams}
    columns = {column.column for column in donor.columns} | {times.get(str(donor.stream))}
    return not roles or any(needed_columns(query, relation) <= columns for query, relation in roles)


def _lost_until(donor: Store, roles: Roles, state: RetainedState) -> int:
    """The largest event time of a tuple that the donor may lack."""

    def serves(entry: RetentionEntry) -> bool:
        retains = any(retained.owner == donor.owner for retained in entry.retained)
        return retains and all(entry.serves(query, relation, donor.owner) for query, relation in roles)

    times = [entry.event_time for entry in state.log.get(str(donor.stream), ()) if not serves(entry)]
    return max([*times, state.lost_until.get(donor.id, -UNKNOWN_TIME)])


def bootstrap(state: RetainedState, bootstraps: Collection[Bootstrap]) -> RetainedState:
    """The state as the generation that has the new stores begins with it."""
    replaced = {new.store for new in bootstraps}
    containers = [record for record in state.containers if record.store not in replaced]
    lost_until = {store: time for store, time in state.lost_until.items() if store not in replaced}
    log = dict(state.log)
    for new in bootstraps:
        donated = [record for record in state.containers if record.store == new.source]
        containers += [replace(record, store=new.store, writer=record.writer or record.store) for record in donated]
        if new.source in state.lost_until:
            lost_until[new.store] = state.lost_until[new.source]
    for stream in {new.stream for new in bootstraps}:
        donors = {new.owner: new.donor for new in bootstraps if new.stream == stream}
        log[stream] = tuple(_with_donated(entry, donors) for entry in state.log.get(stream, ()))
    return RetainedState(tuple(containers), lost_until, log)


def _with_donated(entry: RetentionEntry, donors: Mapping[str | None, str | None]) -> RetentionEntry:
    """What a donor retained is what the new store has retained, and nothing else."""
    others = [retained for retained in entry.retained if retained.owner not in donors]
    donated = [r._replace(owner=owner) for owner, donor in donors.items() for r in entry.retained if r.owner == donor]
    return RetentionEntry(frozenset([*others, *donated]), entry.event_time)
